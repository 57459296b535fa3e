"""Steps: nodes that a backend computes in half precision have to stay in float32."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.lowered_backend import (
    LoweredBackend,
    OpenedLowering,
)
from polygraphy.application.diagnose.outcome import Found, Skip, Step, StepOutcome
from polygraphy.application.diagnose.precision.half import HalfPrecision
from polygraphy.application.diagnose.precision.half_verdict import half_culprits
from polygraphy.domain.diagnosis.commands import run_command
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.words import precision, reasons, steps, titles
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.model.regions import nodes_around
from polygraphy.domain.tensors.precision import is_float

_MOST_HOPS = 2
"""Distance in nodes within which a backend may fuse nodes."""
_FEW = 4
"""Up to this number, nodes are named even if they are nearly all. Chosen, not measured."""
_NEARLY_ALL = 0.75
"""If this share of the nodes has to stay in float32, the whole backend has to. Chosen, not
measured."""


def report_unmeasured_nodes(case: Case, lowered: LoweredBackend) -> StepOutcome:
    """Return the verdict that the whole model must stay in float32,
    because its nodes cannot be measured."""
    if isinstance(lowered.opened, OpenedLowering):
        return Skip("nodes can be measured")
    reason = reasons.right_in_float32_by(_command(case, lowered, ()), lowered.opened)
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def explain_by_kept_nodes(case: Case, lowered: LoweredBackend) -> StepOutcome:
    """Return the fewest nodes that must stay in float32, tested in the backend."""
    opened = lowered.opened
    if not isinstance(opened, OpenedLowering):
        return Skip(opened)
    with case.record_step(titles.NODES_IN_FLOAT32) as notes:
        try:
            half = _find_kept_nodes(case, lowered, opened)
        except REFUSALS as error:
            return Found(DiagnosisResult(INCONCLUSIVE, reason=str(error)), case)
        passes, loads = len(opened.built.passes), opened.built.loads
        notes.append(steps.count_of_float_nodes(len(half.kept), passes, loads))
    return Found(_conclude(case, lowered, half), case)


STEPS: Sequence[Step[LoweredBackend]] = (report_unmeasured_nodes, explain_by_kept_nodes)


def _find_kept_nodes(case: Case, lowered: LoweredBackend, opened: OpenedLowering) -> HalfPrecision:
    """Return the effect of half precision in a backend.

    Rounding at every operator shows why nodes lose too much, so the nodes at fault there are tried
    first; a backend that fuses nodes may need their neighbors as well.
    """
    half = opened.half.result(lowered.feeds)
    for hops in range(_MOST_HOPS + 1) if half.verdict == FAULT else ():
        neighbors = _add_neighbors(case.model.graph, half.kept, opened.built.passes, hops)
        values = (opened.built.run(feed, neighbors) for feed in lowered.feeds)
        after = lowered.tolerance.worst_error(lowered.exact, values)
        if after.is_tolerable:
            return evolve(half, before=lowered.worst, after=after, kept=neighbors)
    return opened.half.result(lowered.feeds, lowered=opened.built)


def _add_neighbors(
    graph: Graph, kept_names: Collection[str], castable: Collection[str], hops: int
) -> list[str]:
    """Return nodes with their castable neighbors up to `hops` steps away."""
    near = set(kept_names)
    indexes = [index for index, node in enumerate(graph.nodes) if node.label in near]
    near |= {graph.nodes[index].label for index in nodes_around(graph, indexes, hops)}
    return [name for name in castable if name in near]


def _command(
    case: Case,
    lowered: LoweredBackend,
    nodes: Sequence[str],
    options: Mapping[str, Any] | None = None,
) -> str:
    """Return the command that runs some nodes, or the whole model, in float32,
    and compares with a reference on the same data.

    Args:
        case: the model.
        lowered: the backend and its reference.
        nodes: the nodes in float32; empty means the whole model.
        options: the options of the backend, if they are not those of `nodes`.
    """
    party, reference = lowered.party, lowered.reference
    if options is None:
        is_whole = not nodes or _is_whole(lowered, nodes)
        options = (
            party.in_float32().options if is_whole else party.remedy(plain=False, without=nodes)
        )
    backends = [
        (party.name, party.backend, options),
        (reference.name, reference.backend, reference.options),
    ]
    return run_command(case.path, backends, case.data_options, is_auto=True)


def _is_whole(lowered: LoweredBackend, nodes: Sequence[str]) -> bool:
    """Return whether all nodes that can stay in float32 do:
    the whole model was computed in it then, also what a backend cannot keep apart."""
    opened = lowered.opened
    return isinstance(opened, OpenedLowering) and len(nodes) == len(opened.built.passes)


def _are_finite_alike(lowered: LoweredBackend, nodes: Sequence[str]) -> bool:
    """Return whether outputs with some nodes in float32 are infinite or NaN where the reference is.
    If not, the command that compares both would fail, though only the reference overflows."""
    opened = lowered.opened
    if not isinstance(opened, OpenedLowering):
        return True
    return all(
        np.array_equal(np.isfinite(outputs[name]), np.isfinite(exact[name]))
        for feed, exact in zip(lowered.feeds, lowered.exact)
        for outputs in (opened.built.run(feed, nodes),)
        for name in exact
        if is_float(exact[name])
    )


def _conclude(case: Case, lowered: LoweredBackend, half: HalfPrecision) -> DiagnosisResult:
    """Return the result with its verified remedy."""
    if half.verdict == ILL_CONDITIONED:
        return DiagnosisResult(ILL_CONDITIONED, reason=reasons.INPUTS_ALONE)
    if half.verdict == AGREE:
        return DiagnosisResult(AGREE, reason=reasons.ADDS_UP)
    if half.verdict != FAULT:
        return DiagnosisResult(INCONCLUSIVE, reason=reasons.NO_KEPT_NODES)
    count = len(lowered.opened.built.passes) if isinstance(lowered.opened, OpenedLowering) else 0
    if len(half.kept) > max(_FEW, _NEARLY_ALL * count):
        dtype, before = str(lowered.party.lowers_to), str(half.before)
        command = _command(case, lowered, (), lowered.party.in_float32().options)
        reason = precision.set_float32(dtype, before, len(half.kept), count, command)
        return DiagnosisResult(INCONCLUSIVE, reason=reason)
    remedy = Remedy()
    if half.kept and _are_finite_alike(lowered, half.kept):
        command = _command(case, lowered, half.kept)
        remedy = Remedy(command or None, half.after.is_tolerable)
    errors = str(half.after), str(half.before)
    proof = (
        precision.right_with_model_in_float32(*errors)
        if _is_whole(lowered, half.kept)
        else precision.right_with_nodes_in_float32(half.kept, *errors, half.is_fewest)
    )
    return DiagnosisResult(FAULT, [*half_culprits(half, remedy, [proof], lowered.party.name)])
