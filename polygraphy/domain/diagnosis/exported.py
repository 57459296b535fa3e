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
from polygraphy.domain.diagnosis.regions import GraphNode, producers
from polygraphy.domain.diagnosis.words import evidence, titles
from polygraphy.domain.rounding import LARGE, deviation
from polygraphy.domain.tensors.precision import is_float

EXPORTER = "exporter"
"""The party at fault where a model is not what its program computes."""

_SAMPLED = 512
_CLEARER = 10.0
_SAME = 32
"""Tensors of one value that are distinguished by what is around them."""
_AROUND = 64
"""Tensors without a counterpart that are looked through for those that have one."""
_RANK = 5
"""Axes of the largest tensors of which other orders are tried."""
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""In which order ONNX has the gates of PyTorch."""


@frozen(eq=False)
class Print:
    """What is kept of a tensor to find it again: its shape, and a sample of its elements."""

    shape: tuple[int, ...]
    kind: str
    sample: np.ndarray[Any, Any]
    size: float
    tells: bool

    def distance(self, other: Print) -> float:
        """Return how far apart two tensors are, relative to their size; infinity for others."""
        if self.shape != other.shape or self.kind != other.kind:
            return np.inf
        apart = np.abs(self.sample - other.sample)
        same = (self.sample == other.sample) | (np.isnan(self.sample) & np.isnan(other.sample))
        most = float(np.max(np.where(same, 0.0, apart), initial=0.0))
        return np.inf if np.isnan(most) else most / max(self.size, other.size, 1e-30)


def print_of(value: Any) -> Print | None:
    """Return what is kept of a tensor; None of what is no array of numbers."""
    if not isinstance(value, np.ndarray) or not (is_float(value) or value.dtype.kind in "iub"):
        return None
    flat = value.reshape(-1)
    step = max(1, flat.size // _SAMPLED) | 1
    sample = flat[::step].astype(np.float64)
    finite = sample[np.isfinite(sample)]
    size = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
    kind = "f" if is_float(value) else "i"
    tells = flat.size > 1 and bool(np.ptp(finite) > 0 if finite.size else False)
    return Print(tuple(value.shape), kind, sample, size, tells)


def same_tensors(
    mine: Mapping[str, Print],
    theirs: Mapping[str, Print],
    named: Mapping[str, str],
    known: Mapping[str, str],
    graphs: tuple[Sequence[GraphNode], Sequence[GraphNode]] = ((), ()),
) -> dict[str, str]:
    """Return by tensor of a model the tensor of its program with the same value: the one that the
    exporter recorded, else the only one, the clearly nearest, the one among the same tensors, or
    the next in order.

    Args:
        mine: the tensors of the model, in order.
        theirs: those of the program, in order.
        named: by tensor of the model, what the exporter recorded.
        known: what is known already.
        graphs: the nodes of both, which distinguish tensors of one value.
    """
    alike: dict[tuple[Any, str], list[str]] = {}
    for name, each in theirs.items():
        alike.setdefault((each.shape, each.kind), []).append(name)
    found: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    for name, own in mine.items():
        if name in known:
            continue
        apart = {  # Beyond, no rounding explains it.
            other: distance
            for other in alike.get((own.shape, own.kind), ())
            if (distance := own.distance(theirs[other])) <= LARGE
        }
        if not apart or (not own.tells and named.get(name) not in apart):
            continue
        ranked = sorted(apart, key=lambda other: apart[other])
        if named.get(name) in apart:
            found[name] = named[name]
        elif len(ranked) == 1 or apart[ranked[1]] > max(_CLEARER * apart[ranked[0]], 1e-6):
            found[name] = ranked[0]
        else:
            several[name] = [*apart]
    return _distinguish(mine, theirs, {**known, **found}, several, graphs) | found


def _distinguish(
    mine: Mapping[str, Print],
    theirs: Mapping[str, Print],
    pairs: dict[str, str],
    several: Mapping[str, Sequence[str]],
    graphs: tuple[Sequence[GraphNode], Sequence[GraphNode]],
) -> dict[str, str]:
    """Return which of several tensors of one value others are: the one before and behind which most
    is the same, else the next in order, as before and after a dropout that does nothing.

    Args:
        pairs: what is known; what is found is added.
        several: by tensor of the model those of the program, in order.
    """
    order = {name: index for index, name in enumerate(theirs)}
    links = [*zip(*(_links(nodes) for nodes in graphs))] if several else []
    found: dict[str, str] = {}
    taken = set(pairs.values())
    last = -1
    for name in mine:
        if name in several:
            later = [other for other in several[name] if order[other] > last]
            best, most = later[:1], 0
            for other in [*later[:_SAME], *several[name][:_SAME]]:
                count = 0
                for here, there in links:
                    around = {pairs[each] for each in _nearest(here, name, pairs)}
                    count += len(around & _nearest(there, other, taken))
                if count > most:
                    best, most = [other], count
            if best:
                found[name] = pairs[name] = best[0]
                taken.add(best[0])
        last = max(last, order.get(pairs.get(name, ""), -1))
    return found


def _links(nodes: Sequence[GraphNode]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return by tensor what it is made of, and what is made of it."""
    before: dict[str, set[str]] = {}
    behind: dict[str, set[str]] = {}
    for node in nodes:
        for name in node.makes:
            before[name] = set(node.reads)
        for name in node.reads:
            behind.setdefault(name, set()).update(node.makes)
    return before, behind


