"""Finds out which tensor of its program each tensor of a model is, also behind where they part, and
which weights are others than in the program.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.parts import Submodel, cut_part
from polygraphy.application.diagnose.rounding import rounding_accumulates
from polygraphy.application.diagnose.tensor_trace import rename_tensors, tensor_store, trace_tensors
from polygraphy.domain.diagnosis.exported import (
    Fingerprint,
    arrangements,
    fingerprint_of,
    same_tensors,
    same_weight,
    stack_weights,
    tensors_without_counterpart,
    weight_relation,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes, evidence, program_evidence, steps, titles
from polygraphy.domain.errors import BackendError
from polygraphy.domain.model.graph import ARGUMENTS, Graph, Node
from polygraphy.domain.rounding import deviation
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import OpenedProgram, SuspectedParty
from polygraphy.ports.editing import open_model

_TRIED = 8
"""Tensors of either model that are tried as counterparts where the models diverge."""
_AHEAD = (12, 60)
"""Nodes that are computed to test a pair: an operation of a program can become 25 nodes."""
_REplaceD = 64
"""Most weights of the program that are tried in place of one of the model."""
_EXACTLY, _OF_BEFORE, _ENOUGH = 1e-4, 0.05, 1e-3
"""What others may leave of a difference: of the size of the tensor, and of the difference; and with
how much of that no better one is looked for.
"""
_CONSTANTS = 12
"""Most constants that are solved for."""
_NEWTON = 6
"""Steps of Newton's method; it doubles the number of right digits in each."""
_FILLING = 1e4
"""A fill value of at least this size often stands for infinity: masks have -1e4, -65504 or -1e9."""
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
_ARITHMETIC = ("aten.add", "aten.sub", "aten.rsub", "aten.mul", "aten.div", "aten.pow")
_TELLING = 4
"""For tensors with fewer elements, another constant explains any difference. Chosen, not measured.
"""


