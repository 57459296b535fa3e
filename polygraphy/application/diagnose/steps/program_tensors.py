"""Steps: a model differs from the program that it was exported from, tensor by tensor."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Values
from polygraphy.application.diagnose.comparisons.exported_again import ExportedAgain
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.counterparts import (
    Counterparts,
    OtherWeights,
    Place,
    change_weights,
    other_weights,
)
from polygraphy.application.diagnose.golden_files import SavedRun
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import Part, compute_part, cut_part
from polygraphy.application.diagnose.wrong_nodes import judge_tensor
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    MODEL,
    MODEL_FILE,
    Culprit,
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
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.regions import GraphNode, region_before
from polygraphy.domain.diagnosis.words import (
    errors,
    evidence,
    program_evidence,
    remedies,
    steps,
    titles,
)
from polygraphy.domain.rounding import move_by_epsilons, spread
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    SuspectedParty,
)
from polygraphy.ports.editing import open_model

_EXPORTED_NODES, _FEWEST_EXPORTS = 3_000, 2
"""Nodes that all other exports have together, and how many exports are tried of a large model."""
_TOLD = 4
"""A program of so few operations may be wrong in all of them."""
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
    """Find out why outputs differ, if the program shows no operations."""
    if comparison.program.nodes:
        return Skip("the program shows its operations")
    run = SavedRun(comparison.source, [{**one} for one in comparison.sets], kind=titles.PROGRAM)
    answer = comparison.diagnose_saved(case, [run], comparison.feeds, comparison.arbiter)
    if not isinstance(answer, Found):
        return answer
    who = EXPORTER if comparison.again is None else MODEL_FILE
    culprits = [_blame(who, one) for one in answer.result.culprits]
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def explain_by_program_tensors(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return the nodes that differ from the program, with causes."""
    return _ProgramTensors(case, comparison).result()


