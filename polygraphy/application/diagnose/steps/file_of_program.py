"""Whether a file is what its exporter makes of the program: it is exported again, by the same
exporter and for the same version of operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed
from polygraphy.application.diagnose.comparisons.exported_again import (
    ExportedAgain,
    export_for_example,
    feed_export,
)
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.counterparts import Counterparts
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL_FILE, Culprit, DiagnosisResult, Remedy
from polygraphy.domain.diagnosis.exported import EXPORTER, nearest_origin, operations, same_weight
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.regions import GraphNode
from polygraphy.domain.diagnosis.twins import (
    Spot,
    TwinDifferences,
    compare_twins,
    computing_nodes,
    is_statistic,
    unlike,
)
from polygraphy.domain.diagnosis.words import evidence, remedies, steps, titles
from polygraphy.domain.model.description import Model, Node
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    OpenedProgram,
    describe_with_weights,
)

_ALIKE = 0.5
"""The share of nodes that a file has in common with another export, unless another tool has
rewritten it: then nodes are not compared one by one.
"""
_NAMED = 4
"""Differences that are listed."""
_LONGEST = 60
_LARGEST = 1 << 22
"""Elements of an example that is enlarged: exporters run it."""
_READ_BY_PYTHON = ("aten._local_scalar_dense", "aten.item")


def explain_by_file(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return the differences of a file from a correct export of its program."""
    if comparison.again is None:
        return Skip("the program cannot be exported correctly")
    return _File(case, comparison, comparison.again).result()