class Counterparts:
    """The tensors of a model and of its program on the same data.

    Attributes:
        own: the tensors of the model as the party computes them, by name.
        theirs: the results of the program's operations, by operation.
        pairs: by tensor of the model the operation of the program that makes the same.
        saved: by tensor of the model what the program has for it; and, by a name of its own, what
            only the program has.
    """

    def __init__(self, case: Case, program: OpenedProgram, feed: Feed, expected: Values) -> None:
        """Compute all tensors, and pair them with those of the program.

        Args:
            case: the model, of which the first party makes the tensors.
            program: the program that the model was exported from.
            feed: the data.
            expected: the return values of the program, by the outputs of the model.
        """
        self._case = case
        self._program = program
        self._feed = feed
        self._expected = expected
        self._party = case.parties[0]
        self.theirs = tensor_store(case)
        program.run(feed, self.theirs.__setitem__)
        self.own = trace_tensors(case, self._party, feed).values
        self._changed: Values = {}
        self._mine = _fingerprints(self.own)
        self._prints = _fingerprints(self.theirs)
        self._named = _exporter_names(case, program)
        self.pairs: dict[str, str] = {}
        self._pair_tensors()
        for name, value in expected.items():
            if name not in self.pairs and (operation := self._operation_of_return(value)):
                self.pairs[name] = operation
        lost_names = self.theirs.keys() - set(self.pairs.values())
        names = {titles.of_program(name): name for name in lost_names}
        self.saved: MutableMapping[str, Any] = ChainMap(
            {**expected}, rename_tensors(self.theirs, {**self.pairs, **names})  # type: ignore[arg-type]
        )

    def notes(self) -> str:
        """Return a note with the number of tensor pairs."""
        new_names = {
            name for node in self._case.model.nodes for name in node.makes
        } & self._mine.keys()
        return steps.counterparts(len(self.pairs.keys() & new_names), len(new_names))

    def _operation_of_return(self, value: Any) -> str:
        """Return the operation that computes a return value of the program.
        The result is empty if there is none."""
        fingerprint = fingerprint_of(value)
        equal_prints = [
            name
            for name, single_fingerprint in self._prints.items()
            if fingerprint and fingerprint.distance(single_fingerprint) == 0
        ]
        return equal_prints[-1] if equal_prints else ""

    def _pair_tensors(self) -> None:
        """Pair all tensors: by value and, after the models diverge, by computing later nodes from
        the program's values.
        """
        self._match_values()
        for _ in range(_TRIED):
            if not self.differing_outputs(ChainMap(self._changed, self.own)):  # type: ignore[arg-type]
                break
            pair = next(self._diverging_pairs(), None)
            if pair is None:
                break
            name, reference_name = pair
            self.pairs[name] = reference_name
            given_values = {name: self.theirs[reference_name]}
            values = self._compute_with(given_values)
            self._changed = ChainMap(given_values, values, self._changed)  # type: ignore[arg-type]
            self._mine.update(_fingerprints(values))
            self._match_values()

    def _match_values(self) -> None:
        """Pair more tensors by value.
        If model and program have equally many operators with the same inputs and results, pair them
        in order, so that a cosine is not paired with a neighboring sine.
        """
        nodes = self._case.model.nodes
        graphs = nodes, self._program.nodes
        self.pairs |= same_tensors(self._mine, self._prints, self._named, self.pairs, graphs)
        groups: dict[tuple[str, ...], list[str]] = {}
        for node in nodes:
            for name in self.pairs.keys() & set(node.makes):
                groups.setdefault((self.pairs[name], *node.reads), []).append(name)
        reads = {node.label: node.reads for node in self._program.nodes}
        wrong: set[str] = set()
        for (reference_name, *_), new_names in groups.items():
            beside = [name for name in reads if reads[name] == reads.get(reference_name)]
            if len(beside) == len(new_names) > 1:
                wrong.update(
                    name
                    for name, other_name in zip(new_names, beside)
                    if other_name != reference_name
                )
        times = Counter(self.pairs.values())
        for node in nodes if wrong else ():
            for name in self.pairs.keys() & set(node.makes):
                # A tensor computed from an incorrect one may equal a tensor computed from its
                # neighbor, so this pair is not reliable.
                if name in wrong or (times[self.pairs[name]] > 1 and wrong & set(node.reads)):
                    wrong.add(name)
                    del self.pairs[name]

    def _diverging_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of corresponding tensors with different values, the likeliest first."""
        nodes = self._case.model.nodes
        unpaired = tensors_without_counterpart(nodes, self.pairs.keys())
        unpaired_reference = tensors_without_counterpart(
            self._program.nodes, set(self.pairs.values())
        )
        names = {name for node in nodes if node.reads for name in node.makes}
        tried = 0
        for name in unpaired:
            if name not in self._mine or name not in names or tried == _TRIED:
                continue
            fingerprint, recorded = self._mine[name], self._named.get(name)
            fitting = [
                name
                for name in unpaired_reference
                if name in self._prints
                and (self._prints[name].shape == fingerprint.shape or name == recorded)
            ]
            fitting.sort(key=lambda other_name: other_name != recorded)
            tried += bool(fitting)
            for most, other_name in product(_AHEAD, fitting[:_TRIED]):
                if self._fits(name, other_name, unpaired_reference, most):
                    yield name, other_name

    def _fits(
        self, tensor: str, program_tensor: str, remaining_names: Sequence[str], most: int
    ) -> bool:
        """Return whether the program's value, put in place of a tensor, leads to further matching
        tensors.
        """
        value = self.theirs[program_tensor]
        if tensor in self._expected:
            return not self.differing_outputs({tensor: value})
        prints = _fingerprints(self._compute_with({tensor: value}, most))
        behind = (
            remaining_names.index(program_tensor) + 1 if program_tensor in remaining_names else 0
        )
        later = {
            name: self._prints[name] for name in remaining_names[behind:] if name in self._prints
        }
        return bool(same_tensors(prints, later, {}, {}))

    def _compute_with(self, given_values: Mapping[str, Any], most: int | None = None) -> Values:
        """Return the tensors that the model computes from its inputs after given tensors replace
        its own.

        Args:
            given_values: by tensor.
            most: number of nodes computed; None for all.
        """
        behind, chosen = set(given_values), []
        for index, node in enumerate(self._case.model.nodes):
            if not behind.isdisjoint(node.reads) and behind.isdisjoint(node.makes):
                behind.update(node.makes)
                chosen.append(index)
        values: Any = ChainMap(dict(given_values), self._changed, self.own, self._feed)  # type: ignore[arg-type]
        try:
            part = cut_part(self._case.model, chosen[:most], values)
            return trace_tensors(
                self._case.with_model(open_model(part.model)), self._party, part.feed
            ).values
        except (*REFUSALS, ValueError):
            return {}

    def differing_outputs(self, values: Values) -> list[str]:
        """Return the outputs with differences beyond accumulated rounding."""
        differing = self._case.find_deviations(values, self._expected)
        if differing and rounding_accumulates(
            self._case, [self._feed], {0: [values], 1: [self._expected]}
        ):
            return []
        return [*differing]

    def proof(self, tensors: Sequence[str]) -> list[Fact]:
        """Return facts about the outputs after tensors are replaced by the program's values."""
        if not tensors:
            return []
        self._changed = {name: self.saved[name] for name in tensors}
        values = ChainMap(self._changed, self._compute_with(self._changed), self.own)  # type: ignore[arg-type]
        differing = self.differing_outputs(values)
        if not differing:
            return [evidence.match_with_program_tensors(len(tensors))]
        return [evidence.still_differ(len(tensors), differing[:4])]