class _ProgramTensors:
    """A model and its program on data on which they differ, with all tensors of both."""

    def __init__(self, case: Case, comparison: ProgramComparison) -> None:
        self._case = case
        self._comparison = comparison
        self._again = comparison.again
        self._source = comparison.source
        self._program = comparison.program
        self._feed = comparison.feed
        self._expected = comparison.expected
        self._party = case.parties[0]
        self._blamed: list[tuple[tuple[str, ...], Culprit]] = []
        with case.attempt("counterparts") as notes:
            self._found = Counterparts(case, self._program, self._feed, self._expected)
            notes.append(self._found.notes())

    def result(self) -> StepOutcome:
        """Return the nodes that differ from the program, with causes."""
        case, saved = self._case, self._found.saved
        side = case.model.indexed_graph
        self._check_relation(side)
        run = SavedRun("program", [saved], kind=titles.PROGRAM, is_traced=True)
        arbiter = self._comparison.arbiter
        found = self._comparison.diagnose_saved(case, [run], [self._feed], arbiter)
        if not isinstance(found, Found) or found.result.verdict != FAULT:
            return found
        wrong = [
            one for one in found.result.culprits if one.party == MODEL and one.tensor is not None
        ]
        proof = self._found.proof([str(one.tensor) for one in wrong if one.tensor in saved])
        culprits = [
            self._explain_culprit(one, saved, side, proof) if one in wrong else one
            for one in found.result.culprits
        ]
        culprits = self._add_remedies(_merge_culprits(self._unite_culprits(culprits)))
        return evolve(found, result=evolve(found.result, culprits=culprits))

    def _unite_culprits(self, culprits: Sequence[Culprit]) -> list[Culprit]:
        """Return culprits, merged if they read the same incorrect weight."""
        made = [*culprits]
        for names in dict.fromkeys(names for names, _ in self._blamed):
            same = [one for each, one in self._blamed if each == names]
            nodes = [*dict.fromkeys(name for one in same for name in one.nodes)]
            made[made.index(same[0])] = evolve(same[0], nodes=nodes)
            for one in same[1:]:
                made.remove(one)
        return made

    def _check_relation(self, side: Side) -> None:
        """Raise UsageError if outputs were paired by order only, and nothing shows that the model
        comes from the program.
        """
        program, found = self._program, self._found
        recorded = set(getattr(self._case.facts, "sources", {}).values())
        known = sum(node.name in recorded for node in program.nodes)
        if found.pairs.keys() - self._expected.keys() or known * 2 > len(program.nodes):
            return
        held = {each.values.size for each in side.weights.values() if each.values is not None}
        sizes = [each.size for each in program.weights.values() if np.ndim(each) > 1]
        lost = [size for size in sizes if held.isdisjoint((size, 2 * size))]  # Of two directions.
        fits = any(
            np.shape(found.own[name]) == np.shape(value)
            for name, value in self._expected.items()
            if name in found.own
        )
        is_known = len(program.nodes) > _TOLD or (sizes and not fits)
        if is_known and len(lost) * 2 >= len(sizes):
            raise errors.different_program(len(lost), len(sizes))

    def _explain_culprit(
        self, culprit: Culprit, saved: Values, side: Side, proof: list[Fact]
    ) -> Culprit:
        """Return a culprit with its program operation, cause, and party at fault."""
        nodes = self._case.model.nodes
        tensor = str(culprit.tensor)
        if tensor not in saved:  # Only outputs could be compared.
            return evolve(culprit, party=EXPORTER)
        theirs = self._found.pairs.get(tensor, "")
        known = set(self._found.pairs.values())
        done = operations(self._program.nodes, theirs, known - {theirs})
        region = region_before(nodes, tensor, saved.keys() | self._feed.keys())
        value = self._compute_alone(region, tensor, saved)
        facts = [*culprit.facts]
        origin = culprit.origin
        party, cause = EXPORTER, culprit.cause
        if done:
            first = next((each for each in done if each.op != "getitem"), done[0])
            ops = dict.fromkeys(nodes[i].op for i in region if nodes[i].op != "Constant")
            facts.insert(
                0, program_evidence.exported(first.op, [*ops], _other_operations(done, first))
            )
            origin = nearest_origin(self._program.nodes, first) or culprit.origin
            party, said = self._judge_operations(done, region, tensor, value, saved)
            others = None
            if party == EXPORTER and value is not None:
                others = self._other_weights(culprit, done, region, (value, saved[tensor]), side)
            if others is not None:
                said += self._prove_weights(others.values, side) or proof
                return self._blame_weights(
                    evolve(culprit, facts=facts, origin=origin), others, said
                )
            facts += said
        if party == EXPORTER and not (culprit.cause in _PROVEN and culprit.remedy.proven):
            parts = [nodes[index] for index in region]
            made = self._causes(done, parts, (value, saved[tensor]), side)
            # Folded weights are never those of the program: they are no cause where one is proven.
            causes = (each for each in made if each[0] != "weight" or not culprit.remedy.proven)
            cause, fact = next(causes, ("translation", None))
            facts += [] if fact is None else [fact]
        return evolve(culprit, party=party, cause=cause, facts=[*facts, *proof], origin=origin)

    def _other_weights(
        self,
        one: Culprit,
        done: Sequence[GraphNode],
        region: Sequence[int],
        values: tuple[Any, Any],
        side: Side,
    ) -> OtherWeights | None:
        """Return the weights that explain the entire difference, unless a stronger explanation
        exists; else None.
        """
        tensor = str(one.tensor)
        held: Any = ChainMap({}, self._found.saved, self._feed, self._found.own)  # type: ignore[arg-type]
        try:
            part = cut_part(self._case.model, region, held, [tensor])
        except REFUSALS:
            return None
        place = Place(self._case.model.nodes, region, part, self._found.own, tensor, values, done)
        is_sure = one.cause in _PROVEN and one.remedy.proven
        others = other_weights(place, side, self._program, self._party, numbers=not is_sure)
        is_other = others is not None and is_sure and one.cause != "weight" and others.is_as_held
        return None if is_other else others  # With the module's weight as it is, it is that.

    def _blame_weights(self, one: Culprit, others: OtherWeights, said: Sequence[Fact]) -> Culprit:
        """Return the culprit whose weights differ from the program's."""
        nodes = [self._case.model.nodes[index] for index in others.readers]
        became, origin = one.facts[0], one.origin
        if others.operation is not None:
            ops = [*dict.fromkeys(each.op for each in nodes)]
            became = program_evidence.exported(others.operation.op, ops)
            origin = nearest_origin(self._program.nodes, others.operation) or origin
        theirs = self._found.pairs.get(str(one.tensor), "")
        # A number that stands in a branch of Python's is another one in the other branch.
        is_branch = others.operation is None and bool(theirs and self._program.condition_of(theirs))
        proof = evidence.undone_gives_expected(source="program")
        culprit = evolve(
            one,
            nodes=[each.name for each in nodes],
            party=EXPORTER,
            cause="translation" if is_branch else "weight",
            facts=[became, one.facts[1], *others.facts, proof, *said],
            remedy=Remedy(),
            op=nodes[-1].op,
            origin=origin,
        )
        self._blamed.append((tuple(others.values), culprit))
        return culprit

    def _prove_weights(self, weights: Mapping[str, Any], side: Side) -> list[Fact]:
        """Return a fact that all outputs match with other weights; empty if they do not."""
        try:
            whole = Part(self._case.model.proto, self._feed)
            made = change_weights(whole, side.nodes, weights).run(self._party, plain=True)
        except REFUSALS:
            return []
        return [] if self._found.off(made) else [evidence.weights_restored()]

    def _compute_alone(
        self, region: Sequence[int], tensor: str, saved: Values, who: Any = None
    ) -> Any:
        """Return the result of isolated nodes on the program's values; None if they cannot
        be run.
        """
        held: Any = ChainMap({}, saved, self._feed, self._found.own)  # type: ignore[arg-type]
        return compute_part(self._case.model, region, held, who or self._party, [tensor]).get(
            tensor
        )

    def _judge_operations(
        self,
        done: Sequence[GraphNode],
        region: Sequence[int],
        tensor: str,
        value: Any,
        saved: Values,
    ) -> tuple[str, list[Fact]]:
        """Return the party at fault according to float64 formulas, and the reason."""
        facts: list[Fact] = []
        for node in done:
            is_right = self._is_right(node)
            if is_right is None:
                continue
            if not is_right:
                return self._source, [program_evidence.framework_is_wrong(node.op, self._source)]
            facts = [program_evidence.framework_is_right(done[0].op)]
        formulas = resolve(SuspectedParty, "formulas")
        made = self._compute_alone(region, tensor, saved, formulas)
        if made is not None and value is not None and not judge_tensor(value, made, 0.0)[1]:
            facts.append(program_evidence.backend_follows_nodes(self._party.name))
        return EXPORTER, facts

    def _is_right(self, node: GraphNode) -> bool | None:
        """Return whether a program operation agrees with its float64 formula; None if there is no
        formula.
        """
        theirs, feed = self._found.theirs, self._feed
        right = self._program.alone(node.name, theirs, feed)
        if right is None or node.name not in theirs:
            return None
        if not judge_tensor(theirs[node.name], right, 0.0)[1]:
            return True
        read = {name: theirs[name] for name in node.reads if name in theirs}
        read.update(
            (name, self._program.weights[name])
            for name in node.reads
            if name in self._program.weights
        )
        made = [
            self._program.alone(
                node.name,
                ChainMap(_move_all(read, seed), theirs),
                _move_all(feed, seed),
            )
            for seed in _MOVES
        ]
        noise = spread([each for each in made if each is not None], right)
        return not judge_tensor(theirs[node.name], right, noise)[1]

    def _causes(
        self,
        done: Sequence[GraphNode],
        nodes: Sequence[GraphNode],
        values: tuple[Any, Any],
        side: Side,
    ) -> Iterator[tuple[str, Fact]]:
        """Yield causes of an exporter error with facts, the most certain first.

        Args:
            done: the operations of the program.
            nodes: what they became.
            values: what these make, and what they should.
            side: the model.
        """
        value, right = values
        described = {node.label: node for node in side.nodes}
        for node in nodes:
            own = described.get(node.name)
            if node.op.startswith(_RANDOM) or (own and own.attribute("training_mode")):
                yield "training", program_evidence.in_training_mode(node.op)
        if value is None:
            return
        if (order := layout_of(value, right)) is not None:
            yield "layout", program_evidence.other_layout(order)
        if value.dtype != right.dtype:
            yield "dtype", program_evidence.other_type(str(value.dtype), str(right.dtype))
        theirs = {
            name for node in done for name in (node.name, *node.reads)
        } & self._found.theirs.keys()
        types = {str(self._found.theirs[name].dtype) for name in theirs}
        for node in nodes:
            made: Any = self._found.own.get(node.makes[0]) if node.op == "Cast" else None
            if is_float(made) and types and str(made.dtype) not in types:
                yield "dtype", program_evidence.extra_cast(
                    node.name, str(made.dtype), sorted(types)
                )
        yield from self._missing_weights(done, nodes, side)
        if np.shape(value) != np.shape(right):
            yield from _find_frozen_numbers(nodes, side, value, right)

    def _missing_weights(
        self, done: Sequence[GraphNode], nodes: Sequence[GraphNode], side: Side
    ) -> Iterator[tuple[str, Fact]]:
        """Yield cause and fact for weights of an operation that the nodes lack."""
        asked = [name for node in done for name in node.reads if name in self._program.weights]
        held = {
            name: np.asarray(side.weights[name].values)
            for node in nodes
            for name in node.reads
            if name in side.weights and side.weights[name].values is not None
        }
        reordered = any(node.op in ("GRU", "LSTM", "RNN") for node in nodes)
        is_folded = len({node.op for node in done} - {"getitem"}) > 1
        for name in asked:
            right = self._program.weights[name]
            sized = [other for other, array in held.items() if array.size == right.size > 1]
            if sized and not any(same_weight(held[one], right, reordered) for one in sized):
                yield "weight", program_evidence.other_weight(sized[0], name, is_folded)

    def _add_remedies(self, culprits: Sequence[Culprit]) -> list[Culprit]:
        """Return culprits with remedies: another export if one is correct, else a change to the
        model.
        """
        mine = [one for one in culprits if one.party == EXPORTER]
        if not mine:
            return [*culprits]
        branches = {id(one): fact for one in mine if (fact := self._branch_fact(one)) is not None}
        again = self._again
        if again is not None:
            right, command = again.words, again.command
        else:
            right, command = self._other_export()
        made = []
        for one in culprits:
            if one.party != EXPORTER:
                made.append(one)
            elif id(one) in branches and again is not None:
                facts = [*one.facts, branches[id(one)], program_evidence.same_exporter_is_right()]
                remedy = Remedy(None, False, remedies.KEEP_BRANCH)
                made.append(evolve(one, cause="constant", facts=facts, remedy=remedy))
            elif one.cause == "constant" and (
                again is not None or not any(self._program.open_dimensions.values())
            ):
                made.append(evolve(one, remedy=Remedy(None, False, remedies.KEEP_SIZE)))
            elif again is not None and not again.is_same_release:
                note = remedies.export_with(f"PyTorch {again.release}")
                made.append(evolve(one, remedy=Remedy(command or None, bool(command), note)))
            elif again is not None:
                made.append(one)
            elif right:
                said = "" if command else remedies.export_with(right)
                made.append(evolve(one, remedy=Remedy(command or None, True, said)))
            elif one.remedy.proven:
                made.append(one)
            else:
                nothing = remedies.no_other_export(self._source)
                made.append(evolve(one, remedy=Remedy(None, False, nothing)))
        return _blame_file(made, again) if again is not None and again.is_same_release else made

    @property
    def _kind(self) -> str:
        """The exporter of the model, in words."""
        recorded = getattr(self._case.facts, "sources", {})
        return "dynamo=True" if recorded else "dynamo=False"

    def _branch_fact(self, one: Culprit) -> Fact | None:
        """Return the fact that a Python branch decides about an operation, if nothing else explains
        its difference; else None.
        """
        theirs = self._found.pairs.get(str(one.tensor), "")
        asked = self._program.condition_of(theirs) if one.cause == "translation" and theirs else ""
        return program_evidence.decided_by_python(theirs, asked) if asked else None

    def _other_export(self) -> tuple[str, str]:
        """Return the name and command of the first other export that is correct on the data; empty
        if there is none.
        """
        # That of the same exporter is wrong, as the file is.
        others = [other for other in self._program.exports() if other[0] != self._kind]
        with self._case.attempt(titles.OTHER_EXPORTER) as notes:
            nodes = max(len(self._case.model.nodes), 1)
            for tried, (words, command, make) in enumerate(others):
                if tried >= max(_EXPORTED_NODES // nodes, _FEWEST_EXPORTS):
                    notes.append(steps.EXPORTS_SKIPPED)
                    break
                said = self._right_export(make)
                notes.append(f"{words}: {said}.")
                if said == "right":
                    return words, command
        return "", ""

    def _right_export(self, make: Any) -> str:
        """Return a short note if another export is correct; empty if it is not."""
        try:
            opened = open_model(make(self._feed))
            names = dict(zip(opened.inputs, self._feed.values()))
            made = self._party.load(opened.given)(names)
        except Exception as error:  # Exporters raise anything.
            return f"fails ({type(error).__name__})"
        own = dict(zip(self._case.model.outputs, made.values()))
        return "wrong" if self._found.off(own) else "right"


def _move_all(arrays: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return arrays moved by rounding errors."""
    return {
        name: move_by_epsilons(array, seed + number)
        for number, (name, array) in enumerate(arrays.items())
    }


def _find_frozen_numbers(
    nodes: Sequence[GraphNode], side: Side, value: Any, right: Any
) -> Iterator[tuple[str, Fact]]:
    """Yield cause and fact for numbers of the example that the exporter may have frozen."""
    for node in nodes:
        for name in node.reads if node.op in _SHAPING else ():
            held = side.weights.get(name)
            if held is None or held.values is None or is_float(held.values):
                continue
            number = np.asarray(held.values).tolist()
            shapes = np.shape(value), np.shape(right)
            yield "constant", program_evidence.frozen_size(node.op, name, number, *shapes)


def _other_operations(done: Sequence[GraphNode], first: GraphNode) -> list[str]:
    """Return the other operators that an operation is exported to."""
    return [*dict.fromkeys(node.op for node in done if node.op not in ("getitem", first.op))]


def _merge_culprits(culprits: Sequence[Culprit]) -> list[Culprit]:
    """Return culprits without those whose nodes belong to another culprit."""
    kept: list[Culprit] = []
    for one in sorted(culprits, key=lambda each: -len(each.nodes)):
        if not any(
            one.party == other.party and set(one.nodes) <= set(other.nodes) for other in kept
        ):
            kept.append(one)
    return [one for one in culprits if any(one is each for each in kept)]


def _blame(party: str, one: Culprit) -> Culprit:
    """Return a culprit that blames a party in place of the model."""
    return evolve(one, party=party) if one.party == MODEL else one


def _blame_file(culprits: Sequence[Culprit], again: ExportedAgain) -> list[Culprit]:
    """Return culprits, with those due to the exporter replaced by the file: a new export is
    correct.
    """
    blamed = [one for one in culprits if one.party == EXPORTER and one.cause != "constant"]
    if not blamed:
        return [*culprits]
    first, facts = blamed[0], [each for one in blamed for each in one.facts]
    remedy = Remedy(again.command or None, bool(again.command), remedies.EXPORT_AGAIN)
    file = evolve(
        first,
        nodes=[*dict.fromkeys(name for one in blamed for name in one.nodes)],
        party=MODEL_FILE,
        cause="weight" if {one.cause for one in blamed} == {"weight"} else "structure",
        facts=[*dict.fromkeys(facts), program_evidence.exported_again(again.words)],
        remedy=remedy,
    )
    return [file, *(one for one in culprits if one not in blamed)]
