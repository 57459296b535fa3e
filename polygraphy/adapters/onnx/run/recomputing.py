"""Computes single tensors of an ONNX model from those before them, in the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import constants_of
from polygraphy.adapters.onnx.graph.open_model import OpenModel, assemble, untyped
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.domain.results.results import Recomputed
from polygraphy.domain.tensors.precision import is_float
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    Array = np.ndarray[Any, Any]
    Feed = Mapping[str, Any]


numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_MOST_NODES = 64
_DRAWS = 3
_SCALES = {"Sigmoid": 1.0}
"""Operators that kernels compute as a sum with a constant, so that what they make is off by an
epsilon of that, however small it is: 1/2 + tanh(x/2) / 2.
"""


class Recomputer:
    """Computes tensors of a model."""

    def __init__(self, opened: OpenModel) -> None:
        self._opened = opened
        self._weights = {**opened.weights, **constants_of(opened.protos)}

    def recompute(self, name: str, runs: Sequence[Feed], epsilon: float) -> Recomputed | None:
        found = self._nodes(name, runs)
        if found is None:
            return None
        positions, known = found
        weights = self._elements(known)
        feeds = [{**weights, **_chosen(run, known)} for run in runs]
        # Wide numbers do not round again, but not everything takes them.
        for are_wide in (True, False) if epsilon else (False,):
            try:
                evaluate = self._evaluator(positions, name)
                taken = [_widened(feed) for feed in feeds] if are_wide else feeds
                values = [evaluate(feed) for feed in taken]
                operands = known - weights.keys()
                spread = _spread(evaluate, taken[-1], operands, values[-1], epsilon)
            except Exception as error:  # Operators are plain NumPy code, which raises anything.
                G_LOGGER.verbose(f"{name!r} cannot be computed from its inputs: {error}")
                continue
            node = self._opened.protos[positions[-1]]
            least = epsilon * _SCALES.get(node.op_type, 0.0)
            return Recomputed(values, numpy.maximum(spread, least))
        return None

    def _elements(self, names: Collection[str]) -> dict[str, Array]:
        """Return those of some tensors that are weights."""
        found: ModelProto = onnx.ModelProto()
        for name in names:
            if name in self._weights:
                found.graph.initializer.add().CopyFrom(self._weights[name])
                found.graph.initializer[-1].name = name
        if self._opened.load_weights is not None:
            self._opened.load_weights(found)
        return {tensor.name: elements(tensor) for tensor in found.graph.initializer}

    def _nodes(self, name: str, runs: Sequence[Feed]) -> tuple[list[int], set[str]] | None:
        """Return the nodes that compute a tensor from tensors that all runs know, and these."""
        nodes: set[int] = set()
        known: set[str] = set()
        open_names = [name]
        while open_names:
            current = open_names.pop()
            position = None if current in self._weights else self._opened.makers.get(current)
            if position is None or (current != name and all(current in run for run in runs)):
                known.add(current)
            elif position not in nodes:
                nodes.add(position)
                open_names += self._opened.reads[position]
        return (sorted(nodes), known) if 0 < len(nodes) <= _MOST_NODES else None

    def _evaluator(self, positions: Sequence[int], name: str) -> Callable[[Feed], Array]:
        from polygraphy.adapters.onnx_common.evaluator import evaluator_of

        nodes = [self._opened.protos[position] for position in positions]
        made = {each for node in nodes for each in node.output}
        read = dict.fromkeys(n for position in positions for n in self._opened.reads[position])
        inputs = [untyped(each) for each in read if each not in made]
        part = assemble(self._opened.proto, nodes, inputs=inputs, outputs=[untyped(name)])
        evaluator = evaluator_of(part)

        def evaluate(feed: Feed) -> Array:
            made: Any = evaluator.run([name], dict(feed))
            value: Array = numpy.asarray(made[0])
            return value

        return evaluate


def _chosen(run: Feed, names: set[str]) -> dict[str, Array]:
    return {name: numpy.asarray(run[name]) for name in names if name in run}


def _widened(feed: Feed) -> dict[str, Array]:
    return {n: a.astype(float) if is_float(a) else a for n, a in feed.items()}


def _spread(
    evaluate: Callable[[Feed], Array],
    feed: Mapping[str, Array],
    operands: Collection[str],
    value: Array,
    epsilon: float,
) -> Array:
    """Return how far the elements of a row move when operands are rounded, at random directions.
    Weights are not: the scales of a Resize, say, would make another shape.
    """
    total: Array = numpy.zeros(value.shape if epsilon else ())
    if not epsilon:
        return total
    random = numpy.random.default_rng(0)
    for _ in range(_DRAWS):
        moved = {
            name: (a * (1 + epsilon * random.choice((-1.0, 1.0), a.shape))).astype(a.dtype)
            for name, a in feed.items()
            if name in operands and is_float(a)
        }
        step = numpy.asarray(evaluate({**feed, **moved}), numpy.float64) - value
        total += numpy.where(numpy.isfinite(step), step, 0.0) ** 2
    if value.ndim and value.size:
        # An element may happen not to move, and its neighbours say how far it could.
        total = numpy.maximum(total, total.mean(axis=-1, keepdims=True))
    spread: Array = numpy.sqrt(total / _DRAWS)
    return spread