def _fingerprints(values: Mapping[str, Any]) -> dict[str, Fingerprint]:
    """Return the fingerprint of each tensor that has one."""
    fingerprints = {name: fingerprint_of(values[name]) for name in values}
    return {
        name: fingerprint for name, fingerprint in fingerprints.items() if fingerprint is not None
    }


def _exporter_names(case: Case, program: OpenedProgram) -> dict[str, str]:
    """Return, by tensor, the program tensor that the exporter recorded for it, or of the same
    name."""
    names = {node.label for node in program.nodes}
    own_names = {name: name for node in case.model.nodes for name in node.makes if name in names}
    recorded = getattr(case.facts, "sources", {})
    return {
        **own_names,
        **{name: other_value for name, other_value in recorded.items() if other_value in names},
    }


@frozen
class OtherWeights:
    """Weights that differ from the program's.

    Attributes:
        values: the expected values, by their names in the model.
        readers: the positions of the nodes that read them.
        operation: the operation of the program that reads them; None if they are a number that an
            exporter wrote.
        facts: the facts about them.
        is_as_held: whether one of them is, as it stands, a weight that the program reads there.
    """

    values: Mapping[str, Any]
    readers: Sequence[int]
    operation: Node | None
    facts: Sequence[Fact]
    is_as_held: bool = False


@frozen
class ProgramMismatch:
    """Nodes of a model that compute something different from the operations of its program.

    Attributes:
        nodes: those of the model.
        region: the positions of these that do.
        part: a model of them, with what they read.
        own: the outputs of all nodes, by tensor.
        tensor: their outputs.
        values: the computed and the expected values.
        done: the operations, the last first.
    """

    nodes: Sequence[Node]
    region: Sequence[int]
    part: Submodel
    own: Values
    tensor: str
    values: tuple[Any, Any]
    done: Sequence[Node]


