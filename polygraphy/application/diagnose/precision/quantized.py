"""Finds the nodes whose quantizing makes a quantized model differ from the one that it was made of.

The reference is quantized as the model is, node by node: if it then gives what the model gives,
quantizing is all in what they differ, and a rewrite that can be left out for some of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import tensor_bytes
from polygraphy.application.diagnose.precision.half import BoundedSearch
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.quantizing import (
    OUTPUT,
    USUAL_LOSS,
    QuantizedOperand,
    find_other_selection,
    losses,
    rms_ratio,
)
from polygraphy.domain.diagnosis.two_models import QUANTIZING
from polygraphy.domain.diagnosis.words import evidence, reasons, remedies, steps, titles
from polygraphy.domain.model.graph import Node
from polygraphy.domain.model.regions import MOVES
from polygraphy.domain.quantization.metrics import Outputs, RmsRatio
from polygraphy.domain.search.subsets import healing_passes
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    SuspectedParty,
    dequantize_model,
    find_quantized_operands,
    requantize_model,
)
from polygraphy.ports.editing import OpenModel, open_model
from polygraphy.ports.machine import release_memory

_LEFT = 0.25
"""Nodes are at fault if at most this share of the quantization error remains without them. Chosen,
not measured."""
_BESIDE = 0.5
"""If at least this share of a difference remains without quantization, the models differ for
another reason. Chosen, not measured."""
_MOST_CHECKS = 40
"""Most sets of nodes that are tried once one suffices: a few nodes are found in fewer, and more
nodes are not named. Chosen, not measured."""
_JOINS = "Concat"
"""The operator that joins parts of different sizes to one tensor."""
_MOVES = MOVES | QUANTIZING
_SELECTS = _MOVES | {"Gather", "Split"}
"""Operators that hand on numbers of a joined tensor to nodes in the middle of a model."""
_FEW = 4
"""Most nodes that are named, and at most half of all: if more are needed, the error accumulates.
Chosen, not measured."""


class QuantizedPair:
    """A quantized model, and the floating-point model it was created from.

    Args:
        case: the quantized model.
        reference: the model in floating point.
        party: the backend that runs both.
        named: returns outputs of the reference by the names that the model has for them.

    Attributes:
        places: by node of the model, its operands in the reference that are quantized.
        is_whole: whether these are all that are quantized in the model.
    """

    def __init__(
        self,
        case: Case,
        reference: OpenModel,
        party: SuspectedParty,
        named: Callable[[Values], Values],
    ) -> None:
        """Set the models, the backend, and the function that renames outputs."""
        self._case, self._reference, self._party, self._named = case, reference, party, named
        self._model = case.model.proto
        self._graph = reference.graph
        self._operands = find_quantized_operands(self._model)
        self._read: dict[str, str] = {}
        self.places: dict[str, list[tuple[str, int, str]]] = {}
        for quantized_operand, twin, read in self._twins():
            self._read[quantized_operand.name] = read
            self.places.setdefault(quantized_operand.node, []).append(
                (twin, quantized_operand.position, quantized_operand.name)
            )
        self.is_whole = sum(map(len, self.places.values())) == len(self._operands)

    def _twins(self) -> Iterator[tuple[QuantizedOperand, str, str]]:
        """Yield each quantized input, the reference node that reads it, and its name there."""
        if not self._operands:
            return
        dequantized = open_model(dequantize_model(self._model), as_it_is=True)
        pairing = pair_graphs(dequantized.graph, self._graph)
        model, reference = pairing.model, pairing.reference
        ops = {node.label: node.op for node in model.operations.values()}
        indexes = {node.label: index for index, node in reference.operations.items()}
        indexes |= {model.nodes[index].label: node for index, node in pairing.nodes.items()}
        outputs = self._named({name: name for name in self._reference.outputs})
        for operand in self._operands:
            if operand.position == OUTPUT:
                if operand.step is not None and operand.name in outputs:
                    yield operand, outputs[operand.name], outputs[operand.name]
                continue
            if operand.node not in indexes or operand.step is None:
                continue
            twin = reference.nodes[indexes[operand.node]]
            read = twin.inputs[operand.position] if operand.position < len(twin.inputs) else ""
            if read and twin.op == ops.get(operand.node):
                yield operand, reference.nodes[indexes[operand.node]].label, read

    def result(
        self, feeds: Sequence[Feed], goals: Sequence[Values], outputs: Sequence[Values], number: int
    ) -> StepOutcome:
        """Return the nodes whose quantization causes most of the output error;
        a skip if the models differ in more than that.

        Args:
            feeds: the data, by the names of the reference.
            goals: the expected outputs.
            outputs: the outputs of the model on the data.
            number: the input set on which outputs differ most.

        Raises:
            BackendError: the party cannot run the reference, quantized.
        """
        case = self._case
        order = sorted(range(len(feeds)), key=lambda index: index != number)
        sets = [(feeds[index], goals[index]) for index in order]
        most = self._largest_difference(outputs[number], goals[number])
        with case.record_step(titles.QUANTIZED_REFERENCE) as notes:
            alike = self._named(self._party.load(self.quantize_reference())(feeds[number]))
            apart = self._rms_difference(alike, outputs[number])
            notes.append(steps.match_of_quantized_reference(apart))
        if apart > _BESIDE * self._rms_difference(outputs[number], goals[number]):
            return Skip("the models differ in more than quantization")
        if selection := find_other_selection(outputs[number], goals[number]):
            if apart == inf:
                return Skip("the models differ in more than quantization")
            reason = reasons.selection_changed(*selection)
            return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
        if joins := self._find_lost_joins(outputs, goals, sets):
            kept_nodes = [name for _, names in joins for name in names]
            loss = self._losses(outputs[number], kept_nodes, *sets[0])
            pair = outputs[number], goals[number]
            culprits = [self._culprit_of_join(*join, pair, loss) for join in joins]
            return Found(DiagnosisResult(FAULT, culprits), case)
        return self._name_fewest_nodes((outputs[number], goals[number]), sets, most)

    def _name_fewest_nodes(
        self, pair: tuple[Values, Values], sets: Sequence[tuple[Feed, Values]], most: float
    ) -> StepOutcome:
        """Return the nodes whose quantization causes most of the output error.

        Args:
            pair: the outputs, and those expected, of the first set.
            sets: the data and the expected outputs, the set with the largest error first.
            most: the largest error.
        """
        case = self._case
        ranked = self._rank_nodes(sets[0][0])
        limit = _LEFT * most if most < inf else USUAL_LOSS
        search = self._bounded(lambda some: self._output_error(some, sets, limit) <= limit, sets)
        names = sorted(self.places, key=lambda name: -ranked[name])
        with case.record_step(titles.FEWEST_UNQUANTIZED) as notes:
            fewest = healing_passes(names, search, is_ranked=True)
            if fewest is None:
                notes.append(steps.NO_NODES)
                return Skip("the models differ in more than quantization")
            notes.append(steps.sets_tried(len(fewest), len(names), search.checks))
            if search.is_cut_short:
                notes.append(steps.CUT_SHORT)
            if not fewest:
                return Skip("quantized like the model, the reference has no such loss")
        culprit: Culprit | None
        for path in self._joins():
            if set(fewest) <= {node.label for node in path}:
                loss = self._losses(pair[0], fewest, *sets[0])
                culprit = self._culprit_of_join(path, fewest, pair, loss)
                return Found(DiagnosisResult(FAULT, [culprit]), case)
        if culprit := self._find_inner_join(fewest, pair, sets, limit):
            return Found(DiagnosisResult(FAULT, [culprit]), case)
        if len(fewest) > _FEW or 1 < len(names) < 2 * len(fewest):
            worst = [(name, ranked[name]) for name in names[:_FEW]]
            reason = reasons.quantization_accumulates(most, len(fewest), len(names), worst)
            return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
        after = self._output_error(fewest, sets)
        facts = [evidence.quantization_cost(most, after, len(fewest), len(names))]
        facts += [evidence.quantized_inputs_cost(name, ranked[name]) for name in fewest]
        remedy = Remedy(None, True, remedies.quantize_without(self._add_sharing_nodes(fewest)))
        op = next((node.operator for node in case.model.nodes if node.label == fewest[0]), "")
        culprit = Culprit(list(fewest), None, MODEL, "quantization", None, facts, remedy, op)
        return Found(DiagnosisResult(FAULT, [culprit]), case)

    def _bounded(
        self, heals: Callable[[Sequence[str]], bool], sets: Sequence[tuple[Feed, Values]]
    ) -> BoundedSearch:
        """Return a search for the nodes without whose quantization the question is answered Yes."""
        nbytes = sum(tensor_bytes(self._reference, feed) for feed, _ in sets)
        runs_nodes = len(sets) * len(self._reference.nodes)
        return BoundedSearch(heals, nbytes, runs_nodes, _MOST_CHECKS)

    def _find_lost_joins(
        self,
        outputs: Sequence[Values],
        goals: Sequence[Values],
        sets: Sequence[tuple[Feed, Values]],
    ) -> list[tuple[list[Node], list[str]]]:
        """Return the concatenations whose single scale makes a part of an output constant, as the
        path to the output, with the fewest nodes on it that must not be quantized."""
        case, joins = self._case, []
        lost = {name for pair in zip(outputs, goals) for name in case.find_lost_outputs(*pair)}
        for path in self._joins():
            output = path[-1].makes[0]
            if output not in lost:
                continue
            search = self._bounded(
                lambda some, name=output: not self._is_lost(name, some, sets),  # type: ignore[misc]
                sets,
            )
            names = [node.label for node in path if node.label in self.places]
            with case.record_step(titles.FEWEST_UNQUANTIZED) as notes:
                kept = healing_passes(names, search)
                if kept:
                    notes.append(steps.sets_tried(len(kept), len(self.places), search.checks))
                    joins.append((path, kept))
                else:
                    notes.append(steps.NO_NODES)
        return joins

    def _is_lost(
        self, output: str, without: Collection[str], sets: Sequence[tuple[Feed, Values]]
    ) -> bool:
        """Return whether a part of an output is constant if the reference is quantized like the
        model except some nodes."""
        compute = self._party.load(self.quantize_reference(without))
        return any(
            output in self._case.find_lost_outputs(self._named(compute(feed)), goal)
            for feed, goal in sets
        )

    def _losses(
        self,
        values: Values,
        without: Collection[str],
        feed: Feed,
        goal: Values,
        unquantized: Collection[str] = (),
    ) -> tuple[float, float]:
        """Return the error of the outputs, and that of the reference quantized like the model
        except some nodes and tensors, each relative to the RMS of the worst part."""
        compute = self._party.load(self.quantize_reference(without, unquantized))
        metric, expected = RmsRatio(self._case.layout), Outputs([goal])
        before, after = (
            metric(Outputs([each]), expected) for each in (values, self._named(compute(feed)))
        )
        return before, after

    def _joins(self) -> Iterator[list[Node]]:
        """Yield, for each output that joins parts and is quantized as a whole, the nodes from the
        concatenation to the output, if they only move or quantize what it computes."""
        makers = {tensor: node for node in self._case.model.nodes for tensor in node.makes}
        for output in self._case.model.outputs:
            path = _moved_by(makers, output)
            if _is_join(path):
                yield path

    def _find_inner_join(
        self,
        fewest: Sequence[str],
        pair: tuple[Values, Values],
        sets: Sequence[tuple[Feed, Values]],
        limit: float,
    ) -> Culprit | None:
        """Return the culprit for a single scale of all parts of a tensor that nodes read, such as
        those that select the scores; None if that is not what their quantization costs.

        Args:
            fewest: the nodes without whose quantization the outputs match.
            pair: the outputs, and those expected, of the first set.
            sets: the data and the expected outputs.
            limit: the largest error of outputs that match.
        """
        makers = {tensor: node for node in self._case.model.nodes for tensor in node.makes}
        paths: dict[str, list[Node]] = {
            name: _moved_by(makers, name, _SELECTS)
            for places in self.places.values()
            for *_, name in places
        }
        read = [
            [name for *_, name in self.places[node] if _is_join(paths[name])] for node in fewest
        ]
        joins = {paths[name][0].label for names in read for name in names}
        if not all(read) or len(joins) != 1:
            return None
        tensors = [n for n, path in paths.items() if _is_join(path) and path[0].label in joins]
        if not (lost := self._lost_operand(read[0][0], paths[read[0][0]], sets[0][0])):
            return None
        if self._output_error((), sets, limit, tensors) > limit:
            return None
        path = max((paths[name] for names in read for name in names), key=len)
        first = next(node.label for node in path if node.operator in QUANTIZING)
        named = [node for node in path if node.label == first or node.label in fewest]
        loss = self._losses(pair[0], (), *sets[0], tensors)
        joined = path[0].makes[0]
        facts = [evidence.lost_operand(joined, *lost), evidence.error_without_quantization(*loss)]
        remedy = Remedy(None, True, remedies.split_scale([path[0].label], joined))
        labels = [node.label for node in named]
        op = named[0].operator
        return Culprit(labels, None, MODEL, "quantization", None, facts, remedy, op)

    def _lost_operand(
        self, tensor: str, path: Sequence[Node], feed: Feed
    ) -> tuple[str, int, int] | None:
        """Return the operand of a concatenation that loses most if it is quantized with the scale
        of the joined tensor, and the number of its different values before and after; None if none
        loses its values, if all do, or if there are several scales.

        Args:
            tensor: the quantized tensor.
            path: the nodes of the model from the concatenation to the tensor.
            feed: the data.
        """
        quantize = next(each.step for each in self._operands if each.name == tensor)
        makers = {made: node for node in self._reference.nodes for made in node.makes}
        sources = dict(self._pairs())
        twins = _moved_by(makers, self._read[tensor], _SELECTS)
        shapes = {weight.name: weight.shape for weight in self._case.model.graph.all_weights}
        scales = [shapes.get(node.reads[1]) for node in path if node.operator in QUANTIZING]
        is_single = all(shape is not None and prod(shape) == 1 for shape in scales)
        if quantize is None or not is_single or not twins or twins[0].operator != _JOINS:
            return None
        read = self._reference_reader(feed)
        parts = []
        for name, own_name in zip(twins[0].reads, path[0].reads):
            value = read(name)
            if value is None or not is_float(value) or not np.size(value):
                continue
            if np.isfinite(value).all() and np.ptp(value) > 0:
                quantized = np.asarray(quantize(value))
                off = root_mean_square(quantized - value) / np.std(value, dtype=np.float64)
                parts.append(
                    (
                        off,
                        sources.get(own_name, own_name),
                        len(np.unique(value)),
                        len(np.unique(quantized)),
                    )
                )
        release_memory()
        if not parts or min(parts)[0] > _LEFT or max(parts)[0] < _BESIDE:
            return None
        return max(parts)[1:]

    def _reference_reader(self, feed: Feed) -> Callable[[str], Any]:
        """Return a function that returns a weight or a computed tensor of the reference; None for
        unknown names."""
        values = trace_tensors(self._case.with_model(self._reference), self._party, feed).all_values
        weights = {weight.name: weight for weight in self._graph.all_weights}
        return lambda name: weights[name].values if name in weights else values.get(name)

    def _inner_joins(self, join: Node) -> list[str]:
        """Return the concatenations that directly provide inputs of a concatenation, if nodes only
        move or quantize them in between."""
        makers = {tensor: node for node in self._case.model.nodes for tensor in node.makes}
        paths = [_moved_by(makers, tensor) for tensor in join.reads]
        return [path[0].label for path in paths if path and path[0].operator == _JOINS]

    def _culprit_of_join(
        self,
        path: Sequence[Node],
        kept_names: Sequence[str],
        pair: tuple[Values, Values],
        loss: tuple[float, float],
    ) -> Culprit:
        """Return the culprit for a single scale of all parts of an output.

        Args:
            path: the nodes from the concatenation to the output.
            kept_names: those of them that must not be quantized.
            pair: the outputs, and those expected.
            loss: the error with and without the quantization.
        """
        output, first = path[-1].makes[0], next(n.label for n in path if n.operator in QUANTIZING)
        inner = self._inner_joins(path[0]) if path[0].label in kept_names else []
        named = [node for node in path if node.label == first or node.label in kept_names]
        off = self._case.deviation(output, *(values[output] for values in pair))
        facts = [evidence.lost_part(output, off), evidence.error_without_quantization(*loss)]
        remedy = Remedy(None, True, remedies.split_scale(inner or [path[0].label], output))
        labels = [node.label for node in named]
        op = named[0].operator
        return Culprit(labels, None, MODEL, "quantization", None, facts, remedy, op)

    def _add_sharing_nodes(self, kept_names: Sequence[str]) -> list[str]:
        """Return nodes with all nodes that share their quantized tensors:
        a tensor stays in floating point only if no node requires it quantized. Quantizers know no
        nodes that only quantize.
        """
        nodes = self._case.model.nodes
        quantized = {name for name, _ in self._pairs()}
        shared = {
            read
            for node in nodes
            if node.label in kept_names
            for read in node.reads
            if read in quantized
        }
        made = {tensor for node in nodes if node.label in kept_names for tensor in node.makes}
        before = {source for name, source in self._pairs() if name in shared or name in made}
        shared |= {name for name, source in self._pairs() if source in before}
        return [
            node.label
            for node in nodes
            if node.operator not in QUANTIZING
            and (
                node.label in kept_names
                or not shared.isdisjoint(node.reads)
                or not before.isdisjoint(node.makes)
            )
        ]

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Yield output and float input of each QuantizeLinear/DequantizeLinear pair."""
        nodes = self._case.model.nodes
        before = {
            node.makes[0]: node.reads[0] for node in nodes if node.operator == "QuantizeLinear"
        }
        for node in nodes:
            if node.operator == "DequantizeLinear" and node.reads[0] in before:
                yield node.makes[0], before[node.reads[0]]

    def _rank_nodes(self, feed: Feed) -> dict[str, float]:
        """Return, by node, the loss from quantizing its inputs."""
        read = self._reference_reader(feed)
        nodes = losses(self._operands, lambda name: read(self._read.get(name, "")))
        release_memory()
        return nodes

    def quantize_reference(
        self, without: Collection[str] = (), unquantized: Collection[str] = ()
    ) -> Any:
        """Return the reference quantized like the model, except some nodes and tensors."""
        sites = [
            site
            for node, held_place in self.places.items()
            if node not in without
            for site in held_place
            if site[2] not in unquantized
        ]
        return requantize_model(self._reference.proto, self._model, sites)

    def _output_error(
        self,
        without: Collection[str],
        sets: Sequence[tuple[Feed, Values]],
        limit: float = inf,
        unquantized: Collection[str] = (),
    ) -> float:
        """Return the largest relative output error of the reference quantized like the model except
        some nodes and tensors; stops at the first input set above `limit`.
        """
        compute = self._party.load(self.quantize_reference(without, unquantized))
        off = 0.0
        for feed, goal in sets:
            off = max(off, self._largest_difference(self._named(compute(feed)), goal))
            if off > limit:
                break
        del compute
        release_memory()
        return off

    def _rms_difference(self, values: Values, other_values: Values) -> float:
        """Return the relative RMS difference of outputs,
        which tolerates a few elements rounded to another step.
        """
        return max(
            (
                rms_ratio(values[name], other_value)
                for name, other_value in other_values.items()
                if name in values and is_float(other_value)
            ),
            default=0.0,
        )

    def _largest_difference(self, values: Values, other_values: Values) -> float:
        """Return the largest relative difference of outputs."""
        differing = self._case.find_deviations(values, other_values)
        return max((deviation.relative for deviation in differing.values()), default=0.0)


def _is_join(path: Sequence[Node]) -> bool:
    """Return whether nodes join parts, and then quantize them as a whole."""
    is_quantized = any(node.operator in QUANTIZING for node in path)
    return is_quantized and path[0].operator == _JOINS


def _moved_by(
    makers: Mapping[str, Node], tensor: str, movers: Collection[str] = _MOVES
) -> list[Node]:
    """Return the nodes that move or quantize a tensor, in order, after the node that computes it;
    empty for inputs and weights."""
    path: list[Node] = []
    node = makers.get(tensor)
    while node is not None:
        path.insert(0, node)
        moves = node.operator in movers
        node = makers.get(node.reads[0]) if moves and node.reads else None
    return path
