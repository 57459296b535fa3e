"""Whether a file is what its exporter makes of the program: it is exported again, by the same
exporter and for the same version of operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed
from polygraphy.application.diagnose.comparisons.exported_again import (
    ReferenceExport,
    example_of,
    export_for_example,
    feed_export,
)
from polygraphy.application.diagnose.comparisons.other_examples import (
    interpolate_examples,
    other_examples,
    scale_examples,
)
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.counterparts import Counterparts, change_weights
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL_FILE, Culprit, DiagnosisResult, Remedy
from polygraphy.domain.diagnosis.exported import EXPORTER, nearest_origin, operations, same_weight
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.foreign_errors import foreign_errors
from polygraphy.domain.diagnosis.pairing import comparable_graphs
from polygraphy.domain.diagnosis.twins import (
    Spot,
    TwinDifferences,
    compare_twins,
    computing_nodes,
    example_constants,
    is_statistic,
)
from polygraphy.domain.diagnosis.words import evidence, program_evidence, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Graph, Node, Origin
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    Decision,
    Exporter,
    OpenedProgram,
)

_ALIKE = 0.5
"""With a smaller share of common nodes, another tool rewrote the file, and nodes are not compared
one by one. Chosen, not measured."""
_PART = 0.1
"""The same if the other export has all nodes of the file. Chosen, not measured."""
_NAMED = 4
"""Differences that are listed."""
_LONGEST = 120
"""Characters of a value that are shown."""
_SHOWN = 8
"""Elements of a constant that are shown."""
_MOST_BRANCHES = 24
"""Exports in which one statement of the program decides something else."""
_READ_BY_PYTHON = ("aten._local_scalar_dense", "aten.item")
_RANDOM = (
    "Bernoulli",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
"""Operators that exporters write for a module in training mode, such as dropout masks."""


def explain_by_file(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return the differences of a file from a correct export of its program."""
    if comparison.again is None:
        return Skip("the program cannot be exported correctly")
    return _FileComparison(case, comparison, comparison.again).result()