def other_weights(
    mismatch: ProgramMismatch,
    side: Graph,
    program: OpenedProgram,
    party: SuspectedParty,
    *,
    tries_numbers: bool,
) -> OtherWeights | None:
    """Return the incorrect weights that explain the entire difference; None if there are none.

    Args:
        mismatch: the location.
        side: the model.
        program: the program that the model was exported from.
        party: the computing party.
        tries_numbers: whether a number that the exporter wrote may be another one.
    """
    value = mismatch.values[1]
    if np.shape(value) != np.shape(mismatch.values[0]) or not is_float(value):
        return None
    search = _WeightSearch(mismatch, side, program, party)
    weights = search.weights()
    return search.number() if weights is None and tries_numbers else weights


def change_weights(part: Submodel, readers: Iterable[Node], weights: Mapping[str, Any]) -> Submodel:
    """Return a part whose nodes read different weights.

    Raises:
        BackendError: they cannot be written.
    """
    for node in readers:
        arrays = {name: array for name, array in weights.items() if name in node.inputs}
        if arrays:
            output = next(filter(None, node.outputs))
            part = part.change(output, Variant("weight", changes.differs(), node, arrays))
    return part


class _WeightSearch:
    """Searches program weights that explain a mismatch."""

    def __init__(
        self, mismatch: ProgramMismatch, side: Graph, program: OpenedProgram, party: SuspectedParty
    ) -> None:
        """Set the mismatch, the model, the program, and the backend."""
        self._mismatch = mismatch
        self._program = program
        self._party = party
        self._held: dict[str, Any] = {}
        for index in mismatch.region:
            for name in mismatch.nodes[index].reads:
                values = side.constants[name].values if name in side.constants else None
                if values is not None and is_float(np.asarray(values)):
                    self._held[name] = np.asarray(values)
        self._before = self._error(mismatch.values[0])

    def weights(self) -> OtherWeights | None:
        """Return the weights that explain the difference; None if none do."""
        for tries in (self._try_single_weights(), self._try_all_weights()):
            best = self._best(tries)
            if best is not None:
                return self._describe_weights(*best)
        return None

    def _best(self, tries: Iterable[Any]) -> Any:
        """Return the candidate that explains the difference best; None if none does."""
        least, best = min(_EXACTLY, _OF_BEFORE * self._before), None
        for number, tried in enumerate(tries):
            if number == _REplaceD or (best and least < _ENOUGH * self._before):
                break
            error = self._error(self._compute_with(tried[0]))
            if error < least or (best is None and error == least):
                least, best = error, tried
        return best

    def _readers(self, name: str) -> Iterator[tuple[int, Node]]:
        """Yield position and node of each reader of a weight."""
        for index in self._mismatch.region:
            if name in self._mismatch.nodes[index].inputs:
                yield index, self._mismatch.nodes[index]

    def _compute_with(self, weights: Mapping[str, Any]) -> Any:
        """Return the tensor computed with other weights; None if that fails."""
        readers = dict(pair for name in weights for pair in self._readers(name))
        try:
            part = change_weights(self._mismatch.part, readers.values(), weights)
            return part.run(self._party, plain=True).get(self._mismatch.tensor)
        except BackendError:
            return None

    def _error(self, value: Any) -> float:
        """Return the error of a tensor relative to its size."""
        array = np.asarray(self._mismatch.values[1], np.float64)
        if value is None or np.shape(value) != array.shape or not array.size:
            return np.inf
        size = max(float(np.sqrt(np.mean(np.square(array)))), 1e-30)
        apart = float(np.max(np.abs(np.asarray(value, np.float64) - array))) / size
        return apart if np.isfinite(apart) else np.inf

    def _operations(self) -> list[tuple[Node, dict[str, Any]]]:
        """Return the operations in order, each with the weights that it reads."""
        weights = self._program.weights
        requested_pairs = [
            (node, {name: np.asarray(weights[name]) for name in node.reads if name in weights})
            for node in reversed(self._mismatch.done)
        ]
        return [
            (node, {n: x for n, x in arrays.items() if is_float(x)})
            for node, arrays in requested_pairs
        ]

    def _fitting_arrays(self, name: str, expected: Any) -> list[Any]:
        """Return forms of a program weight that fit in place of a model weight."""
        value = self._held[name]
        arrays = (
            arrangement.astype(value.dtype) for arrangement in arrangements(expected, value.shape)
        )
        return [array for array in arrays if value.size > 1 and deviation(value, array).is_wrong]

    def _try_single_weights(
        self,
    ) -> Iterator[tuple[dict[str, Any], dict[str, list[str]], Node]]:
        """Yield candidate values for one weight, their program weights, and its reader.
        The reader is the node that reads the weight.
        """
        for node, own_values in self._operations():
            for reference_name, expected in own_values.items():
                for name, value in self._held.items():
                    if value.size == expected.size:
                        for fitting_array in self._fitting_arrays(name, expected):
                            yield {name: fitting_array}, {name: [reference_name]}, node
            for name, value in self._held.items():
                for op in {reader.op for _, reader in self._readers(name)}:
                    for names, fitting_array in stack_weights(own_values, op, value.shape):
                        if deviation(
                            value, fitting_array := fitting_array.astype(value.dtype)
                        ).is_wrong:
                            yield {name: fitting_array}, {name: names}, node

    def _try_all_weights(self) -> Iterator[tuple[dict[str, Any], dict[str, list[str]], Node]]:
        """Yield values for all weights, their possible names in the program, and a node.

        This requires equally many weights of each size in model and program.
        """
        operations = [
            (node, name, x)
            for node, own_values in self._operations()
            for name, x in own_values.items()
        ]
        for end in (0, -1):
            weights, names = {}, {}
            for size in {x.size for *_, x in operations}:
                own_names = [name for name, value in self._held.items() if value.size == size]
                reference_pairs = [(name, x) for _, name, x in operations if x.size == size]
                for name, (other_name, x) in (
                    zip(own_names, reference_pairs)
                    if len(own_names) == len(reference_pairs)
                    else ()
                ):
                    items = [*arrangements(x, self._held[name].shape)]
                    if (
                        items
                        and deviation(
                            self._held[name], items[end].astype(self._held[name].dtype)
                        ).is_wrong
                    ):
                        weights[name] = items[end].astype(self._held[name].dtype)
                        names[name] = [other_name]
            if len(weights) > 1:
                yield weights, names, operations[0][0]

    def _describe_weights(
        self, weights: Mapping[str, Any], names: Mapping[str, Sequence[str]], node: Node
    ) -> OtherWeights:
        """Return the description of incorrect weights."""
        facts = []
        for name, weight in weights.items():
            value = self._held[name]
            other_name = self._name_other_weight(name, names[name])
            kind = None if other_name else weight_relation(value, weight)
            ops = [*dict.fromkeys(reader.op for _, reader in self._readers(name))]
            off = deviation(value, weight)
            facts.append(
                program_evidence.differing_weight(name, ops, names[name], off, other_name, kind)
            )
        is_as_held = any(
            np.shape(x) == self._held[name].shape and not deviation(self._held[name], x).is_wrong
            for name in weights
            for _, own_values in self._operations()
            for x in own_values.values()
        )
        return OtherWeights(weights, self._positions(weights), node, facts, is_as_held)

    def _name_other_weight(self, name: str, requested_names: Sequence[str]) -> str:
        """Return the name of the program weight that a model weight equals."""
        value = self._held[name]
        for reference_weight in self._program.weights:
            if reference_weight not in requested_names:
                weight = self._program.weights[reference_weight]
                if np.size(weight) == value.size > 1 and same_weight(value, weight):
                    return reference_weight
        return ""

    def _positions(self, names: Iterable[str]) -> list[int]:
        """Return the positions of those nodes that compute from the named weights only."""
        mismatch, positions = self._mismatch, set()
        for name in names:
            direct = {index for index, _ in self._readers(name)}
            makes = {name for index in direct for name in mismatch.nodes[index].makes}
            positions |= direct
            if all(set(mismatch.nodes[i].reads) <= self._held.keys() for i in direct):
                positions |= {i for i in mismatch.region if makes & set(mismatch.nodes[i].reads)}
        return sorted(positions)

    def number(self) -> OtherWeights | None:
        """Return the constant with which the nodes are correct, if it differs from the program's;
        else None.
        """
        if len(np.unique(self._mismatch.values[1])) < _TELLING:
            return None
        # Numbers in the arguments of operations; True if an arithmetic operation uses them.
        operand_cache: dict[float, bool] = {}
        for node, own_values in self._operations():
            written = [float(value) for value in _NUMBER.findall(node.attribute(ARGUMENTS, ""))]
            written += [float(np.reshape(x, -1)[0]) for x in own_values.values() if np.size(x) == 1]
            for number in written:
                operand_cache[number] = (
                    operand_cache.get(number, False) or node.operator in _ARITHMETIC
                )
        single = [name for name in self._held if self._is_operand(name)]
        for name in single if len(single) <= _CONSTANTS else ():
            value = self._held[name]
            now = float(value.reshape(-1)[0])
            if any(
                np.isclose(now, value, rtol=1e-6, atol=0)
                for value in operand_cache
                if operand_cache[value]
            ):
                # The program uses the same number, so the operator is at fault, not the number.
                continue
            numbers = [*self._likely_numbers(now, operand_cache), self._solve_number(name, now)]
            candidates = _in_dtype(numbers, value.dtype)
            tries = [({name: np.full_like(value, x)}, x) for x in candidates]
            best = self._best(tries)
            if best is not None:
                ops = [*dict.fromkeys(node.op for _, node in self._readers(name))]
                facts = [program_evidence.differing_number(name, ops, now, best[1])]
                return OtherWeights(best[0], self._positions([name]), None, facts)
        return None

    def _is_operand(self, name: str) -> bool:
        """Return whether a weight is a scalar that is combined with a computed tensor,
        rather than with other scalars, each of which would explain the difference."""
        own_values = self._mismatch.own
        readers = [
            own_values[x]
            for _, node in self._readers(name)
            for x in node.outputs
            if x in own_values
        ]
        return self._held[name].size == 1 and all(np.size(value) > 1 for value in readers)

    @staticmethod
    def _likely_numbers(now: float, known_values: Iterable[float]) -> list[float]:
        """Return likely values of a constant: program constants, or values derived from the current
        one.
        """
        items = [abs(now) ** 0.5, now * now, 1 / now if now else 0.0, -now, 2 * now, now / 2]
        if abs(now) >= _FILLING:
            items.insert(0, float(np.copysign(np.inf, now)))
        return [*dict.fromkeys([*known_values, *items])]

    def _solve_number(self, name: str, now: float) -> float:
        """Return the number that fits best, by Newton's steps."""

        def compute_with(number: float) -> Any:
            """Return the tensor computed with a number for all elements of a weight, or None.
            The result is None if it cannot be computed.
            """
            values = self._compute_with({name: np.full_like(self._held[name], number)})
            return None if values is None else np.asarray(values, np.float64)

        array, at = np.asarray(self._mismatch.values[1], np.float64), now
        for _ in range(_NEWTON):
            step = 1e-2 * (abs(at) or 1.0)
            value, moved_value = compute_with(at), compute_with(at + step)
            if value is None or moved_value is None or value.shape != array.shape:
                break
            slope = (moved_value - value) / step
            size = float(np.vdot(slope, slope))
            if not size or not np.isfinite(size):
                break
            at += float(np.vdot(slope, array - value)) / size
        return at


def _in_dtype(numbers: Iterable[float], dtype: Any) -> list[float]:
    """Return distinct numbers rounded to a data type; overflow becomes infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return [*dict.fromkeys(float(np.asarray(number).astype(dtype)) for number in numbers)]
