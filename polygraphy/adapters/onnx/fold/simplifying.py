"""Removes steps of a model that cannot change a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.fold.folding import walk_over
from polygraphy.adapters.onnx.fold.walk import QUANTISATION, GraphWalk
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.element_types import domain_of, signature_of, versions_of
from polygraphy.adapters.onnx.graph.graph import clean_model, delete_where, rename_uses, sort
from polygraphy.adapters.onnx.storage.stored import BaseLoadOnnxCopy
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


simplify: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")

_TO_THE_END = 2**31 - 1
"""The standard recommends this, or more, as the end of a slice where the length is not known."""


@mod.export(funcify=True)
class Simplify(BaseLoadOnnxCopy):
    """Removes nodes of an ONNX model whose result is one of their operands, for every input, and
    nodes that compute what another has computed.

    No rule computes in another order or rounds otherwise: outputs stay the same to the bit.
    """

    makes_new_model = True

    def call_impl(self) -> ModelProto:
        """Return the model; ModelError when nodes depend on each other in a circle."""
        return edited(self.load, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        if model.training_info:
            G_LOGGER.warning("A model with training information is not simplified.")
            return model
        sort(model.graph)
        counts: Counter[str] = Counter()
        for walk in walk_over(model, opens_branches=False).graphs:
            _Simplification(model, walk).run(counts)
        clean_model(model)
        removed = ", ".join(f"{count} {op}" for op, count in sorted(counts.items()))
        G_LOGGER.finish(f"Removed {counts.total()} nodes that change nothing: {removed or 'none'}.")
        return model


class _Simplification:
    """What can be removed from one graph."""

    def __init__(self, model: ModelProto, walk: GraphWalk) -> None:
        self._model = model
        self._graph: GraphProto = walk.nodes.graph
        self._walk = walk
        self._versions = versions_of(model.opset_import)
        self._same: dict[str, str] = {}
        """Which tensor stands for another."""
        self._numbers: dict[Any, str] = {}
        """The first tensor that was computed in a way, or that holds some value."""

    def run(self, counts: Counter[str]) -> None:
        """Remove what can be removed, and count it."""
        outputs = {value.name for value in self._graph.output}
        noted = {each.tensor_name for each in self._graph.quantization_annotation}
        made = {name for node in self._graph.node for name in node.output[:] if name}
        final: dict[str, str] = {}  # New names of tensors that are outputs now.
        unwanted: set[int] = set()
        for index, node in enumerate(self._graph.node):
            pairs = self._replaced(node)
            if not pairs or not noted.isdisjoint(node.output[:]):
                continue
            results = [name for name, _ in pairs if name in outputs]
            if results:
                # An output keeps its name, which its operand takes over if it is free to.
                [(name, source), *more] = pairs
                if more or source not in made or source in outputs or source in final:
                    continue
                if source in noted:
                    continue
                final[source] = name
                self._same[name] = source
            self._same.update(pairs)
            unwanted.add(index)
            counts[node.op_type] += 1
        if not unwanted:
            return
        positions = iter(range(len(self._graph.node)))
        delete_where(self._graph.node, lambda _: next(positions) in unwanted)
        names = {name: final.get(source, source) for name, source in self._same.items()}
        names.update(final)
        names = {name: after for name, after in names.items() if name != after}
        rename_uses(self._graph, names)
        for node in self._graph.node:
            for position, name in enumerate(node.output[:]):
                if name in final:
                    node.output[position] = final[name]
        delete_where(self._graph.value_info, lambda value: value.name in names)

    def _replaced(self, node: NodeProto) -> list[tuple[str, str]]:
        """Return the results of a node that another tensor stands for, with that tensor."""
        if domain_of(node.domain) or graphs_of(node) or not node.output:
            return []
        rule = _RULES.get(node.op_type)
        if rule is not None and len(node.output) == 1 and node.input and rule(node, self._walk):
            return [(node.output[0], self._source(node.input[0]))]
        key = self._key(node)
        if key is None:
            return []
        pairs = []
        for position, name in enumerate(node.output[:]):
            first = self._numbers.setdefault((position, *key), name)
            if name and first != name:
                pairs.append((name, first))
        complete = len(pairs) == sum(map(bool, node.output))
        return pairs if complete else []

    def _source(self, name: str) -> str:
        return self._same.get(name, name)

    def _key(self, node: NodeProto) -> tuple[Any, ...] | None:
        """Return what determines the results of a node; None where that is not all that counts."""
        if node.op_type in QUANTISATION:
            return None  # Backends look for these where they are.
        signature = signature_of(node.op_type, "", self._versions.get("", 1))
        if signature is None or not signature.is_deterministic or node.op_type == "Dropout":
            return None
        attributes = sorted(
            (each.name, each.SerializeToString(deterministic=True)) for each in node.attribute
        )
        # Of several results, those that are left out are computed by no other node either.
        wanted = tuple(map(bool, node.output))
        operands = tuple(map(self._number, node.input[:]))
        return node.op_type, operands, tuple(attributes), wanted

    def _number(self, name: str) -> Any:
        """Return what stands for the value of an operand: equal constants are alike."""
        tensor = self._walk.tensor(name)
        value = None if tensor is None else self._walk.nodes.small(name)
        if value is None or value.dtype.hasobject:
            return self._source(name)
        return tensor.data_type if tensor else 0, value.shape, value.tobytes()


# Each rule returns whether the only result of a node is its first operand.


def _identity(_: NodeProto, __: GraphWalk) -> bool:
    return True


def _reshape(node: NodeProto, walk: GraphWalk) -> bool:
    """Elements keep their order, so a shape that is there already changes nothing: one dimension
    may be left open, if all others are there and the count of elements does not change.
    """
    shape, target = walk.shape(node.input[0]), walk.known(node.input[1])
    if shape is None or target is None or len(shape) != len(target.values):
        return False
    copies = not any(each.name == "allowzero" and each.i for each in node.attribute)
    open_dims = 0
    for dim, wanted in zip(shape, target.values):
        if wanted == -1:
            open_dims += 1
        elif not (wanted == 0 and copies) and (wanted is None or wanted != dim):
            return False
    return open_dims <= 1


def _transpose(node: NodeProto, walk: GraphWalk) -> bool:
    """Axes that stay in their order are where they were."""
    for attribute in node.attribute:
        if attribute.name == "perm":
            return list(attribute.ints) == list(range(len(attribute.ints)))
    shape = walk.shape(node.input[0])
    return shape is not None and len(shape) <= 1


def _cast(node: NodeProto, walk: GraphWalk) -> bool:
    """A value of a type is itself in that type."""
    kind = walk.kind(node.input[0])
    return kind is not None and kind == walk.kind(node.output[0])


def _expand(node: NodeProto, walk: GraphWalk) -> bool:
    """A dimension that is as long as it should become, or is asked for as 1, stays."""
    shape, target = walk.shape(node.input[0]), walk.known(node.input[1])
    if shape is None or target is None or len(shape) < len(target.values):
        return False
    last = shape[len(shape) - len(target.values) :]
    return all(
        wanted == 1 or (wanted is not None and wanted == dim)
        for dim, wanted in zip(last, target.values)
    )


def _slice(node: NodeProto, walk: GraphWalk) -> bool:
    """From the first to the last element, one by one, are all of them."""
    if len(node.input) < 3:
        return False
    shape = walk.shape(node.input[0])
    limits = list(_operands(node, walk))
    if shape is None or any(limit is None for limit in limits):
        return False
    starts, ends, *further = limits
    axes = further[0] if further else range(len(starts))
    steps = further[1] if len(further) > 1 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape) or step != 1:
            return False
        dim = shape[axis]
        if start != 0 or not isinstance(end, int):
            return False
        if end < (dim if isinstance(dim, int) else _TO_THE_END):
            return False
    return True


def _operands(node: NodeProto, walk: GraphWalk) -> Iterator[Any]:
    """Yield the elements of the operands that limit a slice; None for what is not known."""
    count = 0
    for position, name in enumerate(node.input[1:]):
        if name:
            known = walk.known(name)
            yield None if known is None else known.values
            count = 0 if known is None else len(known.values)
        else:  # Axes that are left out, and steps.
            yield range(count) if position == 2 else [1] * count


def _single(node: NodeProto, _: GraphWalk) -> bool:
    """What is joined with nothing is what it was."""
    return len(node.input) == 1


_RULES: dict[str, Callable[[NodeProto, GraphWalk], bool]] = {
    "Cast": _cast,
    "Concat": _single,
    "Expand": _expand,
    "Identity": _identity,
    "Reshape": _reshape,
    "Slice": _slice,
    "Transpose": _transpose,
}
