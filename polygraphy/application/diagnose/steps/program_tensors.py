"""Steps: a model differs from the program that it was exported from, tensor by tensor."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Values
from polygraphy.application.diagnose.comparisons.exported_again import (
    ReferenceExport,
    example_of,
    export_for_example,
    feed_export,
)
from polygraphy.application.diagnose.comparisons.other_examples import other_examples
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.counterparts import (
    Counterparts,
    OtherWeights,
    ProgramMismatch,
    change_weights,
    other_weights,
)
from polygraphy.application.diagnose.golden_files import SavedRun
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import Submodel, compute_part, cut_part
from polygraphy.application.diagnose.wrong_nodes import judge_tensor
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    MODEL_FILE,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.exported import (
    EXPORTER,
    layout_of,
    nearest_origin,
    operations,
    same_weight,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.foreign_errors import foreign_errors, original_error
from polygraphy.domain.diagnosis.twins import compare_twins
from polygraphy.domain.diagnosis.words import (
    errors,
    evidence,
    program_evidence,
    remedies,
    steps,
    titles,
)
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import move_by_epsilons, spread
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    SuspectedParty,
)
from polygraphy.ports.editing import open_model

_EXPORTED_NODES, _FEWEST_EXPORTS = 3_000, 2
"""Nodes that all other exports have together, and how many exports are tried of a large model."""
_TOLD = 4
"""In a program with at most this number of operations, all can be wrong."""
_MOVES = (11, 23)
"""Seeds of what is moved to see what rounding does to an operation."""
_PROVEN = ("attribute", "epsilon", "weight")
"""Causes that are known for sure once a change of the model was tried."""
_RANDOM = ("Dropout", "Bernoulli", "Multinomial", "Random")
_SHAPING = frozenset(
    {"ConstantOfShape", "Expand", "Gather", "Pad", "Range", "Reshape", "Resize", "Slice", "Split",
     "Tile"}
)  # fmt: skip
"""Operators of which a number that an exporter took from its example is an operand."""


def explain_by_program_outputs(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return the outcome of comparing outputs only, for a program that shows no operations."""
    if comparison.program.nodes:
        return Skip("the operations of the program are known")
    run = SavedRun(
        comparison.source, [{**values} for values in comparison.sets], kind=titles.PROGRAM
    )
    answer = comparison.diagnose_saved(case, [run], comparison.feeds, comparison.arbiter)
    if not isinstance(answer, Found):
        return answer
    exporter = EXPORTER if comparison.again is None else MODEL_FILE
    culprits = [_blame(exporter, culprit) for culprit in answer.result.culprits]
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def explain_by_program_tensors(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return the nodes that differ from the program, with causes."""
    return _doubt_other_program(case, comparison, _ProgramTensors(case, comparison).result())


def _doubt_other_program(
    case: Case, comparison: ProgramComparison, outcome: StepOutcome
) -> StepOutcome:
    """Return the outcome; an inconclusive one if it blames the file for its nodes,
    although the exporter writes other nodes of the same program for another example."""
    if not isinstance(outcome, Found) or not any(
        culprit.party == MODEL_FILE and culprit.cause == "structure"
        for culprit in outcome.result.culprits
    ):
        return outcome
    if not _decides_nodes(comparison):
        return outcome
    try:
        decided = comparison.program.decisions(comparison.feed)
    except REFUSALS:
        decided = []
    statements = [decision.text for decision in decided if decision.follows_data]
    culprits = [
        evolve(culprit, remedy=Remedy(None, False, remedies.KEEP_BRANCH))
        for culprit in outcome.result.culprits
    ]
    reason = program_evidence.example_decides_nodes(statements)
    return evolve(outcome, result=DiagnosisResult(INCONCLUSIVE, culprits, reason=reason))


def _decides_nodes(comparison: ProgramComparison) -> bool:
    """Return whether the exporter of the file writes other nodes for another example."""
    again = comparison.again
    if again is None or again.exporter.dynamo:
        return False
    example = example_of(comparison.program, comparison.feed)
    for feed in other_examples(example, again.exporter.sizes):
        try:
            export, *_ = export_for_example(comparison.program, feed, again.exporter)
        except PolygraphyException:  # Not every example is valid.
            continue
        if compare_twins(export.graph, again.model.graph).has_other_nodes:
            return True
    return False


class _ProgramTensors:
    """A model and its program on data on which they differ, with all tensors of both."""

    def __init__(self, case: Case, comparison: ProgramComparison) -> None:
        """Compute the tensors of both, and pair them."""
        self._case = case
        self._comparison = comparison
        self._again = comparison.again
        self._source = comparison.source
        self._program = comparison.program
        self._feed = comparison.feed
        self._expected = comparison.expected
        self._party = case.parties[0]
        self._blamed: list[tuple[tuple[str, ...], Culprit]] = []
        with case.record_step("counterparts") as notes:
            self._found = Counterparts(case, self._program, self._feed, self._expected)
            notes.append(self._found.notes())

    def result(self) -> StepOutcome:
        """Return the nodes that differ from the program, with causes."""
        case, saved = self._case, self._found.saved
        side = case.model.graph
        self._check_relation(side)
        run = SavedRun("program", [saved], kind=titles.PROGRAM, is_traced=True)
        arbiter = self._comparison.arbiter
        saved_pairs = self._comparison.diagnose_saved(case, [run], [self._feed], arbiter)
        if not isinstance(saved_pairs, Found) or saved_pairs.result.verdict != FAULT:
            return saved_pairs
        wrong = [
            culprit
            for culprit in saved_pairs.result.culprits
            if culprit.party == MODEL and culprit.tensor is not None
        ]
        proof = self._found.proof(
            [str(culprit.tensor) for culprit in wrong if culprit.tensor in saved]
        )
        culprits = [
            self._explain_culprit(culprit, saved, side, proof) if culprit in wrong else culprit
            for culprit in saved_pairs.result.culprits
        ]
        culprits = self._add_remedies(_merge_culprits(self._unite_culprits(culprits)))
        return evolve(saved_pairs, result=evolve(saved_pairs.result, culprits=culprits))

    def _unite_culprits(self, culprits: Sequence[Culprit]) -> list[Culprit]:
        """Return culprits, merged if they read the same incorrect weight."""
        unite_culprits = [*culprits]
        for names in dict.fromkeys(names for names, _ in self._blamed):
            equal_culprits = [culprit for texts, culprit in self._blamed if texts == names]
            nodes = [*dict.fromkeys(name for culprit in equal_culprits for name in culprit.nodes)]
            unite_culprits[unite_culprits.index(equal_culprits[0])] = evolve(
                equal_culprits[0], nodes=nodes
            )
            for culprit in equal_culprits[1:]:
                unite_culprits.remove(culprit)
        return unite_culprits

    def _check_relation(self, side: Graph) -> None:
        """Raise UsageError if outputs were paired by order only, and nothing shows that the model
        comes from the program.
        """
        program, counterparts = self._program, self._found
        recorded = set(getattr(self._case.facts, "sources", {}).values())
        known_count = sum(node.label in recorded for node in program.nodes)
        if counterparts.pairs.keys() - self._expected.keys() or known_count * 2 > len(
            program.nodes
        ):
            return
        held_sizes = {
            weight.values.size for weight in side.constants.values() if weight.values is not None
        }
        sizes = [weight.size for weight in program.weights.values() if np.ndim(weight) > 1]
        lost_sizes = [
            size for size in sizes if held_sizes.isdisjoint((size, 2 * size))
        ]  # Exporters join the weights of both directions of an RNN, hence `2 * size`.
        fits = any(
            np.shape(counterparts.own[name]) == np.shape(value)
            for name, value in self._expected.items()
            if name in counterparts.own
        )
        is_known = len(program.nodes) > _TOLD or (sizes and not fits)
        if is_known and len(lost_sizes) * 2 >= len(sizes):
            raise errors.different_program(len(lost_sizes), len(sizes))

    def _explain_culprit(
        self, culprit: Culprit, saved: Values, side: Graph, proof: list[Fact]
    ) -> Culprit:
        """Return a culprit with its program operation, cause, and party at fault."""
        nodes = self._case.model.nodes
        tensor = str(culprit.tensor)
        if tensor not in saved:  # No intermediate tensors are known, so the cause is not searched.
            return evolve(culprit, party=EXPORTER)
        pair = self._found.pairs.get(tensor, "")
        pairs = set(self._found.pairs.values())
        finished_operations = operations(self._program.nodes, pair, pairs - {pair})
        region = region_before(self._case.model.graph, tensor, saved.keys() | self._feed.keys())
        value = self._compute_alone(region, tensor, saved)
        facts = [*culprit.facts]
        origin = culprit.origin
        party, cause = EXPORTER, culprit.cause
        if finished_operations:
            first = next(
                (node for node in finished_operations if node.operator != "getitem"),
                finished_operations[0],
            )
            ops = dict.fromkeys(
                nodes[i].operator for i in region if nodes[i].operator != "Constant"
            )
            facts.insert(
                0,
                program_evidence.export_of_operation(
                    first.operator, [*ops], _other_operations(finished_operations, first)
                ),
            )
            origin = nearest_origin(self._program.nodes, first) or culprit.origin
            party, said_facts = self._judge_operations(
                finished_operations, region, tensor, value, saved
            )
            weights = None
            if party == EXPORTER and value is not None:
                weights = self._other_weights(
                    culprit, finished_operations, region, (value, saved[tensor]), side
                )
            if weights is not None:
                said_facts += self._prove_weights(weights.values, side) or proof
                return self._blame_weights(
                    evolve(culprit, facts=facts, origin=origin), weights, said_facts
                )
            facts += said_facts
        if party == EXPORTER and not (culprit.cause in _PROVEN and culprit.remedy.proven):
            parts = [nodes[index] for index in region]
            new_pairs = self._causes(finished_operations, parts, (value, saved[tensor]), side)
            # Folded weights always differ from the program's weights, so they do not count if
            # another cause is proven.
            causes = (
                names for names in new_pairs if names[0] != "weight" or not culprit.remedy.proven
            )
            cause, fact = next(causes, ("translation", None))
            facts += [] if fact is None else [fact]
        return evolve(culprit, party=party, cause=cause, facts=[*facts, *proof], origin=origin)

    def _other_weights(
        self,
        culprit: Culprit,
        nodes: Sequence[Node],
        region: Sequence[int],
        values: tuple[Any, Any],
        side: Graph,
    ) -> OtherWeights | None:
        """Return the weights that explain the entire difference, unless a stronger explanation
        exists; else None.
        """
        tensor = str(culprit.tensor)
        held_values: Any = ChainMap({}, self._found.saved, self._feed, self._found.own)  # type: ignore[arg-type]
        try:
            part = cut_part(self._case.model, region, held_values, [tensor])
        except REFUSALS:
            return None
        mismatch = ProgramMismatch(
            self._case.model.nodes, region, part, self._found.own, tensor, values, nodes
        )
        is_sure = culprit.cause in _PROVEN and culprit.remedy.proven
        weights = other_weights(
            mismatch, side, self._program, self._party, tries_numbers=not is_sure
        )
        is_other = (
            weights is not None and is_sure and culprit.cause != "weight" and weights.is_as_held
        )
        # The file contains this weight of the module unchanged, so the weight is not the cause.
        return None if is_other else weights

    def _blame_weights(
        self, single_culprit: Culprit, other_weights: OtherWeights, facts: Sequence[Fact]
    ) -> Culprit:
        """Return the culprit whose weights differ from the program's."""
        nodes = [self._case.model.nodes[index] for index in other_weights.readers]
        became, origin = single_culprit.facts[0], single_culprit.origin
        if other_weights.operation is not None:
            ops = [*dict.fromkeys(node.operator for node in nodes)]
            became = program_evidence.export_of_operation(other_weights.operation.operator, ops)
            origin = nearest_origin(self._program.nodes, other_weights.operation) or origin
        pair = self._found.pairs.get(str(single_culprit.tensor), "")
        # A constant in a branch of a Python `if` has a different value in the other branch.
        is_branch = other_weights.operation is None and bool(
            pair and self._program.condition_of(pair)
        )
        proof = evidence.undone_gives_expected(source="program")
        culprit = evolve(
            single_culprit,
            nodes=[node.label for node in nodes],
            party=EXPORTER,
            cause="translation" if is_branch else "weight",
            facts=[became, single_culprit.facts[1], *other_weights.facts, proof, *facts],
            remedy=Remedy(),
            op=nodes[-1].operator,
            origin=origin,
        )
        self._blamed.append((tuple(other_weights.values), culprit))
        return culprit

    def _prove_weights(self, weights: Mapping[str, Any], side: Graph) -> list[Fact]:
        """Return a fact that all outputs match with other weights; empty if they do not."""
        try:
            part = Submodel(self._case.model.proto, self._feed)
            values = change_weights(part, side.nodes, weights).run(self._party, plain=True)
        except REFUSALS:
            return []
        return [] if self._found.differing_outputs(values) else [evidence.weights_restored()]

    def _compute_alone(
        self, region: Sequence[int], tensor: str, saved: Values, value: Any = None
    ) -> Any:
        """Return the result of isolated nodes on the program's values, or None.
        The result is None if they cannot be run."""
        values: Any = ChainMap({}, saved, self._feed, self._found.own)  # type: ignore[arg-type]
        return compute_part(self._case.model, region, values, value or self._party, [tensor]).get(
            tensor
        )

    def _judge_operations(
        self,
        nodes: Sequence[Node],
        region: Sequence[int],
        tensor: str,
        value: Any,
        saved: Values,
    ) -> tuple[str, list[Fact]]:
        """Return the party at fault according to float64 formulas, and the reason."""
        facts: list[Fact] = []
        for node in nodes:
            if not self._overwritten.isdisjoint(node.reads):
                break  # The recorded value is older or newer than what the operation read.
            is_right = self._is_right(node)
            if is_right is None:
                continue
            if not is_right:
                return self._source, [
                    program_evidence.framework_is_wrong(node.operator, self._source)
                ]
            facts = [program_evidence.framework_is_right(nodes[0].operator)]
        formulas = resolve(SuspectedParty, "formulas")
        computed_value = self._compute_alone(region, tensor, saved, formulas)
        if (
            computed_value is not None
            and value is not None
            and not judge_tensor(value, computed_value, 0.0).is_wrong
        ):
            facts.append(program_evidence.backend_follows_nodes(self._party.name))
        return EXPORTER, facts

    @cached_property
    def _overwritten(self) -> set[str]:
        """Return the tensors of the program that an operation in place changes, also by a view."""
        makers = {name: node for node in self._program.nodes for name in node.makes}
        names: set[str] = set()
        for node in self._program.nodes:
            name = node.inputs[0] if node.operator.endswith("_") and node.inputs else ""
            while name and name not in names:
                names.add(name)
                maker = makers.get(name)
                name = maker.inputs[0] if maker is not None and maker.inputs else ""
        return names

    def _is_right(self, node: Node) -> bool | None:
        """Return whether a program operation agrees with its float64 formula, or None.
        The result is None if there is no formula.
        """
        reference_values, feed = self._found.theirs, self._feed
        expected = self._program.run_operation(node.label, reference_values, feed)
        if expected is None or node.label not in reference_values:
            return None
        if not judge_tensor(reference_values[node.label], expected, 0.0).is_wrong:
            return True
        read = {name: reference_values[name] for name in node.reads if name in reference_values}
        read.update(
            (name, self._program.weights[name])
            for name in node.reads
            if name in self._program.weights
        )
        moves = [
            self._program.run_operation(
                node.label,
                ChainMap(_perturb_arrays(read, seed), reference_values),
                _perturb_arrays(feed, seed),
            )
            for seed in _MOVES
        ]
        noise = spread([value for value in moves if value is not None], expected)
        return not judge_tensor(reference_values[node.label], expected, noise).is_wrong

    def _causes(
        self,
        finished_nodes: Sequence[Node],
        nodes: Sequence[Node],
        values: tuple[Any, Any],
        side: Graph,
    ) -> Iterator[tuple[str, Fact]]:
        """Yield causes of an exporter error with facts, the most certain first.

        Args:
            finished_nodes: the operations of the program.
            nodes: the corresponding nodes of the model.
            values: the computed and the expected outputs of these nodes.
            side: the model.
        """
        value, expected = values
        for node in nodes:
            if node.operator.startswith(_RANDOM) or node.attribute("training_mode"):
                yield "training", program_evidence.in_training_mode(node.operator)
        if value is None:
            return
        if (order := layout_of(value, expected)) is not None:
            yield "layout", program_evidence.other_layout(order)
        if value.dtype != expected.dtype:
            yield "dtype", program_evidence.other_type(str(value.dtype), str(expected.dtype))
        reference_names = {
            name for node in finished_nodes for name in (node.label, *node.reads)
        } & self._found.theirs.keys()
        types = {str(self._found.theirs[name].dtype) for name in reference_names}
        for node in nodes:
            computed_value: Any = (
                self._found.own.get(node.makes[0]) if node.operator == "Cast" else None
            )
            if is_float(computed_value) and types and str(computed_value.dtype) not in types:
                yield "dtype", program_evidence.extra_cast(
                    node.label, str(computed_value.dtype), sorted(types)
                )
        yield from self._missing_weights(finished_nodes, nodes, side)
        if np.shape(value) != np.shape(expected):
            yield from _find_frozen_numbers(nodes, side, value, expected)

    def _missing_weights(
        self, finished_nodes: Sequence[Node], nodes: Sequence[Node], side: Graph
    ) -> Iterator[tuple[str, Fact]]:
        """Yield cause and fact for weights of an operation that the nodes lack."""
        names = [
            name for node in finished_nodes for name in node.reads if name in self._program.weights
        ]
        arrays = {
            name: np.asarray(side.constants[name].values)
            for node in nodes
            for name in node.reads
            if name in side.constants and side.constants[name].values is not None
        }
        reordered = any(node.operator in ("GRU", "LSTM", "RNN") for node in nodes)
        is_folded = len({node.operator for node in finished_nodes} - {"getitem"}) > 1
        for name in names:
            weight = self._program.weights[name]
            sized = [
                other_name for other_name, array in arrays.items() if array.size == weight.size > 1
            ]
            if not sized or any(same_weight(arrays[own], weight, reordered) for own in sized):
                continue
            wrong = [own for own in sized if not self._is_one_of(arrays[own], names, reordered)]
            if wrong:
                yield "weight", program_evidence.other_weight(wrong[0], name, is_folded)
            else:
                yield "structure", program_evidence.unused_weight(name)

    def _is_one_of(self, array: Any, names: Sequence[str], reordered: bool) -> bool:
        """Return whether a weight of the model equals one of some weights of the program."""
        return any(same_weight(array, self._program.weights[name], reordered) for name in names)

    def _add_remedies(self, culprits: Sequence[Culprit]) -> list[Culprit]:
        """Return culprits with remedies: another export if one is correct,
        else a change to the model.
        """
        own_culprits = [culprit for culprit in culprits if culprit.party == EXPORTER]
        if not own_culprits:
            return [*culprits]
        branches = {
            id(culprit): fact
            for culprit in own_culprits
            if (fact := self._branch_fact(culprit)) is not None
        }
        again = self._again
        if again is not None:
            words, command = again.words, again.command
        else:
            words, command = self._other_export()
        new_culprits = []
        for culprit in culprits:
            if culprit.party != EXPORTER:
                new_culprits.append(culprit)
            elif id(culprit) in branches and again is not None:
                facts = [
                    *culprit.facts,
                    branches[id(culprit)],
                    program_evidence.same_exporter_is_right(),
                ]
                remedy = Remedy(None, False, remedies.KEEP_BRANCH)
                new_culprits.append(evolve(culprit, cause="constant", facts=facts, remedy=remedy))
            elif culprit.cause == "constant" and (
                again is not None or not any(self._program.open_dimensions.values())
            ):
                new_culprits.append(evolve(culprit, remedy=Remedy(None, False, remedies.KEEP_SIZE)))
            elif again is not None and not again.is_same_release:
                note = remedies.export_with(f"PyTorch {again.release}")
                new_culprits.append(
                    evolve(culprit, remedy=Remedy(command or None, bool(command), note))
                )
            elif again is not None:
                new_culprits.append(culprit)
            elif words:
                note_text = "" if command else remedies.export_with(words)
                new_culprits.append(
                    evolve(culprit, remedy=Remedy(command or None, True, note_text))
                )
            elif culprit.remedy.proven:
                new_culprits.append(culprit)
            else:
                statement = remedies.no_other_export(self._source)
                new_culprits.append(evolve(culprit, remedy=Remedy(None, False, statement)))
        return (
            _blame_file(new_culprits, again)
            if again is not None and again.is_same_release
            else new_culprits
        )

    @property
    def _kind(self) -> str:
        """Return the name of the model's exporter as text."""
        recorded = getattr(self._case.facts, "sources", {})
        return "dynamo=True" if recorded else "dynamo=False"

    def _branch_fact(self, culprit: Culprit) -> Fact | None:
        """Return the fact that a Python branch decides about an operation, if nothing else explains
        its difference; else None.
        """
        pair = self._found.pairs.get(str(culprit.tensor), "")
        condition = (
            self._program.condition_of(pair) if culprit.cause == "translation" and pair else ""
        )
        return program_evidence.python_condition(pair, condition) if condition else None

    def _other_export(self) -> tuple[str, str]:
        """Return the name and command of the first other export that is correct on the data.
        The result is empty if there is none.
        """
        # The same exporter would repeat the fault of the file.
        exports = [export for export in self._program.exports() if export[0] != self._kind]
        with self._case.record_step(titles.OTHER_EXPORTER) as notes:
            nodes = max(len(self._case.model.nodes), 1)
            for tried, (words, command, make) in enumerate(exports):
                if tried >= max(_EXPORTED_NODES // nodes, _FEWEST_EXPORTS):
                    notes.append(steps.EXPORTS_SKIPPED)
                    break
                try:
                    is_right = self._is_right_export(make)
                except PolygraphyException as error:
                    notes.append(steps.twin_fails(words, type(original_error(error)).__name__))
                    continue
                notes.append(steps.twin_is(words, is_right))
                if is_right:
                    return words, command
        return "", ""

    def _is_right_export(self, make: Any) -> bool:
        """Return whether another export is correct; raise its error if it fails."""
        with foreign_errors():
            opened = open_model(make(self._feed))
            example = feed_export(opened, example_of(self._program, self._feed))
            values = self._party.load(opened.given)(example)
        own_values = dict(zip(self._case.model.outputs, values.values()))
        return not self._found.differing_outputs(own_values)


def _perturb_arrays(arrays: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return arrays perturbed by rounding errors."""
    return {
        name: move_by_epsilons(array, seed + number)
        for number, (name, array) in enumerate(arrays.items())
    }


def _find_frozen_numbers(
    nodes: Sequence[Node], side: Graph, value: Any, expected: Any
) -> Iterator[tuple[str, Fact]]:
    """Yield cause and fact for numbers that the exporter may have frozen from the example."""
    for node in nodes:
        for name in node.reads if node.operator in _SHAPING else ():
            weight = side.constants.get(name)
            if weight is None or weight.values is None or is_float(weight.values):
                continue
            number = np.asarray(weight.values).tolist()
            shapes = np.shape(value), np.shape(expected)
            yield "constant", program_evidence.frozen_size(node.operator, name, number, *shapes)


def _other_operations(nodes: Sequence[Node], first: Node) -> list[str]:
    """Return the other operators that an operation is exported to."""
    return [
        *dict.fromkeys(
            node.operator for node in nodes if node.operator not in ("getitem", first.operator)
        )
    ]


def _merge_culprits(culprits: Sequence[Culprit]) -> list[Culprit]:
    """Return culprits without those whose nodes belong to another culprit."""
    kept_culprits: list[Culprit] = []
    for culprit in sorted(culprits, key=lambda culprit: -len(culprit.nodes)):
        if not any(
            culprit.party == other_culprit.party and set(culprit.nodes) <= set(other_culprit.nodes)
            for other_culprit in kept_culprits
        ):
            kept_culprits.append(culprit)
    return [
        culprit
        for culprit in culprits
        if any(culprit is single_culprit for single_culprit in kept_culprits)
    ]


def _blame(party: str, culprit: Culprit) -> Culprit:
    """Return a culprit that blames a party in place of the model."""
    return evolve(culprit, party=party) if culprit.party == MODEL else culprit


def _blame_file(culprits: Sequence[Culprit], again: ReferenceExport) -> list[Culprit]:
    """Return culprits, with those due to the exporter replaced by the file:
    a new export is correct.
    """
    blamed = [
        culprit for culprit in culprits if culprit.party == EXPORTER and culprit.cause != "constant"
    ]
    if not blamed:
        return [*culprits]
    first, facts = blamed[0], [fact for culprit in blamed for fact in culprit.facts]
    remedy = Remedy(again.command or None, bool(again.command), remedies.EXPORT_AGAIN)
    file = evolve(
        first,
        nodes=[*dict.fromkeys(name for culprit in blamed for name in culprit.nodes)],
        party=MODEL_FILE,
        cause="weight" if {culprit.cause for culprit in blamed} == {"weight"} else "structure",
        facts=[*dict.fromkeys(facts), program_evidence.match_after_new_export(again.words)],
        remedy=remedy,
    )
    return [file, *(culprit for culprit in culprits if culprit not in blamed)]
