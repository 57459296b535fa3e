"""Step: rows whose features lie on a threshold of a tree reach a different leaf than in float64."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL, Culprit, DiagnosisResult, Remedy
from polygraphy.domain.diagnosis.tree_thresholds import (
    Tie,
    differing_rows,
    find_ties,
    is_short,
    is_tree,
    move_thresholds,
    opposite_mode,
)
from polygraphy.domain.diagnosis.words import changes, evidence, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Node

_RUNS = 64
"""Sets of thresholds that are moved, at most."""


def explain_by_thresholds(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the trees with thresholds that equal features of all differing rows; else a skip."""
    trees = [node for node in case.model.graph.nodes if is_tree(node)]
    if len(trees) != 1:
        return Skip("the model is not a single ensemble of trees")
    rows = _differing_rows(comparison.outputs, comparison.saved_values)
    if not rows:
        return Skip("the outputs do not differ row by row")
    [node] = trees
    try:
        values = {**trace_tensors(case, comparison.arbiter, comparison.feed).values}
    except PolygraphyException:
        values = {}
    features = {**values, **comparison.feed}.get(node.inputs[0])
    ties = [] if features is None else find_ties(node, features)
    if not rows <= {row for tie in ties for row in tie.rows}:
        return Skip("some rows have no feature equal to a threshold")
    with case.record_step(titles.THRESHOLDS) as notes:
        explained, runs = _explained_rows(case, comparison, node, ties, rows)
        notes.append(steps.rows_explained(len(explained), len(rows), runs))
    if explained != rows:
        return Skip("moved thresholds do not explain all rows")
    count = next(len(value) for value in comparison.saved_values.values())
    used = sorted(tie.value for tie in ties if tie.rows & rows)
    facts = [evidence.rows_on_thresholds(len(rows), count, used)]
    output = next(filter(None, node.outputs))
    opposite = opposite_mode(node) if all(map(is_short, used)) and runs == 1 else None
    if opposite is None:
        cause, remedy = "rounding", Remedy(None, False, remedies.KEEP_THRESHOLDS)
        facts.append(evidence.thresholds_moved())
    else:
        change = changes.other_attribute(node.op, "nodes_modes", *opposite)
        cause, remedy = "attribute", Remedy(None, False, remedies.undo([change]))
        facts += [evidence.short_thresholds(), evidence.change_of_node(change)]
    culprit = Culprit([node.label], output, MODEL, cause, None, facts, remedy, node.op)
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _differing_rows(values: Values, saved: Values) -> frozenset[int]:
    """Return the rows in which any output differs; empty if an output has no rows to compare."""
    rows: frozenset[int] = frozenset()
    for name, expected in saved.items():
        if name not in values:
            continue
        differing = differing_rows(values[name], expected)
        if differing is None:
            return frozenset()
        rows |= differing
    return rows


def _explained_rows(
    case: Case, comparison: SavedComparison, node: Node, ties: list[Tie], rows: frozenset[int]
) -> tuple[frozenset[int], int]:
    """Return the rows that moved thresholds explain, and the number of runs.
    With some thresholds moved, these rows match the saved ones.
    """
    part = Submodel(case.model.proto, comparison.feed)
    output = next(filter(None, node.outputs))
    open_rows, runs = rows, 0
    for moved in _sets_of_ties(ties):
        if not open_rows or runs == _RUNS:
            break
        runs += 1
        try:
            values = part.change(output, move_thresholds(node, moved)).run(case.parties[0])
        except PolygraphyException:
            break
        # A row that matches and lies on no moved threshold was already correct.
        open_rows &= _differing_rows(values, comparison.saved_values)
    return rows - open_rows, runs


def _sets_of_ties(ties: list[Tie]) -> Iterator[Collection[Tie]]:
    """Yield sets of ties: all, each, all but each, pairs."""
    yield ties
    if len(ties) > 1:
        yield from ([tie] for tie in ties)
    if len(ties) > 2:
        yield from ([tie for tie in ties if tie is not left_out] for left_out in ties)
        yield from (
            [tie, other_tie] for index, tie in enumerate(ties) for other_tie in ties[:index]
        )
