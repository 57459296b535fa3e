"""Which tensor of a program each tensor of a model is that was exported from it, and how what an
exporter made of an operation differs from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import program_evidence, titles
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.rounding import LARGE, deviation
from polygraphy.domain.tensors.precision import is_float

EXPORTER = "exporter"
"""The party at fault if a model does not compute its program."""

_SAMPLED = 512
"""Approximate number of elements of a fingerprint."""
_CLEARER = 10.0
"""A match is clear if the second nearest tensor is this multiple as far away. Chosen, not
measured."""
_SAME = 32
"""Most tensors with equal values that are distinguished by their neighbors."""
_AROUND = 64
"""Most tensors without a counterpart that are passed on the way to neighbors that have one."""
_RANK = 5
"""Axes of the largest tensors of which other orders are tried."""
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""In which order ONNX has the gates of PyTorch."""


@frozen(eq=False)
class Fingerprint:
    """The fingerprint of a tensor: its shape, and a sample of its elements."""

    shape: tuple[int, ...]
    kind: str
    sample: np.ndarray[Any, Any]
    size: float
    is_distinctive: bool

    def distance(self, fingerprint: Fingerprint) -> float:
        """Return the distance of two tensors relative to their size.
        The result is infinity if they are not comparable.
        """
        if self.shape != fingerprint.shape or self.kind != fingerprint.kind:
            return np.inf
        with np.errstate(invalid="ignore"):
            # Infinity minus infinity is NaN; `is_equal` handles these.
            apart = np.abs(self.sample - fingerprint.sample)
        is_equal = (self.sample == fingerprint.sample) | (
            np.isnan(self.sample) & np.isnan(fingerprint.sample)
        )
        most = float(np.max(np.where(is_equal, 0.0, apart), initial=0.0))
        return np.inf if np.isnan(most) else most / max(self.size, fingerprint.size, 1e-30)