class _FileComparison:
    """Compares a model with a correct export of its program."""

    def __init__(self, case: Case, comparison: ProgramComparison, again: ReferenceExport) -> None:
        """Set the model, and a correct export with its tensors."""
        self._case, self._program, self._again = case, comparison.program, again
        self._feed, self._expected = comparison.feed, comparison.expected
        self._lost: Feed = getattr(comparison.program, "lost", {})
        self._graph, self._twin = comparable_graphs(case.model.graph, again.model.graph, HALF)
        self._nodes = computing_nodes(self._twin)
        self._pairs: dict[str, str] | None = None

    def result(self) -> StepOutcome:
        """Return the differences found node by node,
        and the constants that depend on the example."""
        if (trained := self._find_training()) is not None:
            return Found(DiagnosisResult(FAULT, [trained]), self._case)
        differences = compare_twins(self._graph, self._twin)
        if not differences:
            return Skip("the file is the export")
        if branch := self._find_other_branch(differences):
            return Found(DiagnosisResult(FAULT, branch), self._case)
        if differences.matched < _ALIKE and (differences.extra or differences.matched < _PART):
            return Skip("the file shares hardly any nodes with the export")
        if differences.has_other_nodes and (culprit := self._find_weights(differences)):
            return Found(DiagnosisResult(FAULT, [culprit]), self._case)
        if differences.has_other_nodes and not self._again.is_same_release:
            return Skip("another version of the exporter may translate differently")
        weights = [spot for spot in differences.spots if self._is_parameter(spot)]
        spots = [spot for spot in differences.spots if spot not in weights]
        apart = self._find_example_changes(spots, differences.has_other_nodes)
        if differences.has_other_nodes and (apart.has_other_nodes or self._is_chosen(differences)):
            return Skip("the example decides which nodes exist")
        frozen_spots = example_constants(spots, apart)
        culprits = []
        if frozen_spots:
            culprits.append(self._frozen_culprit(frozen_spots, apart))
        remaining_spots = [spot for spot in differences.spots if spot not in frozen_spots]
        if remaining_spots or differences.has_other_nodes:
            culprits.append(self._file_culprit(evolve(differences, spots=remaining_spots)))
        return Found(DiagnosisResult(FAULT, culprits), self._case)

    def _find_training(self) -> Culprit | None:
        """Return the culprit for nodes that compute as in training, if only the file has them;
        else None."""
        trained = [node for node in self._graph.nodes if _is_in_training_mode(node, self._graph)]
        if not trained or any(_is_in_training_mode(node, self._twin) for node in self._nodes):
            return None
        ops = ", ".join(dict.fromkeys(node.op for node in trained))
        facts = [
            program_evidence.computes_as_in_training(len(trained), ops),
            program_evidence.match_after_new_export(self._again.words),
        ]
        remedy = self._remedy(remedies.EXPORT_IN_EVAL)
        return self._culprit(trained, "training", facts, remedy)

    def _find_weights(self, differences: TwinDifferences) -> Culprit | None:
        """Return the differing weights of the file, if all outputs match with the program's weights
        although some nodes also differ; else None."""
        spots = [spot for spot in differences.spots if self._is_parameter(spot)]
        arrays = {
            spot.name: np.asarray(spot.expected)
            for spot in spots
            if np.shape(spot.value) == np.shape(spot.expected)
        }
        if not arrays:
            return None
        try:
            part = Submodel(self._case.model.proto, self._feed)
            part = change_weights(part, [spot.node for spot in spots], arrays)
            values = part.run(self._case.parties[0], plain=True)
        except REFUSALS:
            return None
        expected = {name: self._expected[name] for name in values if name in self._expected}
        if not expected or self._case.find_deviations(values, expected):
            return None
        weights = [spot for spot in spots if spot.name in arrays]
        culprit = self._file_culprit(TwinDifferences(weights, weights=differences.weights))
        return evolve(culprit, facts=[*culprit.facts, evidence.weights_restored()])

    def _is_parameter(self, spot: Spot) -> bool:
        """Return whether a constant of the correct export is a weight of the program,
        and not a number that depends on the example."""
        if not spot.is_weight:
            return False
        array = np.asarray(spot.expected)
        sizes = (name for name in self._program.weights)
        return array.size > 1 and (
            # May contain a folded BatchNormalization.
            spot.node.op in ("Conv", "ConvTranspose", "BatchNormalization")
            or any(same_weight(array, self._program.weights[name]) for name in sizes)
        )

    def _is_weight(self, spot: Spot) -> bool:
        """Return whether a constant is a weight, and not a number in the code of the program."""
        weights = self._program.weights
        number = np.asarray(spot.expected)
        return spot.is_weight and (
            number.ndim > 0 or any(same_weight(number, weights[name]) for name in weights)
        )

    def _find_example_changes(
        self, spots: Sequence[Spot], has_other_nodes: bool
    ) -> TwinDifferences:
        """Return the differences between a correct export and one with another example,
        for the first example that changes a suspect constant or the nodes.
        """
        if not spots and not has_other_nodes:
            return TwinDifferences()
        with self._case.record_step(titles.OTHER_EXAMPLE) as notes:
            for feed in other_examples(self._example, self._again.exporter.sizes):
                try:
                    example_model, *_ = export_for_example(
                        self._program, feed, self._again.exporter
                    )
                except PolygraphyException:  # Not every example is valid.
                    continue
                # Pass the correct export second, because keys are positions in the second graph.
                apart = compare_twins(example_model.graph, self._twin)
                if example_constants(spots, apart) or (has_other_nodes and apart.has_other_nodes):
                    notes.append(steps.example_changes(len(apart.spots), apart.has_other_nodes))
                    return apart
            notes.append(steps.EXAMPLE_CHANGES_NOTHING)
        return TwinDifferences()

    def _find_other_branch(self, differences: TwinDifferences) -> list[Culprit]:
        """Return the culprits if another example, or another decision of the program's Python
        code, makes the exporter write the nodes and weights of the file; empty if none does.
        """
        if self._again.exporter.dynamo:
            return []  # `torch.export` cannot choose a branch by data: it raises an error.
        try:
            decided = self._program.decisions(self._feed)
        except REFUSALS:
            return []
        is_counted = differences.has_other_nodes and any(self._again.exporter.sizes.values())
        if not is_counted and not any(decision.follows_data for decision in decided):
            return []  # No condition decides, and no size how often a step is written.
        with self._case.record_step(titles.OTHER_BRANCH) as notes:
            for graph, decision in self._other_branches(decided):
                twin_differences = compare_twins(self._graph, graph)
                if not _explains(twin_differences, differences, decision is not None):
                    continue
                notes.append(steps.same_nodes(decision.text if decision else ""))
                weights = [spot for spot in twin_differences.spots if self._is_parameter(spot)]
                culprits = [self._branch_culprit(differences, twin_differences, decision)]
                if weights:
                    culprits.append(
                        self._file_culprit(
                            TwinDifferences(weights, weights=twin_differences.weights)
                        )
                    )
                return culprits
            notes.append(steps.NO_BRANCH_EXPLAINS)
        return []

    def _other_branches(
        self, decided: Sequence[Decision]
    ) -> Iterator[tuple[Graph, Decision | None]]:
        """Yield exports with another decision of Python, each with its statement or None.

        Those for other examples come first.

        Args:
            decided: the decisions of the program's statements for the data.
        """
        sizes = self._again.exporter.sizes
        tried = 0
        for feed in (*other_examples(self._example, sizes), *scale_examples(self._example)):
            export = self._export_graph(feed, self._again.exporter)
            if export is None:
                continue
            decision = self._first_other_decision(decided, feed)
            yield export, decision
            between = self._example_between(feed, export)
            if between is not None:
                exported_graph = self._export_graph(between, self._again.exporter)
                if exported_graph is not None:
                    yield exported_graph, decision or self._first_other_decision(decided, between)
        for single_decision in (decision for decision in decided if decision.follows_data):
            for outcome in single_decision.others:
                if (tried := tried + 1) > _MOST_BRANCHES:
                    return
                exporter = evolve(self._again.exporter, decides=(single_decision, outcome))
                exported_graph = self._export_graph(self._feed, exporter)
                if exported_graph is not None:
                    yield exported_graph, single_decision

    def _export_graph(self, feed: Feed, exporter: Exporter) -> Graph | None:
        """Return the description of an export; None if the exporter fails."""
        try:
            export, *_ = export_for_example(self._program, feed, exporter)
        except PolygraphyException:  # Not every example is valid.
            return None
        return export.graph

    @property
    def _example(self) -> Feed:
        """Return the data of all inputs of the program."""
        return example_of(self._program, self._feed)

    def _first_other_decision(self, decided: Sequence[Decision], feed: Feed) -> Decision | None:
        """Return the first statement that decides differently for another example, or None.
        The result is None if none does.
        """
        try:
            with foreign_errors():
                decisions = {
                    (decision.path, decision.line): decision
                    for decision in self._program.decisions(feed)
                }
        except PolygraphyException:  # The program may not accept the example.
            return None
        for decision in decided:
            other_decision = decisions.get((decision.path, decision.line))
            if decision.follows_data and (
                other_decision is None or other_decision.outcomes != decision.outcomes
            ):
                return decision
        # Decisions of conditional expressions are not recorded.
        return next(
            (decision for decision in decided if decision.follows_data and not decision.outcomes),
            None,
        )

    def _example_between(self, feed: Feed, graph: Graph) -> Feed | None:
        """Return the example for which the exporter should write as many nodes as the file has,
        if the number of nodes grows with the example as it does for another one; else None."""
        counts = [len(computing_nodes(side)) for side in (self._twin, graph, self._graph)]
        if counts[0] == counts[1]:
            return None
        share = (counts[2] - counts[0]) / (counts[1] - counts[0])
        return interpolate_examples(self._example, feed, share) if share not in (0.0, 1.0) else None

    def _branch_culprit(
        self,
        differences: TwinDifferences,
        twin_differences: TwinDifferences,
        decision: Decision | None,
    ) -> Culprit:
        """Return the culprit for nodes of the file that another decision of the program's Python
        code explains.

        Args:
            differences: of the file from the export for the data.
            twin_differences: of the file from the export in which Python decides something else.
            decision: the statement that decides; None if it is not known.
        """
        if differences.has_other_nodes:
            facts, nodes, origin = self._other_nodes(differences)
        else:
            known_spots = {(spot.node.label, spot.name) for spot in twin_differences.spots}
            spots = [s for s in differences.spots if (s.node.label, s.name) not in known_spots]
            facts = [
                program_evidence.other_constant(spot.node.op, spot.name, *_constant_texts(spot))
                for spot in spots[:_NAMED]
            ]
            nodes, origin = [spot.node for spot in spots], ""
        if decision is not None:
            of_branch = program_evidence.file_of_other_branch(decision.text, decision.is_loop)
            facts.insert(0, of_branch)
            line = re.search(r":(\d+)", origin)
            if line is None or not decision.line < int(line[1]) <= decision.last_line:
                origin = str(Origin(decision.path, decision.line))
        else:
            facts.insert(0, program_evidence.file_of_other_example())
            lines = map(self._line_of_number, differences.missing)
            origin = next(filter(None, lines), origin)
        facts += self._lost_facts()
        facts.append(program_evidence.match_after_new_export(self._again.words))
        is_loop = decision is not None and decision.is_loop
        remedy = Remedy(None, False, remedies.KEEP_LOOP if is_loop else remedies.KEEP_BRANCH)
        culprit = self._culprit(nodes, "constant", facts, remedy, EXPORTER, origin)
        return culprit if len(nodes) == 1 else evolve(culprit, op="")

    def _is_chosen(self, differences: TwinDifferences) -> bool:
        """Return whether a Python condition on data decides if the missing nodes are exported."""
        try:
            decided = self._program.decisions(self._feed)
        except REFUSALS:
            decided = []
        if decided and not any(decision.follows_data for decision in decided):
            return False
        pairs = self._counterparts()
        names = [name for position in differences.missing for name in self._nodes[position].outputs]
        return any(self._program.condition_of(pairs[name]) for name in names if name in pairs)

    def _frozen_culprit(self, spots: Sequence[Spot], apart: TwinDifferences) -> Culprit:
        """Return the culprit for constants that depend on the example.

        Args:
            spots: the constants.
            apart: in what an export with another example differs.
        """
        first = spots[0]
        other_spot = {spot.key: spot for spot in apart.spots}[first.key]
        *values, text = _constant_texts(first, other_spot.value)
        facts = [
            program_evidence.frozen_number(first.node.op, first.name, values[0], values[1]),
            program_evidence.other_example(text),
            program_evidence.match_after_new_export(self._again.words),
        ]
        operation, origin = self._operation(first.twin)
        read = [node for node in self._program.nodes if node.operator in _READ_BY_PYTHON]
        lines = [nearest_origin(self._program.nodes, node) for node in read]
        origin = self._line_of_number(first.twin) or (
            origin if not lines or origin in lines else lines[0] or origin
        )
        if operation:
            facts.insert(0, program_evidence.export_of_operation(operation, [first.node.op]))
        by_size = not read and not self._lost
        note = remedies.KEEP_SIZE if by_size and self._again.exporter.sizes else ""
        remedy = Remedy(None, False, note or remedies.KEEP_NUMBER)
        facts += self._lost_facts()
        readers = [*{spot.node.label: spot.node for spot in spots}.values()]
        culprit = self._culprit(readers, "constant", facts, remedy, EXPORTER, origin)
        holders = [node for node in self._graph.nodes if first.name in node.outputs]
        if not holders:
            return culprit
        return evolve(
            culprit, nodes=[*(node.label for node in holders), *culprit.nodes], op="Constant"
        )

    def _lost_facts(self) -> list[Fact]:
        """Return the fact that the model lacks inputs of the program; none if it has all."""
        return [program_evidence.lost_inputs([*self._lost])] if self._lost else []

    def _file_culprit(self, differences: TwinDifferences) -> Culprit:
        """Return the culprit that states that the file is not an export of the program."""
        spots, exported = differences.spots, program_evidence.match_after_new_export(
            self._again.words
        )
        weights = [spot for spot in spots if self._is_weight(spot)]
        note, facts = remedies.EXPORT_AGAIN, []
        origin = self._operation((weights or spots)[0].twin)[1] if spots else ""
        if weights:
            names = {spot.name for spot in weights}
            facts.append(
                program_evidence.weights_differ(len(names), max(differences.weights, len(names)))
            )
            first = weights[0]
            facts.append(
                program_evidence.first_weight(first.name, first.node.op, first.deviation, origin)
            )
            if self._are_statistics(weights) and not differences.has_other_nodes:
                note = remedies.EXPORT_AGAIN_IN_EVAL
        others = dict.fromkeys(  # Several nodes may read the same constant.
            program_evidence.other_constant(spot.node.op, spot.name, *_constant_texts(spot))
            for spot in spots
            if spot not in weights
        )
        facts += [*others][:_NAMED]
        changed = [spot.node for spot in spots]
        if differences.has_other_nodes:
            said_facts, nodes, where = self._other_nodes(differences)
            facts, changed = [*said_facts, *facts], [*nodes, *changed]
            origin = where or origin
        cause = "structure" if differences.has_other_nodes else "attribute"
        if any(spot.is_weight for spot in spots) and not differences.has_other_nodes:
            cause = "weight"
        remedy = self._remedy(note)
        return self._culprit(changed, cause, [*facts, exported], remedy, MODEL_FILE, origin)

    def _are_statistics(self, weights: Sequence[Spot]) -> bool:
        """Return whether BatchNorm's running statistics explain all different weights:
        its mean and variance, or a convolution they were folded into.
        """
        folds = any("batch_norm" in node.operator for node in self._program.nodes)
        parameters = [*self._program.weights.values()]
        return folds and all(is_statistic(spot, parameters) for spot in weights)

    def _other_nodes(self, differences: TwinDifferences) -> tuple[list[Fact], list[Node], str]:
        """Return facts about nodes of only one model, the faulty ones, and the source line."""
        extra, missing = differences.extra, differences.missing
        turned = [node for node, _ in differences.turned]
        facts, origin, nodes = [], "", [*extra, *turned]
        finished_operations = [self._operation(position) for position in missing]
        known_pairs = [names for names in dict.fromkeys(finished_operations) if names[0]]
        if len(extra) == 1 and len(known_pairs) == 1:
            origin = known_pairs[0][1]
            facts.append(
                program_evidence.other_operator(extra[0].op, extra[0].label, *known_pairs[0])
            )
        else:
            facts += [program_evidence.only_in_file(node.op, node.label) for node in extra[:_NAMED]]
            facts += [program_evidence.only_in_program(*names) for names in known_pairs[:_NAMED]]
            # Without a pair, the line is that of the next operation.
            pairs = known_pairs or finished_operations
            origin = next((where for _, where in pairs if where), "")
        if not known_pairs:
            ops = dict.fromkeys(self._nodes[position].op for position in missing)
            facts += [program_evidence.only_in_program(op, "") for op in [*ops][:_NAMED]]
        facts += [program_evidence.other_wiring(node.op, node.label) for node in turned[:_NAMED]]
        if turned and not origin:
            origin = self._operation(differences.turned[0][1])[1]
        if not nodes:
            nodes = self._nodes_after_gap(missing)
        return facts, nodes, origin

    def _nodes_after_gap(self, missing: Sequence[int]) -> list[Node]:
        """Return, in a list, the first node of the model after nodes that it lacks;
        the last node if none reads their results."""
        names = {name for position in missing for name in self._nodes[position].outputs}
        counts: dict[str, list[Node]] = {}
        for node in computing_nodes(self._graph):
            counts.setdefault(node.op, []).append(node)
        seen_values: dict[str, int] = {}
        for position, node in enumerate(self._nodes):
            if position in missing:
                continue
            index = seen_values.get(node.op, 0)
            seen_values[node.op] = index + 1
            if names & set(node.inputs) and index < len(counts.get(node.op, ())):
                return [counts[node.op][index]]
        return computing_nodes(self._graph)[-1:]

    def _operation(self, position: int) -> tuple[str, str]:
        """Return the program operation of a node of the correct export, and its line, else two "".

        If only later nodes compute tensors of the program, the line is theirs.
        """
        node = self._nodes[position]
        pairs, pair = self._counterparts(), self._pair(position)
        known_pairs = set(pairs.values())
        nodes = operations(self._program.nodes, pair, known_pairs - {pair}) if pair else []
        first: Node | None = next((node for node in nodes if node.operator != "getitem"), None)
        if first is not None:
            return first.operator, nearest_origin(self._program.nodes, first)
        later = self._next_operation(node)
        return "", "" if later is None else nearest_origin(self._program.nodes, later)

    def _pair(self, position: int) -> str:
        """Return the program tensor that equals an output of a node of the correct export.
        The result is empty if there is none."""
        pairs = self._counterparts()
        return next((pairs[name] for name in self._nodes[position].outputs if name in pairs), "")

    def _next_operation(self, node: Node) -> Node | None:
        """Return the first program operation that follows a node of the correct export, or None.
        The result is None if it is unknown.
        """
        pairs = self._counterparts()
        by_name = {operation.name: operation for operation in self._program.nodes}
        reached = set(node.outputs)
        for later in self._nodes:
            if reached.isdisjoint(later.inputs):
                continue
            reached.update(later.outputs)
            names = (pairs[name] for name in later.outputs if name in pairs)
            if (operation := next(filter(None, map(by_name.get, names)), None)) is not None:
                return operation
        return None

    def _line_of_number(self, position: int) -> str:
        """Return the line where Python computes the number that a node of the correct export reads.
        The result is empty if it is the line of its operation."""
        later = self._next_operation(self._nodes[position])
        name = self._pair(position) or ("" if later is None else later.name)
        return self._program.line_of_number(name)

    def _counterparts(self) -> dict[str, str]:
        """Return, by tensor of the correct export, the operation that computes it."""
        if self._pairs is None:
            apart = self._case.with_model(self._again.model)
            values = map(self._expected.get, self._case.model.outputs)
            expected = dict(zip(self._again.model.outputs, values))
            export = feed_export(self._again.model, self._example)
            try:
                # `_RenamedProgram` accepts the data under the names of the export.
                self._pairs = Counterparts(
                    apart, _RenamedProgram(self._program, self._example), export, expected
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


class _RenamedProgram:
    """A program whose inputs have different names."""

    def __init__(self, program: OpenedProgram, feed: Feed) -> None:
        """Set the program, and the data under its own names."""
        self._program, self._feed = program, feed

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the program."""
        return getattr(self._program, name)

    def run(self, feed: Feed, keep: Any = None) -> Any:
        """Return the outputs of the program on its data.
        `feed` has the same data under other names."""
        return self._program.run(self._feed, keep)


def _explains(
    twin_differences: TwinDifferences, differences: TwinDifferences, is_decided: bool
) -> bool:
    """Return whether an export with another decision, or another example, explains the difference
    of a file from an export for the data.

    Args:
        twin_differences: in what the file differs from it.
        differences: in what the file differs from the export for the data.
        is_decided: whether a statement is known that decides something else.
    """
    if twin_differences.has_other_nodes:
        return False
    fewer = len(twin_differences.spots) < len(differences.spots)
    return differences.has_other_nodes or (is_decided and fewer)


def _is_in_training_mode(node: Node, graph: Graph) -> bool:
    """Return whether a node runs in training mode."""
    if node.op in _RANDOM:
        return True
    if node.op == "BatchNormalization":
        return bool(node.attribute("training_mode"))
    if node.op != "Dropout" or len(node.inputs) < 3:
        return False
    weight = graph.constants.get(node.inputs[2])
    return (
        weight is not None and weight.values is not None and bool(np.any(np.asarray(weight.values)))
    )


def _constant_texts(spot: Spot, *others: Any) -> list[str]:
    """Return a constant of the file, of the correct export and of other exports as text;
    large arrays of one shape by an element that differs."""
    values = (spot.value, spot.expected, *others)
    if any(value is None for value in values) or len({np.shape(value) for value in values}) > 1:
        absent = titles.NOT_SET if spot.operand is None else "computed"
        return [absent if value is None else _text(value) for value in values]
    arrays = [np.asarray(constant) for constant in values]
    differs = np.asarray(arrays[0] != arrays[1])
    if differs.size <= _SHOWN or not differs.any():
        return [*map(_text, values)]
    index = tuple(int(at) for at in np.argwhere(differs)[0])
    return [f"{_text(array[index])} at {[*index]}" for array in arrays]


def _text(value: Any) -> str:
    """Return a constant as text."""
    array = np.asarray(value)
    if array.size > _SHOWN:
        return titles.array_of(array.dtype, array.shape)
    numbers = [float(f"{number:.6g}") for number in array.reshape(-1)] if is_float(array) else []
    shown = np.reshape(numbers, array.shape) if numbers else array
    return str(shown.tolist())[:_LONGEST]