def _nearest(links: Mapping[str, set[str]], tensor: str, known: Collection[str]) -> set[str]:
    """Return the tensors of those that are known that are nearest in one direction."""
    found: set[str] = set()
    seen, pending = {tensor}, [tensor]
    while pending and len(seen) < _AROUND:
        for name in links.get(pending.pop(), ()):
            if name in known:
                found.add(name)
            elif name not in seen:
                seen.add(name)
                pending.append(name)
    return found


def without_counterpart(nodes: Sequence[GraphNode], matched: Collection[str]) -> list[str]:
    """Return the tensors that have no counterpart, and nothing that is made of them has, in order:
    where a model and its program part, it is before these.
    """
    behind: set[str] = set()
    for node in reversed(nodes):
        if any(name in matched or name in behind for name in node.makes):
            behind.update(node.reads)
    return [
        name for node in nodes for name in node.makes if name not in matched and name not in behind
    ]


def operations(
    nodes: Sequence[GraphNode], tensor: str, matched: Collection[str]
) -> list[GraphNode]:
    """Return the operations of a program between tensors that have counterparts and one, the last
    first; what only takes a part of a result, as `getitem`, goes with what makes it.
    """
    makers = producers(nodes)
    found: list[GraphNode] = []
    pending = [tensor]
    while pending:
        index = makers.get(pending.pop(0))
        if index is None or nodes[index] in found:
            continue
        found.append(nodes[index])
        is_part = nodes[index].op == "getitem"
        pending += [name for name in nodes[index].reads if is_part or name not in matched]
    return sorted(found, key=nodes.index, reverse=True)


def nearest_origin(nodes: Sequence[GraphNode], node: GraphNode) -> str:
    """Return the line of a program that an operation is from, or else the nearest that is known;
    empty where none is.
    """
    if node.origin is not None:
        return node.origin
    at = nodes.index(node)
    around = sorted(range(len(nodes)), key=lambda index: (abs(index - at), index > at))
    known = next((nodes[index] for index in around if nodes[index].origin is not None), None)
    return "" if known is None else titles.near_line(known.origin, known.op)


def layout_of(value: Any, right: Any) -> tuple[int, ...] | None:
    """Return in which order the axes lie of what a tensor should be; None where it holds other
    numbers, or is the same.
    """
    if np.ndim(value) != np.ndim(right) or np.size(value) != np.size(right):
        return None
    if not 1 < np.ndim(value) <= _RANK:
        return None
    own = print_of(np.asarray(value))
    for order in permutations(range(np.ndim(value))):
        if order == tuple(range(np.ndim(value))):
            continue
        turned = print_of(np.ascontiguousarray(np.transpose(right, order)))
        if own is not None and turned is not None and own.distance(turned) <= LARGE and own.tells:
            return order
    return None