def fingerprint_of(value: Any) -> Fingerprint | None:
    """Return the fingerprint of a tensor; None if the value is not a numeric array."""
    if not isinstance(value, np.ndarray) or not (is_float(value) or value.dtype.kind in "iub"):
        return None
    flat = value.reshape(-1)
    step = max(1, flat.size // _SAMPLED) | 1
    sample = flat[::step].astype(np.float64)
    finite = sample[np.isfinite(sample)]
    size = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
    kind = "f" if is_float(value) else "i"
    is_distinctive = flat.size > 1 and bool(np.ptp(finite) > 0 if finite.size else False)
    return Fingerprint(tuple(value.shape), kind, sample, size, is_distinctive)


def same_tensors(
    prints: Mapping[str, Fingerprint],
    program_prints: Mapping[str, Fingerprint],
    recorded_names: Mapping[str, str],
    known_pairs: Mapping[str, str],
    graphs: tuple[Sequence[Node], Sequence[Node]] = ((), ()),
) -> dict[str, str]:
    """Return, by model tensor, the program tensor with the same value:
    the one recorded by the exporter, else the only one, the nearest, or the next in order.

    Args:
        prints: the tensors of the model, in order.
        program_prints: those of the program, in order.
        recorded_names: by tensor of the model, what the exporter recorded.
        known_pairs: the pairs already known.
        graphs: the nodes of both, which distinguish tensors of one value.
    """
    alike: dict[tuple[Any, str], list[str]] = {}
    for name, program_print in program_prints.items():
        alike.setdefault((program_print.shape, program_print.kind), []).append(name)
    pairs: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    for name, fingerprint in prints.items():
        if name in known_pairs:
            continue
        apart = {  # Rounding does not explain distances above `LARGE`.
            other_name: distance
            for other_name in alike.get((fingerprint.shape, fingerprint.kind), ())
            if (distance := fingerprint.distance(program_prints[other_name])) <= LARGE
        }
        if not apart or (not fingerprint.is_distinctive and recorded_names.get(name) not in apart):
            continue
        ranked = sorted(apart, key=lambda other_name: apart[other_name])
        if recorded_names.get(name) in apart:
            pairs[name] = recorded_names[name]
        elif len(ranked) == 1 or apart[ranked[1]] > max(_CLEARER * apart[ranked[0]], 1e-6):
            pairs[name] = ranked[0]
        else:
            several[name] = [*apart]
    return _distinguish(prints, program_prints, {**known_pairs, **pairs}, several, graphs) | pairs


def _distinguish(
    prints: Mapping[str, Fingerprint],
    program_prints: Mapping[str, Fingerprint],
    pairs: dict[str, str],
    several: Mapping[str, Sequence[str]],
    graphs: tuple[Sequence[Node], Sequence[Node]],
) -> dict[str, str]:
    """Return pairs of tensors with equal values: those whose neighbors match best, else in order,
    as before and after a dropout that does nothing.

    Args:
        pairs: the known pairs; found pairs are added.
        several: by tensor of the model those of the program, in order.
    """
    order = {name: index for index, name in enumerate(program_prints)}
    links = [*zip(*(_neighbor_maps(nodes) for nodes in graphs))] if several else []
    distinguish: dict[str, str] = {}
    used = set(pairs.values())
    last = -1
    for name in prints:
        if name in several:
            later = [other_name for other_name in several[name] if order[other_name] > last]
            best, most = later[:1], 0
            for other_name in [*later[:_SAME], *several[name][:_SAME]]:
                count = 0
                for own_links, program_links in links:
                    around = {pairs[name] for name in _nearest(own_links, name, pairs)}
                    count += len(around & _nearest(program_links, other_name, used))
                if count > most:
                    best, most = [other_name], count
            if best:
                distinguish[name] = pairs[name] = best[0]
                used.add(best[0])
        last = max(last, order.get(pairs.get(name, ""), -1))
    return distinguish


def _neighbor_maps(nodes: Sequence[Node]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return two maps by tensor: the tensors it is computed from, and those computed from it."""
    before: dict[str, set[str]] = {}
    behind: dict[str, set[str]] = {}
    for node in nodes:
        for name in node.makes:
            before[name] = set(node.reads)
        for name in node.reads:
            behind.setdefault(name, set()).update(node.makes)
    return before, behind


def _nearest(links: Mapping[str, set[str]], tensor: str, known_names: Collection[str]) -> set[str]:
    """Return the nearest tensors in `known_names` along one direction of links."""
    nearest: set[str] = set()
    seen_names, pending = {tensor}, [tensor]
    while pending and len(seen_names) < _AROUND:
        for name in links.get(pending.pop(), ()):
            if name in known_names:
                nearest.add(name)
            elif name not in seen_names:
                seen_names.add(name)
                pending.append(name)
    return nearest


def tensors_without_counterpart(nodes: Sequence[Node], matched: Collection[str]) -> list[str]:
    """Return, in order, the tensors without a counterpart and without later counterparts:
    a model and its program diverge before these.
    """
    behind: set[str] = set()
    for node in reversed(nodes):
        if any(name in matched or name in behind for name in node.makes):
            behind.update(node.reads)
    return [
        name for node in nodes for name in node.makes if name not in matched and name not in behind
    ]


def operations(nodes: Sequence[Node], tensor: str, matched: Collection[str]) -> list[Node]:
    """Return the program operations between a tensor and matched tensors, last first.
    Operations like `getitem` belong to the operation whose result they read."""
    makers = Graph(nodes=tuple(nodes)).producers
    operators: list[Node] = []
    pending = [tensor]
    while pending:
        index = makers.get(pending.pop(0))
        if index is None or nodes[index] in operators:
            continue
        operators.append(nodes[index])
        is_part = nodes[index].operator == "getitem"
        pending += [name for name in nodes[index].reads if is_part or name not in matched]
    return sorted(operators, key=nodes.index, reverse=True)


def nearest_origin(nodes: Sequence[Node], node: Node) -> str:
    """Return the source line of an operation, or the nearest known line; empty if there is none."""
    if node.origin is not None:
        return str(node.origin)
    at = nodes.index(node)
    around = sorted(range(len(nodes)), key=lambda index: (abs(index - at), index > at))
    known_node = next((nodes[index] for index in around if nodes[index].origin is not None), None)
    if known_node is None:
        return ""
    return titles.near_line(str(known_node.origin), known_node.operator)


def layout_of(value: Any, expected: Any) -> tuple[int, ...] | None:
    """Return the axis order in which a value holds the expected numbers, or None.
    The result is None if the numbers differ or the order is the same.
    """
    if np.ndim(value) != np.ndim(expected) or np.size(value) != np.size(expected):
        return None
    if not 1 < np.ndim(value) <= _RANK:
        return None
    fingerprint = fingerprint_of(np.asarray(value))
    for order in permutations(range(np.ndim(value))):
        if order == tuple(range(np.ndim(value))):
            continue
        turned = fingerprint_of(np.ascontiguousarray(np.transpose(expected, order)))
        if (
            fingerprint is not None
            and turned is not None
            and fingerprint.distance(turned) <= LARGE
            and fingerprint.is_distinctive
        ):
            return order
    return None


def same_weight(value: Any, expected: Any, in_any_order: bool = False) -> bool:
    """Return whether two weights hold the same numbers, optionally in any axis order.

    Args:
        value: the weight of a model.
        expected: that of its program.
        in_any_order: whether numbers may be in any order, as the gates of an LSTM.
    """
    first, second = np.asarray(value), np.asarray(expected)
    if first.size != second.size:
        return False
    if in_any_order:
        return not deviation(np.sort(first.reshape(-1)), np.sort(second.reshape(-1))).is_wrong
    squeezed = [np.squeeze(array) for array in (first, second)]
    if squeezed[0].ndim != squeezed[1].ndim:
        return not deviation(first.reshape(-1), second.reshape(-1)).is_wrong
    if squeezed[0].ndim > _RANK:
        return False
    turned = (np.transpose(squeezed[1], order) for order in permutations(range(squeezed[1].ndim)))
    return any(
        array.shape == squeezed[0].shape and not deviation(squeezed[0], array).is_wrong
        for array in turned
    )


def arrangements(weight: Any, shape: Sequence[int]) -> Iterator[Any]:
    """Yield forms that a program weight may have in a model with that shape:
    unchanged, then transposed.
    """
    weight = np.asarray(weight)
    plain, sizes = np.squeeze(weight), [size for size in shape if size != 1]
    if plain.ndim > _RANK or sorted(plain.shape) != sorted(sizes):
        if weight.size == np.prod(shape):
            yield weight.reshape(shape)
        return
    for order in permutations(range(plain.ndim)):
        turned = np.transpose(plain, order)
        if list(turned.shape) == sizes:
            yield np.ascontiguousarray(turned).reshape(shape)


def stack_weights(
    weights: Mapping[str, Any], op: str, shape: Sequence[int]
) -> Iterator[tuple[list[str], Any]]:
    """Yield weight names of a PyTorch operation, and the recurrent weight stacked from them.

    It has a given shape: gates are reordered, biases and directions joined.

    Args:
        weights: those of the operation, in its order: two or four of each direction of each layer.
        op: the operator.
        shape: the shape to read.
    """
    gates = _GATES.get(op, ())
    if not gates or not weights or any(len(array) % len(gates) for array in weights.values()):
        return
    own_arrays = {
        name: np.concatenate([np.split(np.asarray(array), len(gates))[gate] for gate in gates])
        for name, array in weights.items()
    }
    names, directions = [*own_arrays], shape[0]
    index = 4 if any(array.ndim == 1 for array in own_arrays.values()) else 2
    for at in range(0, len(names), index * directions):
        cells = [names[at + index * direction :][:index] for direction in range(directions)]
        for kept_slice in ([slice(0, 1), slice(1, 2), slice(2, 4)] if all(cells) else ()):
            chosen = [name for cell in cells for name in cell[kept_slice]]
            arrays = [
                np.concatenate([own_arrays[name] for name in cell[kept_slice]])
                for cell in cells
                if cell[kept_slice]
            ]
            if arrays and (len(arrays), *arrays[0].shape) == tuple(shape):
                yield chosen, np.stack(arrays)


def weight_relation(value: Any, expected: Any) -> Fact | None:
    """Return the fact that relates a weight to its expected value,
    such as a scale or a transposition; None if there is no simple relation.
    """
    if value.shape != expected.shape:
        return None
    for order in [*permutations(range(value.ndim))][1:] if 1 < value.ndim <= _RANK else ():
        turned = np.transpose(expected, order)
        if turned.shape == value.shape and not deviation(value, turned).is_wrong:
            return (
                program_evidence.transposition()
                if value.ndim == 2
                else program_evidence.other_axis_order(order)
            )
    for axis in range(value.ndim):
        if not deviation(value, np.flip(expected, axis)).is_wrong:
            return program_evidence.axis_reversal(axis)
    factor = float(np.vdot(value, expected)) / max(float(np.vdot(expected, expected)), 1e-30)
    if factor and not deviation(value, (expected * factor).astype(value.dtype)).is_wrong:
        return program_evidence.scale_factor(factor)
    return None