class _File:
    """A model beside a correct export of its program."""

    def __init__(self, case: Case, comparison: ProgramComparison, again: ExportedAgain) -> None:
        self._case, self._program, self._again = case, comparison.program, again
        self._feed, self._expected = comparison.feed, comparison.expected
        self._model: Model = describe_with_weights(case.model.proto)
        self._twin: Model = describe_with_weights(again.model.proto)
        self._nodes = computing_nodes(self._twin.graph)
        self._pairs: dict[str, str] | None = None

    def result(self) -> StepOutcome:
        """Return the differences found node by node, and the constants that depend on the
        example.
        """
        if (trained := self._find_training()) is not None:
            return Found(DiagnosisResult(FAULT, [trained]), self._case)
        differences = compare_twins(self._model.graph, self._twin.graph)
        if not differences or differences.matched < _ALIKE:
            return Skip("the file has the nodes of the export, or hardly any of them")
        if differences.has_other_nodes and not self._again.is_same_release:
            return Skip("another version of the exporter may translate differently")
        weights = [spot for spot in differences.spots if self._is_parameter(spot)]
        others = [spot for spot in differences.spots if spot not in weights]
        apart = self._find_example_changes(others, differences.has_other_nodes)
        if differences.has_other_nodes and (apart.has_other_nodes or self._is_chosen(differences)):
            return Skip("the example decides which nodes there are")
        frozen_spots = unlike(others, apart)
        culprits = []
        if frozen_spots:
            culprits.append(self._frozen_culprit(frozen_spots, apart))
        rest = [spot for spot in differences.spots if spot not in frozen_spots]
        if rest or differences.has_other_nodes:
            culprits.append(self._file(evolve(differences, spots=rest)))
        return Found(DiagnosisResult(FAULT, culprits), self._case)

    def _find_training(self) -> Culprit | None:
        """Return the nodes that compute as in training, if only the file has them."""
        trained = [node for node in self._model.graph.nodes if _trains(node, self._model)]
        if not trained or any(_trains(node, self._twin) for node in self._nodes):
            return None
        ops = ", ".join(dict.fromkeys(node.op for node in trained))
        facts = [
            evidence.computes_as_in_training(len(trained), ops),
            evidence.exported_again(self._again.words),
        ]
        remedy = self._remedy(remedies.EXPORT_IN_EVAL)
        return self._culprit(trained, "training", facts, remedy)

    def _is_parameter(self, spot: Spot) -> bool:
        """Return whether a constant of the correct export is a weight of the program, and not a
        number that its example decides.
        """
        if not spot.is_weight:
            return False
        right = np.asarray(spot.expected)
        sizes = (name for name in self._program.weights)
        return right.size > 1 and (
            spot.node.op in ("Conv", "ConvTranspose", "BatchNormalization")  # Folded, or as it is.
            or any(same_weight(right, self._program.weights[name]) for name in sizes)
        )

    def _find_example_changes(
        self, spots: Sequence[Spot], has_other_nodes: bool
    ) -> TwinDifferences:
        """Return the differences between a correct export and one with another example, for the
        first example that changes a suspect constant or the nodes.
        """
        if not spots and not has_other_nodes:
            return TwinDifferences()
        with self._case.attempt(titles.OTHER_EXAMPLE) as notes:
            for feed in other_examples(self._feed, self._again.exporter.sizes):
                try:
                    made, *_ = export_for_example(self._program, feed, self._again.exporter)
                    other = describe_with_weights(made.proto)
                except Exception:  # Exporters raise anything, and not every example is valid.
                    continue
                # Keys are positions in the correct export, so it comes second.
                apart = compare_twins(other.graph, self._twin.graph)
                if unlike(spots, apart) or (has_other_nodes and apart.has_other_nodes):
                    notes.append(steps.example_changes(len(apart.spots), apart.has_other_nodes))
                    return apart
            notes.append(steps.EXAMPLE_CHANGES_NOTHING)
        return TwinDifferences()

    def _is_chosen(self, differences: TwinDifferences) -> bool:
        """Return whether a Python condition decides about nodes that the model lacks."""
        pairs = self._counterparts()
        made = [name for position in differences.missing for name in self._nodes[position].outputs]
        return any(self._program.condition_of(pairs[name]) for name in made if name in pairs)

    def _frozen_culprit(self, spots: Sequence[Spot], apart: TwinDifferences) -> Culprit:
        """Return the constants that follow from the example.

        Args:
            spots: the constants.
            apart: in what an export with another example differs.
        """
        first = spots[0]
        shown = _text({spot.key: spot for spot in apart.spots}[first.key].value)
        values = _text(first.value), _text(first.expected)
        facts = [
            evidence.frozen_number(first.node.op, first.name, *values),
            evidence.other_example(shown),
            evidence.exported_again(self._again.words),
        ]
        operation, origin = self._operation(first.twin)
        by_size = not _follows_from_values(self._program)
        if not by_size:
            read = [one for one in self._program.nodes if one.op in _READ_BY_PYTHON]
            origin = nearest_origin(self._program.nodes, read[0]) or origin
        if operation:
            facts.insert(0, evidence.exported(operation, [first.node.op]))
        note = remedies.KEEP_SIZE if by_size and self._again.exporter.sizes else ""
        remedy = Remedy(None, False, note or remedies.KEEP_NUMBER)
        readers = [*{spot.node.label: spot.node for spot in spots}.values()]
        made = self._culprit(readers, "constant", facts, remedy, EXPORTER, origin)
        holders = [node for node in self._model.graph.nodes if first.name in node.outputs]
        if not holders:
            return made
        return evolve(made, nodes=[*(node.label for node in holders), *made.nodes], op="Constant")

    def _file(self, differences: TwinDifferences) -> Culprit:
        """Return that the file is not an export of the program."""
        spots, exported = differences.spots, evidence.exported_again(self._again.words)
        weights = [spot for spot in spots if spot.is_weight]
        note, facts, origin = remedies.EXPORT_AGAIN, [], ""
        if weights:
            names = {spot.name for spot in weights}
            facts.append(evidence.weights_differ(len(names), max(differences.weights, len(names))))
            first = weights[0]
            origin = self._operation(first.twin)[1]
            facts.append(evidence.first_weight(first.name, first.node.op, first.deviation, origin))
            if self._is_statistics(weights) and not differences.has_other_nodes:
                note = remedies.EXPORT_AGAIN_IN_EVAL
        facts += [
            evidence.other_constant(
                spot.node.op, spot.name, _text(spot.value), _text(spot.expected)
            )
            for spot in spots
            if spot not in weights
        ][:_NAMED]
        changed = [spot.node for spot in spots]
        if differences.has_other_nodes:
            said, nodes, where = self._other_nodes(differences)
            facts, changed = [*said, *facts], [*nodes, *changed]
            origin = where or origin
        cause = "structure" if differences.has_other_nodes else "attribute"
        cause = "weight" if weights and not differences.has_other_nodes else cause
        remedy = self._remedy(note)
        return self._culprit(changed, cause, [*facts, exported], remedy, MODEL_FILE, origin)

    def _is_statistics(self, weights: Sequence[Spot]) -> bool:
        """Return whether BatchNorm's running statistics explain all different weights: its mean and
        variance, or a convolution they were folded into.
        """
        folds = any("batch_norm" in node.op for node in self._program.nodes)
        parameters = [*self._program.weights.values()]
        return folds and all(is_statistic(spot, parameters) for spot in weights)

    def _other_nodes(self, differences: TwinDifferences) -> tuple[list[Fact], list[Node], str]:
        """Return facts about nodes that only one model has, the faulty ones, and the line of the
        program.
        """
        extra, missing = differences.extra, differences.missing
        facts, origin, nodes = [], "", [*extra, *differences.turned]
        done = [self._operation(position) for position in missing]
        known = [each for each in dict.fromkeys(done) if each[0]]
        if len(extra) == 1 and len(known) == 1:
            origin = known[0][1]
            facts.append(evidence.other_operator(extra[0].op, extra[0].label, *known[0]))
        else:
            facts += [evidence.only_in_file(node.op, node.label) for node in extra[:_NAMED]]
            facts += [evidence.only_in_program(*each) for each in known[:_NAMED]]
            origin = next((where for _, where in known if where), "")
        if not known:
            ops = dict.fromkeys(self._nodes[position].op for position in missing)
            facts += [evidence.only_in_program(op, "") for op in [*ops][:_NAMED]]
        facts += [evidence.other_wiring(n.op, n.label) for n in differences.turned[:_NAMED]]
        if not nodes:
            nodes = self._behind(missing)
        return facts, nodes, origin

    def _behind(self, missing: Sequence[int]) -> list[Node]:
        """Return the first node of the model behind nodes that it lacks."""
        made = {name for position in missing for name in self._nodes[position].outputs}
        counts: dict[str, list[Node]] = {}
        for node in computing_nodes(self._model.graph):
            counts.setdefault(node.op, []).append(node)
        seen: dict[str, int] = {}
        for position, node in enumerate(self._nodes):
            if position in missing:
                continue
            index = seen.get(node.op, 0)
            seen[node.op] = index + 1
            if made & set(node.inputs) and index < len(counts.get(node.op, ())):
                return [counts[node.op][index]]
        return computing_nodes(self._model.graph)[-1:]

    def _operation(self, position: int) -> tuple[str, str]:
        """Return the program operation, and its line, of a node of the correct export; both empty
        if unknown.
        """
        node = self._nodes[position]
        pairs = self._counterparts()
        theirs = next((pairs[name] for name in node.outputs if name in pairs), "")
        known = set(pairs.values())
        done = operations(self._program.nodes, theirs, known - {theirs}) if theirs else []
        first: GraphNode | None = next((one for one in done if one.op != "getitem"), None)
        if first is not None:
            return first.op, nearest_origin(self._program.nodes, first)
        return "", str(node.origin or "")

    def _counterparts(self) -> dict[str, str]:
        """Return, by tensor of the correct export, the operation that computes it."""
        if self._pairs is None:
            apart = self._case.of(self._again.model)
            values = map(self._expected.get, self._case.model.outputs)
            right = dict(zip(self._again.model.outputs, values))
            given = feed_export(self._again.model, self._feed)
            try:
                # Both take the data by the names of the model that was given.
                self._pairs = Counterparts(
                    apart, _Renamed(self._program, self._feed), given, right
                ).pairs
            except (*REFUSALS, KeyError, ValueError):
                self._pairs = {}
        return self._pairs

    def _remedy(self, note: str) -> Remedy:
        """Return the remedy with the command that exports the program again, if there is one."""
        command = self._again.command
        return Remedy(command or None, bool(command), note)

    def _culprit(
        self,
        nodes: Sequence[Node],
        cause: str,
        facts: Sequence[Fact],
        remedy: Remedy,
        party: str = MODEL_FILE,
        origin: str = "",
    ) -> Culprit:
        """Return the culprit for some nodes of the file."""
        names = [*dict.fromkeys(node.label for node in nodes)]
        tensor = next((name for node in nodes for name in node.outputs if name), None)
        op = nodes[-1].op if nodes else "Model"
        return Culprit(names, tensor, party, cause, None, facts, remedy, op, origin or None)


