"""Which parts an output of a graph has: a pure function of the graph, from the output towards the
inputs through everything that joins, fills or moves elements without computing them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.parts import DEEPEST, Layout
from polygraphy.domain.tensors.shapes import Dim


@frozen
class Maker:
    """The node that computes a tensor.

    Attributes:
        op: its operator; those of other domains than the standard one are not asked for.
        inputs: its inputs; "" for one that is left out.
        outputs: its outputs.
        attributes: numbers, lists of numbers, text and arrays, by name.
        bodies: the outputs of each of its subgraphs.
    """

    op: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Any]
    bodies: Sequence[Sequence[str]] = ()


class PartsGraph(Protocol):
    """A graph as the search for the parts of an output needs it."""

    def maker(self, tensor: str) -> Maker | None:
        """Return the node that computes a tensor; None unless it is a standard operator."""

    def shape(self, tensor: str) -> Sequence[Dim] | None:
        """Return the dimensions of a tensor: names for dynamic ones, None for unknown ones.
        The result is None if the rank is unknown.
        """

    def constant(self, tensor: str) -> Array | None:
        """Return a small constant; None for other tensors."""

    def is_constant(self, tensor: str) -> bool:
        """Return whether a tensor is a constant of any size."""

    def is_bounded(self, tensor: str) -> bool:
        """Return whether the elements of a tensor always lie between -1 and 1."""


def layout_of(output: str, graph: PartsGraph) -> Layout:
    """Return the parts that an output is assembled from."""
    return _Reader(graph).layout(output, 0)


_KEEPS_KIND = frozenset(
    {"Cast", "CastLike", "DequantizeLinear", "Identity", "Neg", "QuantizeLinear", "Dropout"}
)
"""Operators that hand each element on, perhaps rounded."""
_ELEMENTWISE = frozenset(
    {
        "Abs", "Celu", "Cos", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
        "Log", "Mish", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign",
        "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip
"""Others that compute each element of one."""
_WITH_CONSTANT = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "PRelu", "Sub"})
_COMPUTE_ALIKE = _ELEMENTWISE | {
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DFT", "Einsum", "Gemm",
    "GlobalAveragePool", "GRU", "GroupNormalization", "InstanceNormalization",
    "LayerNormalization", "LSTM", "MatMul", "MaxPool", "ReduceMean", "ReduceSum", "Resize", "RNN",
    "RMSNormalization", "Softmax", "STFT",
}  # fmt: skip
"""Operators none of whose results is a constant that does not follow from the others."""
_CUTS = frozenset({"Gather", "Slice", "Split"})
_LIMITS = frozenset({"Clip", "Max", "Min"})


class _Reader:
    """Finds the parts of an output in a graph."""

    def __init__(self, graph: PartsGraph) -> None:
        """Create a reader of a graph."""
        self._graph = graph
        self._rules: Mapping[str, Callable[[str, Maker, int], Layout | None]] = {
            "Clip": self._read_clip,
            "AveragePool": self._read_windows,
            "Concat": self._read_concat,
            "ConcatFromSequence": self._read_sequence,
            "Expand": self._read_repetition,
            "Flatten": self._read_reshape,
            "Gather": self._read_gather,
            "GatherElements": self._read_selection,
            "If": self._read_branches,
            "MaxPool": self._read_windows,
            "Pad": self._read_pad,
            "Reshape": self._read_reshape,
            "Resize": self._read_windows,
            "ScatterElements": self._read_scatter,
            "ScatterND": self._read_scatter,
            "Slice": self._read_slice,
            "Split": self._read_split,
            "Squeeze": self._read_squeeze,
            "TensorScatter": self._read_scatter,
            "Tile": self._read_repetition,
            "TopK": self._read_selection,
            "Transpose": self._read_transpose,
            "Unsqueeze": self._read_unsqueeze,
            "Upsample": self._read_windows,
            "Where": self._read_where,
        }

    def layout(self, tensor: str, depth: int) -> Layout:
        """Return the parts that a tensor is assembled from."""
        node = self._graph.maker(tensor) if depth < DEEPEST else None
        new_layout = None if node is None else self._read_node(tensor, node, depth + 1)
        if new_layout is None or _is_one(new_layout):
            return self._plain_layout(tensor, depth)
        return new_layout

    def _read_node(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of a tensor that a node computes; None if no rule applies."""
        rule = self._rules.get(node.op)
        if rule is not None:
            return rule(tensor, node, depth)
        if node.op in _KEEPS_KIND or node.op in _ELEMENTWISE:
            return self._read_elementwise(tensor, node, 0, depth)
        if node.op in _WITH_CONSTANT:
            constant = [self._graph.is_constant(name) for name in node.inputs]
            if len(node.inputs) == 2 and not any(constant):
                return self._read_combination(tensor, node, depth)
            if len(node.inputs) == 2 and sum(constant) == 1:
                at = constant.index(False)
                elementwise = self._read_elementwise(tensor, node, at, depth)
                is_scaled = node.op == "Mul" or (node.op == "Div" and at == 0)
                return (
                    self._read_scaled(node, at)
                    if elementwise is None and is_scaled
                    else elementwise
                )
        return None

    def _read_combination(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of an elementwise node with two computed inputs.
        The result is None if it has one part, or the inputs are broadcast."""
        shapes = [self._graph.shape(name) for name in node.inputs]
        if None in shapes or shapes[0] != shapes[1] or None in (shapes[0] or ()):
            return None
        operands = tuple(self.layout(name, depth) for name in node.inputs)
        if all(operand.kind == "leaf" for operand in operands):
            return None
        return Layout("combine", operands=operands, is_bounded=self._graph.is_bounded(tensor))

    def _plain_layout(self, tensor: str, depth: int = 0) -> Layout:
        """Return the layout of a tensor that has one part."""
        return Layout(
            name=tensor,
            origin=self._origin(tensor, depth),
            is_bounded=self._graph.is_bounded(tensor),
            is_pure=self._is_pure(tensor, depth),
        )

    def _is_pure(self, tensor: str, depth: int) -> bool:
        """Return whether one operator computes all elements of a tensor, without fill values."""
        node = self._graph.maker(self._origin(tensor, depth))
        return node is not None and node.op in _COMPUTE_ALIKE

    def _origin(self, tensor: str, depth: int) -> str:
        """Return the tensor that contains all elements of a tensor, in a different shape."""
        while depth < DEEPEST:
            node = self._graph.maker(tensor)
            if node is None or node.op not in _MOVES_PIECES or not node.inputs:
                break
            tensor, depth = node.inputs[0], depth + 1
        return tensor

    def _read_elementwise(self, tensor: str, node: Maker, at: int, depth: int) -> Layout | None:
        """Return the layout of the output of an elementwise node, from that of its input, or None.
        The result is None if it has one part.
        """
        read = node.inputs[at]
        elementwise = self.layout(read, depth)
        if elementwise.is_plain:
            return None
        is_same = node.op in _KEEPS_KIND
        if not is_same and len(node.inputs) > 1 and not self._keeps_shape(node, at):
            return None
        step = self._step(node)
        always = self._graph.is_bounded(tensor)

        def change_leaf(leaf: Layout) -> Layout:
            """Return a part after the elementwise operator."""
            if is_same:
                return evolve(leaf, step=max(step, leaf.step))
            pure = leaf.is_pure and node.op in _ELEMENTWISE
            return evolve(leaf, is_bounded=always, fills=(), step=0.0, is_pure=pure)

        elementwise = elementwise.with_leaves(change_leaf)
        if node.op in _LIMITS:
            limits = self._finite(node.inputs[1 - at])
            elementwise = elementwise.with_leaves(lambda leaf: evolve(leaf, fills=limits))
        return elementwise

    def _read_scaled(self, node: Maker, at: int) -> Layout | None:
        """Return the parts of a tensor whose slices are multiplied by constants of different
        magnitude, such as boxes (image size) and scores (1); None if the magnitudes are equal or
        unknown."""
        factors = self._graph.constant(node.inputs[1 - at])
        if factors is None or factors.size < 2 or factors.size != max(factors.shape):
            return None
        sizes = np.abs(np.asarray(factors, np.float64).reshape(-1))
        if not np.isfinite(sizes).all() or (node.op == "Div" and not sizes.all()):
            return None
        sizes = 1 / sizes if node.op == "Div" else sizes
        levels = _levels(sizes)
        if not levels.any():
            return None
        is_bounded = self._graph.is_bounded(node.inputs[at])
        starts = [0, *(at for at in range(1, len(levels)) if levels[at] != levels[at - 1])]
        lengths = np.diff([*starts, len(levels)])
        tensor = node.outputs[0]
        leaves = [
            Layout(
                origin=f"{tensor}//{levels[start]}",
                is_pure=True,
                is_bounded=is_bounded and max(sizes[levels == levels[start]]) <= 1,
            )
            for start in starts
        ]
        axis = factors.shape.index(factors.size) - factors.ndim
        return Layout(
            "join", "", "", tuple(leaves), (axis,), tuple(int(length) for length in lengths)
        )

    def _keeps_shape(self, node: Maker, at: int) -> bool:
        """Return whether a constant input leaves the shape unchanged."""
        shape, keeps_shape = (self._graph.shape(node.inputs[index]) for index in (at, 1 - at))
        if keeps_shape is None:
            return False
        if all(dim == 1 for dim in keeps_shape):
            return (
                (shape is not None and len(keeps_shape) <= len(shape))
                or not keeps_shape
                or len(keeps_shape) == 1
            )
        if shape is None or len(keeps_shape) > len(shape):
            return False
        return all(b in (1, a) for a, b in zip(shape[::-1], keeps_shape[::-1]))

    def _step(self, node: Maker) -> float:
        """Return the quantization step of a node: the largest scale; 0 if it is unknown."""
        if node.op not in ("QuantizeLinear", "DequantizeLinear") or len(node.inputs) < 2:
            return 0.0
        scale = self._graph.constant(node.inputs[1])
        return 0.0 if scale is None or not scale.size else float(np.abs(scale).max())

    def _finite(self, name: str) -> tuple[float, ...]:
        """Return the first four finite values of a constant."""
        value = self._graph.constant(name) if name else None
        if value is None or not value.size or value.dtype.kind in "OSU":
            return ()
        unique = np.unique(np.asarray(value, np.float64))
        return tuple(float(value) for value in unique[np.isfinite(unique)][:4])

    def _read_concat(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Concat; None without a known axis."""
        axis = node.attributes.get("axis")
        if axis is None:
            return None
        operands = tuple(
            self._layout_with_tensor(name, self.layout(name, depth)) for name in node.inputs
        )
        lengths = []
        for name in node.inputs:
            shape = self._graph.shape(name)
            is_valid = shape is not None and -len(shape) <= axis < len(shape)
            lengths.append(shape[axis] if shape is not None and is_valid else None)
        return Layout("join", operands=operands, numbers=(int(axis),), shape=tuple(lengths))

    @staticmethod
    def _layout_with_tensor(tensor: str, layout: Layout) -> Layout:
        """Return a layout that knows the tensor of an operand."""
        return layout if layout.kind == "leaf" else evolve(layout, name=tensor)

    def _read_move(self, kind: Any, node: Maker, depth: int, numbers: Sequence[int] = ()) -> Layout:
        """Return the layout of a tensor whose elements are moved by an operator."""
        shape = self._graph.shape(node.inputs[0])
        return Layout(
            kind,
            operands=(self.layout(node.inputs[0], depth),),
            numbers=tuple(int(number) for number in numbers),
            shape=None if shape is None else tuple(shape),
        )

    def _read_transpose(self, tensor: str, node: Maker, depth: int) -> Layout:
        """Return the layout of the output of Transpose."""
        return self._read_move("transpose", node, depth, node.attributes.get("perm", ()))

    def _read_reshape(self, tensor: str, node: Maker, depth: int) -> Layout:
        """Return the layout of the output of Reshape."""
        return self._read_move("reshape", node, depth)

    def _axes(self, node: Maker, at: int = 1) -> list[int] | None:
        """Return the axes of a node, from its attribute or an input; None if they are unknown."""
        if "axes" in node.attributes:
            return list(node.attributes["axes"])
        return self._integer_elements(node, at)

    def _integer_elements(self, node: Maker, at: int) -> list[int] | None:
        """Return the elements of an integer operand; None for other operands."""
        if len(node.inputs) <= at or not node.inputs[at]:
            return None
        value = self._graph.constant(node.inputs[at])
        if value is None or not np.issubdtype(value.dtype, np.integer):
            return None
        return [int(item) for item in value.reshape(-1)]

    def _read_unsqueeze(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Unsqueeze; None if the axes are unknown."""
        axes = self._axes(node)
        return None if axes is None else self._read_move("unsqueeze", node, depth, axes)

    def _read_squeeze(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Squeeze; None if the axes are unknown."""
        axes = self._axes(node)
        if axes is None:
            shape = self._graph.shape(node.inputs[0])
            if shape is None or not all(isinstance(dim, int) for dim in shape):
                return None
            axes = [axis for axis, length in enumerate(shape) if length == 1]
        return self._read_move("squeeze", node, depth, axes)

    def _read_slice(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Slice; None if the range is unknown."""
        if "starts" in node.attributes:
            starts, ends = node.attributes["starts"], node.attributes["ends"]
            axes, steps = node.attributes.get("axes"), None
        else:
            starts, ends = self._integer_elements(node, 1), self._integer_elements(node, 2)
            axes, steps = self._integer_elements(node, 3), self._integer_elements(node, 4)
        if starts is None or ends is None:
            return None
        axes = list(range(len(starts))) if axes is None else list(axes)
        new_layout = self.layout(node.inputs[0], depth)
        shape = self._graph.shape(node.inputs[0])
        for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts)):
            new_layout = Layout(
                "take",
                operands=(new_layout,),
                numbers=(axis, start, end, step),
                shape=None if shape is None else tuple(shape),
            )
            if shape is not None and -len(shape) <= axis < len(shape):
                length = shape[axis]
                shape = [*shape]
                shape[axis] = (
                    None
                    if not isinstance(length, int) or step == 0
                    else len(range(length)[slice(start, None if end < -length else end, step)])
                )
        return new_layout

    def _read_split(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of an output of Split; None if the sizes are unknown."""
        axis = int(node.attributes.get("axis", 0))
        sizes = node.attributes.get("split") or self._integer_elements(node, 1)
        shape = self._graph.shape(node.inputs[0])
        length = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
        if sizes is None:
            if not isinstance(length, int):
                return None
            index = -(-length // len(node.outputs))
            sizes = [min(index, length - index * at) for at in range(len(node.outputs))]
        at = list(node.outputs).index(tensor)
        start = sum(sizes[:at])
        return self._read_move("take", node, depth, (axis, start, start + sizes[at], 1))

    def _read_gather(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Gather; None if the indices have several axes."""
        axis = int(node.attributes.get("axis", 0))
        indices = self._graph.constant(node.inputs[1])
        shape = self._graph.shape(node.inputs[1])
        rank = indices.ndim if indices is not None else None if shape is None else len(shape)
        if rank == 0 and indices is not None:
            index = int(indices)
            move = self._read_move("take", node, depth, (axis, index, index + 1 or 1 << 62, 1))
            return Layout("squeeze", operands=(move,), numbers=(axis,))
        return self._read_move("choose", node, depth, (axis,)) if rank == 1 else None

    def _read_selection(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of TopK or a similar operator; None for its indices."""
        if node.op == "TopK" and tensor != node.outputs[0]:
            return None
        default = -1 if node.op == "TopK" else 0
        return self._read_move("choose", node, depth, (int(node.attributes.get("axis", default)),))

    def _read_pad(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Pad with a constant, or None.
        The result is None for other modes or unknown pads.
        """
        if node.attributes.get("mode", "constant") != "constant":
            return None
        pads = node.attributes.get("pads") or self._integer_elements(node, 1)
        if pads is None or len(node.inputs) > 3:
            return None
        padding = Layout(name=f"padding of {tensor}", origin=f"//padding of {tensor}")
        move = self._read_move("pad", node, depth, pads)
        return evolve(move, operands=(*move.operands, padding))

    def _read_where(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Where.
        A constant becomes a value that fills the other input. None if both are constants."""
        if len(node.inputs) != 3:
            return None
        constant = [self._graph.is_constant(name) for name in node.inputs[1:]]
        if not any(constant):
            return evolve(self._plain_layout(tensor, depth), is_mixed=True)
        if all(constant):
            return None
        at = 1 + constant.index(False)
        fills = self._finite(node.inputs[3 - at])
        plain_layout = self.layout(node.inputs[at], depth)
        own_shape, shape = self._graph.shape(node.inputs[at]), self._graph.shape(tensor)
        if plain_layout.kind != "leaf" and (
            own_shape is None or shape is None or len(own_shape) != len(shape)
        ):
            # The operand may be broadcast, which changes the positions of its parts.
            plain_layout = self._plain_layout(tensor, depth)
        elif plain_layout.kind == "leaf":
            plain_layout = evolve(
                plain_layout, name=tensor if plain_layout.is_plain else plain_layout.name
            )
        return plain_layout.with_leaves(lambda leaf: evolve(leaf, fills=(*leaf.fills, *fills)))

    def _read_clip(self, tensor: str, node: Maker, depth: int) -> Layout:
        """Return the layout of the output of Clip, whose limits are fill values."""
        names = [*node.inputs[1:3]]
        fills = tuple(number for name in names for number in self._finite(name))
        fills += tuple(
            float(node.attributes[key]) for key in ("min", "max") if key in node.attributes
        )
        clip = self.layout(node.inputs[0], depth)
        return clip.with_leaves(lambda leaf: evolve(leaf, fills=(*leaf.fills, *fills)))

    def _read_repetition(self, tensor: str, node: Maker, depth: int) -> Layout:
        """Return the layout of the output of Tile or Expand."""
        return self._read_move("repeat", node, depth)

    def _read_windows(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Resize or a pool, which compute each element from some
        of the same channel; None for an index."""
        shape = self._graph.shape(node.inputs[0])
        if shape is None or len(shape) < 3 or tensor != node.outputs[0]:
            return None
        new_layout = self.layout(node.inputs[0], depth)
        for axis in range(2, len(shape)):
            new_layout = Layout("choose", operands=(new_layout,), numbers=(axis,), shape=(*shape,))
        return new_layout

    def _read_branches(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of an output of If: that of the first branch whose output has parts.
        The result is None if there is none."""
        at = list(node.outputs).index(tensor)
        layouts = [self.layout(names[at], depth) for names in node.bodies if at < len(names)]
        return next((layout for layout in layouts if not layout.is_plain), None)

    def _read_sequence(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of ConcatFromSequence, or None.
        The result is None if the tensors of the sequence are unknown."""
        maker = self._graph.maker(node.inputs[0])
        axis = node.attributes.get("axis")
        if maker is None or maker.op != "SequenceConstruct" or axis is None:
            return None
        if not node.attributes.get("new_axis"):
            return self._read_concat(tensor, evolve(node, inputs=maker.inputs), depth)
        operands = tuple(
            Layout("unsqueeze", operands=(self.layout(name, depth),), numbers=(int(axis),))
            for name in maker.inputs
        )
        lengths = (1,) * len(operands)
        return Layout("join", operands=operands, numbers=(int(axis),), shape=lengths)

    def _read_scatter(self, tensor: str, node: Maker, depth: int) -> Layout:
        """Return the layout of the output of ScatterElements or ScatterND,
        which mixes two inputs."""
        fills = self._finite(node.inputs[0]) if self._graph.is_constant(node.inputs[0]) else ()
        return evolve(self._plain_layout(tensor, depth), is_mixed=True, fills=fills)


_MOVES_PIECES = _CUTS | {
    "Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
}  # fmt: skip


def _levels(sizes: Array) -> Array:
    """Return the level number of each size; each level is far above the previous one."""
    levels = np.zeros(len(sizes), int)
    first, level = 0.0, -1
    for at in np.argsort(sizes, kind="stable"):
        if level < 0 or sizes[at] > _FAR_ABOVE * first:
            first, level = sizes[at], level + 1
        levels[at] = level
    return levels


_FAR_ABOVE = 16.0
"""Slices that are multiplied by a number this factor larger are another part. Chosen, not
measured."""


def _is_one(layout: Layout) -> bool:
    """Return whether a layout only moves the elements of a single part."""
    if layout.kind == "leaf":
        return layout.is_plain
    if layout.kind in ("join", "pad", "combine"):
        return False
    return layout.operands[0].is_plain