def same_weight(value: Any, other: Any, reordered: bool = False) -> bool:
    """Return whether two weights hold the same numbers, whatever the order of their axes.

    Args:
        value: the weight of a model.
        other: that of its program.
        reordered: whether numbers may be in any order, as the gates of an LSTM.
    """
    first, second = np.asarray(value), np.asarray(other)
    if first.size != second.size:
        return False
    if reordered:
        return not deviation(np.sort(first.reshape(-1)), np.sort(second.reshape(-1)))
    squeezed = [np.squeeze(each) for each in (first, second)]
    if squeezed[0].ndim != squeezed[1].ndim:
        return not deviation(first.reshape(-1), second.reshape(-1))
    if squeezed[0].ndim > _RANK:
        return False
    turned = (np.transpose(squeezed[1], order) for order in permutations(range(squeezed[1].ndim)))
    return any(
        each.shape == squeezed[0].shape and not deviation(squeezed[0], each) for each in turned
    )


def arrangements(right: Any, shape: Sequence[int]) -> Iterator[Any]:
    """Yield what a weight of a program may be in a model where it has a shape: as it is, then with
    its axes in another order.
    """
    right = np.asarray(right)
    plain, sizes = np.squeeze(right), [size for size in shape if size != 1]
    if plain.ndim > _RANK or sorted(plain.shape) != sorted(sizes):
        if right.size == np.prod(shape):
            yield right.reshape(shape)
        return
    for order in permutations(range(plain.ndim)):
        turned = np.transpose(plain, order)
        if list(turned.shape) == sizes:
            yield np.ascontiguousarray(turned).reshape(shape)


def stack_weights(
    weights: Mapping[str, Any], op: str, shape: Sequence[int]
) -> Iterator[tuple[list[str], Any]]:
    """Yield what a recurrent operator may read for the weights of an operation of PyTorch, as far
    as that has a shape, with their names: gates in another order, both biases and all directions in
    one.

    Args:
        weights: those of the operation, in its order: two or four of each direction of each layer.
        op: the operator.
        shape: what is read.
    """
    gates = _GATES.get(op, ())
    if not gates or not weights or any(len(array) % len(gates) for array in weights.values()):
        return
    own = {
        name: np.concatenate([np.split(np.asarray(array), len(gates))[gate] for gate in gates])
        for name, array in weights.items()
    }
    names, directions = [*own], shape[0]
    each = 4 if any(array.ndim == 1 for array in own.values()) else 2
    for at in range(0, len(names), each * directions):
        cells = [names[at + each * way :][:each] for way in range(directions)]
        for kept in ([slice(0, 1), slice(1, 2), slice(2, 4)] if all(cells) else ()):
            chosen = [name for cell in cells for name in cell[kept]]
            made = [
                np.concatenate([own[name] for name in cell[kept]]) for cell in cells if cell[kept]
            ]
            if made and (len(made), *made[0].shape) == tuple(shape):
                yield chosen, np.stack(made)


def relation(value: Any, right: Any) -> Fact | None:
    """Return how a weight follows from what it should be; None if that is not seen."""
    if value.shape != right.shape:
        return None
    for order in [*permutations(range(value.ndim))][1:] if 1 < value.ndim <= _RANK else ():
        turned = np.transpose(right, order)
        if turned.shape == value.shape and not deviation(value, turned):
            return evidence.transposed() if value.ndim == 2 else evidence.other_axis_order(order)
    for axis in range(value.ndim):
        if not deviation(value, np.flip(right, axis)):
            return evidence.reversed_axis(axis)
    factor = float(np.vdot(value, right)) / max(float(np.vdot(right, right)), 1e-30)
    if factor and not deviation(value, (right * factor).astype(value.dtype)):
        return evidence.scaled(factor)
    return None