class _Renamed:
    """A program that is given the data under other names."""

    def __init__(self, program: OpenedProgram, feed: Feed) -> None:
        self._program, self._feed = program, feed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    def run(self, feed: Feed, keep: Any = None) -> Any:
        """Run the other model on the data of the given one, with renamed inputs."""
        return self._program.run(self._feed, keep)


def other_examples(feed: Feed, sizes: Mapping[str, Mapping[int, str]]) -> Iterator[Feed]:
    """Yield examples with other sizes of dynamic dimensions and other values."""
    if any(sizes.values()):
        larger = dict(feed)
        for name, axes in sizes.items():
            for axis in axes:
                if name in larger and np.size(larger[name]) < _LARGEST:
                    larger[name] = np.concatenate([larger[name]] * 2, axis)
        yield larger
    for changed in (_halve, _negate, np.zeros_like):
        yield {name: changed(np.asarray(array)) for name, array in feed.items()}


def _halve(array: Any) -> Any:
    """Return an array with other values: integers halved, floats multiplied by 3."""
    if is_float(array):
        return (array * array.dtype.type(3)).astype(array.dtype)
    return array // 2 if array.dtype.kind in "iu" else array


def _negate(array: Any) -> Any:
    """Return an array with other values: negated floats and bools, reversed smaller integers."""
    if array.dtype.kind == "b":
        return ~array
    return -array if is_float(array) else np.flip(array) // 3 if array.dtype.kind in "iu" else array


def _trains(node: Node, model: Model) -> bool:
    """Return whether a node computes as in training."""
    if node.op == "BatchNormalization":
        return bool(node.attribute("training_mode"))
    if node.op != "Dropout" or len(node.inputs) < 3:
        return False
    held = next((each for each in model.graph.all_weights if each.name == node.inputs[2]), None)
    return held is not None and held.values is not None and bool(np.any(np.asarray(held.values)))


def _follows_from_values(program: OpenedProgram) -> bool:
    """Return whether Python reads values of tensors in a program."""
    return any(node.op in _READ_BY_PYTHON for node in program.nodes)


def _text(value: Any) -> str:
    """Return a constant in words."""
    if value is None:
        return "computed"
    array = np.asarray(value)
    if array.size > 8:
        return titles.array_of(array.dtype, array.shape)
    return str(array.tolist())[:_LONGEST]
