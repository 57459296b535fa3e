"""Which parts an output of a graph has: a pure function of the graph, from the output towards the
inputs through everything that joins, fills or moves elements without computing them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.model.part_layouts import (
    are_same_tensors,
    layout_by_size,
    layout_of_runs,
    without_names,
)
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.parts import DEEPEST, PADDING, Layout
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

    def sizes_along(self, tensor: str, axis: int) -> Array | None:
        """Return the RMS of a constant in each slice along an axis; None for other tensors."""

    def is_bounded(self, tensor: str) -> bool:
        """Return whether the elements of a tensor always lie between -1 and 1."""


def layout_of(output: str, graph: PartsGraph) -> Layout:
    """Return the parts that an output is assembled from."""
    return _Reader(graph).layout(output, 0)


_KEEPS_KIND = frozenset(
    {"Cast", "CastLike", "DequantizeLinear", "Identity", "Neg", "QuantizeLinear", "Dropout"}
)
"""Operators that hand each element on, perhaps rounded."""
ELEMENTWISE = frozenset(
    {
        "Abs", "Celu", "Cos", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
        "Log", "Mish", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign",
        "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip
"""Others that compute each element of one."""
_WITH_CONSTANT = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "PRelu", "Sub"})
_COMPUTE_ALIKE = ELEMENTWISE | {
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DFT", "Einsum", "Gemm",
    "GlobalAveragePool", "GRU", "GroupNormalization", "InstanceNormalization",
    "LayerNormalization", "LSTM", "MatMul", "MaxPool", "ReduceMean", "ReduceSum", "Resize", "RNN",
    "RMSNormalization", "Softmax", "STFT",
}  # fmt: skip
"""Operators none of whose results is a constant that does not follow from the others."""
_MAY_JOIN = frozenset({"ConcatFromSequence", "Loop", "Scan", "SequenceAt"})
"""Operators that join tensors, of which a graph may not show where they are."""
_CUTS = frozenset({"Gather", "Slice", "Split"})
_LIMITS = frozenset({"Clip", "Max", "Min"})


class _Reader:
    """Finds the parts of an output in a graph."""

    def __init__(self, graph: PartsGraph) -> None:
        """Create a reader of a graph."""
        self._graph = graph
        self._layouts: dict[str, Layout] = {}
        self._rules: Mapping[str, Callable[[str, Maker, int], Layout | None]] = {
            "BatchNormalization": self._read_normalization,
            "Clip": self._read_clip,
            "AveragePool": self._read_windows,
            "Compress": self._read_selection,
            "Concat": self._read_concat,
            "ConcatFromSequence": self._read_sequence,
            "Conv": self._read_product,
            "CumSum": self._read_running_sum,
            "DepthToSpace": self._read_blocks,
            "Expand": self._read_repetition,
            "Flatten": self._read_reshape,
            "Gather": self._read_gather,
            "GatherElements": self._read_selection,
            "GatherND": self._read_rows,
            "Gemm": self._read_product,
            "GlobalAveragePool": self._read_windows,
            "GlobalMaxPool": self._read_windows,
            "GridSample": self._read_windows,
            "If": self._read_branches,
            "Loop": self._read_loop,
            "MatMul": self._read_product,
            "MaxPool": self._read_windows,
            "Pad": self._read_pad,
            "QLinearConcat": self._read_quantized_concat,
            "Reshape": self._read_reshape,
            "Resize": self._read_windows,
            "ReverseSequence": self._read_selection,
            "Scan": self._read_scan,
            "ScatterElements": self._read_scatter,
            "ScatterND": self._read_scatter,
            "Slice": self._read_slice,
            "SpaceToDepth": self._read_blocks,
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
        if tensor not in self._layouts:
            node = self._graph.maker(tensor) if depth < DEEPEST else None
            new_layout = None if node is None else self._read_node(tensor, node, depth + 1)
            if new_layout is None or _is_one(new_layout):
                is_hidden = node is not None and new_layout is None
                new_layout = self._plain_layout(tensor, depth)
                if node is not None and is_hidden and self._hides_parts(node, depth + 1):
                    new_layout = evolve(new_layout, has_unknown_parts=True)
            self._layouts[tensor] = new_layout
        return self._layouts[tensor]

    def _hides_parts(self, node: Maker, depth: int) -> bool:
        """Return whether a node without a rule may hand on the parts of a tensor that it reads."""
        if node.op in _COMPUTE_ALIKE:
            return False
        # What selects elements, as indices do, has no parts that an operator hands on.
        data = node.inputs[: 1 if node.op in self._rules else None]
        is_plain = all(
            self.layout(name, depth).is_plain
            for name in data
            if name and not self._graph.is_constant(name)
        )
        return node.op in _MAY_JOIN or not is_plain

    def _read_node(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of a tensor that a node computes; None if no rule applies."""
        rule = self._rules.get(node.op)
        if rule is not None:
            return rule(tensor, node, depth)
        if node.op in _KEEPS_KIND or node.op in ELEMENTWISE:
            return self._read_elementwise(tensor, node, 0, depth)
        if node.op.startswith("Reduce"):
            return self._read_reduction(tensor, node, depth)
        if node.op in _WITH_CONSTANT or node.op in ("Mean", "Sum"):
            constant = [self._graph.is_constant(name) for name in node.inputs]
            if len(node.inputs) > 1 and not any(constant):
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
        """Return the layout of the output of an elementwise node with several computed inputs.
        The result is None if it has one part, or if inputs with parts are broadcast."""
        shape = self._graph.shape(tensor)
        operands = tuple(self.layout(name, depth) for name in node.inputs)
        joined = [
            self._graph.shape(name)
            for name, operand in zip(node.inputs, operands)
            if operand.kind != "leaf"
        ]
        if not joined or any(each is None or None in each or each != joined[0] for each in joined):
            return None
        if any(operand.has_unknown_parts for operand in operands):
            return None
        if len(joined) < len(operands) and (shape is None or [*shape] != [*(joined[0] or ())]):
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
        has_operand = len(node.inputs) > 1 and node.op != "BatchNormalization"
        if not is_same and has_operand and not self._keeps_shape(node, at):
            return None
        step = self._step(node)
        always = self._graph.is_bounded(tensor)

        def change_leaf(leaf: Layout) -> Layout:
            """Return a part after the elementwise operator."""
            if is_same:
                return evolve(leaf, step=max(step, leaf.step))
            is_pure = leaf.is_pure and (node.op in ELEMENTWISE or not has_operand)
            return evolve(leaf, is_bounded=always, fills=(), step=0.0, is_pure=is_pure)

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
        axis = factors.shape.index(factors.size) - factors.ndim
        is_bounded = self._graph.is_bounded(node.inputs[at])
        return layout_by_size(node.outputs[0], sizes, axis, is_bounded=is_bounded)

    def _read_product(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the parts of a product with a weight whose first channels are of a different
        magnitude than the next ones, such as boxes and scores of one convolution; else None."""
        axis_of_weight, axis = CHANNELS[node.op]
        if node.op == "Gemm" and node.attributes.get("transB"):
            axis_of_weight = 0
        sizes = self._graph.sizes_along(node.inputs[1], axis_of_weight)
        return None if sizes is None else layout_of_runs(tensor, sizes, axis)

    def _read_normalization(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of BatchNormalization."""
        return self._read_elementwise(tensor, node, 0, depth)

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

    def _read_quantized_concat(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of QLinearConcat, which reads a scale and a zero point
        for its output and for each tensor."""
        return self._read_concat(tensor, evolve(node, inputs=node.inputs[2::3]), depth)

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
        if indices is not None and rank == 1 and 0 < indices.size <= _MOST_SLICES:
            slices = [
                self._read_move("take", node, depth, (axis, first, last + 1 or 1 << 62, 1))
                for first, last in _runs(indices.tolist())
            ]
            lengths = tuple(last + 1 - first for first, last in _runs(indices.tolist()))
            return Layout("join", operands=tuple(slices), numbers=(axis,), shape=lengths)
        return self._read_move("choose", node, depth, (axis,)) if rank == 1 else None

    def _read_selection(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of TopK or a similar operator; None for its indices, or
        if the axis is unknown."""
        if node.op == "TopK" and tensor != node.outputs[0]:
            return None
        name = "time_axis" if node.op == "ReverseSequence" else "axis"
        axis = node.attributes.get(name, _DEFAULT_AXES.get(node.op))
        return None if axis is None else self._read_move("choose", node, depth, (int(axis),))

    def _read_rows(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of GatherND if it selects slices along the first axis;
        else None."""
        shape = self._graph.shape(node.inputs[1])
        is_row = shape is not None and len(shape) == 2 and shape[1] == 1
        is_first = is_row and not node.attributes.get("batch_dims")
        return self._read_move("choose", node, depth, (0,)) if is_first else None

    def _read_running_sum(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of CumSum; None if the axis is unknown."""
        axes = self._axes(node)
        return None if axes is None else self._read_move("choose", node, depth, axes)

    def _read_reduction(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of sums, means or other statistics over some axes;
        None if the axes are unknown, or if the result has one part."""
        axes, shape = self._axes(node), self._graph.shape(node.inputs[0])
        if axes is None or shape is None or self.layout(node.inputs[0], depth).is_plain:
            return None
        axes = [axis % len(shape) for axis in axes]
        new_layout = self._choose_along(self.layout(node.inputs[0], depth), axes, shape)
        if not node.attributes.get("keepdims", 1):
            new_layout = Layout("squeeze", operands=(new_layout,), numbers=tuple(axes))
        is_bounded = self._graph.is_bounded(tensor)
        return new_layout.with_leaves(
            lambda leaf: evolve(leaf, is_bounded=is_bounded, fills=(), step=0.0)
        )

    @staticmethod
    def _choose_along(layout: Layout, axes: Sequence[int], shape: Sequence[Dim]) -> Layout:
        """Return the layout of a tensor each of whose elements is computed from some elements of
        another one along axes."""
        for axis in axes:
            layout = Layout("choose", operands=(layout,), numbers=(axis,), shape=(*shape,))
        return layout

    def _read_blocks(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of DepthToSpace or SpaceToDepth;
        None if the shape is unknown."""
        shape, block = self._graph.shape(node.inputs[0]), int(node.attributes.get("blocksize", 0))
        if shape is None or len(shape) != 4 or block < 1:
            return None
        count, channels, height, width = shape
        if not all(isinstance(length, int) for length in (channels, height, width)):
            return None
        assert isinstance(channels, int) and isinstance(height, int) and isinstance(width, int)
        order: tuple[int, ...]
        if node.op == "SpaceToDepth":
            split: list[Dim] = [
                *(count, channels, height // block, block, width // block, block)
            ]  # fmt: skip
            order = (0, 3, 5, 1, 2, 4)
        elif node.attributes.get("mode", "DCR") == "DCR":
            split = [count, block, block, channels // block**2, height, width]
            order = (0, 3, 4, 1, 5, 2)
        else:
            split = [count, channels // block**2, block, block, height, width]
            order = (0, 1, 4, 2, 5, 3)
        divided = self._read_move("reshape", node, depth)
        turned = Layout("transpose", operands=(divided,), numbers=order)
        return Layout("reshape", operands=(turned,), shape=tuple(split[axis] for axis in order))

    def _read_pad(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of Pad with a constant, or None.
        The result is None for other modes or unknown pads.
        """
        if node.attributes.get("mode", "constant") != "constant":
            return None
        pads = node.attributes.get("pads") or self._integer_elements(node, 1)
        if pads is None or len(node.inputs) > 3:
            return None
        padding = Layout(name=f"padding of {tensor}", origin=f"{PADDING}{tensor}")
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
        return self._choose_along(self.layout(node.inputs[0], depth), range(2, len(shape)), shape)

    def _read_branches(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of an output of If: that of the branches whose output has parts.
        The result is None if there is none. Parts that differ between branches have no names, or
        are unknown."""
        at = list(node.outputs).index(tensor)
        layouts = [self.layout(names[at], depth) for names in node.bodies if at < len(names)]
        layouts = [layout for layout in layouts if not layout.is_plain]
        if len(layouts) < 2:
            return next(iter(layouts), None)
        unnamed = [without_names(layout) for layout in layouts]
        if any(layout != unnamed[0] for layout in unnamed):
            return evolve(self._plain_layout(tensor, depth), has_unknown_parts=True)
        return layouts[0] if are_same_tensors(layouts) else unnamed[0]

    def _read_loop(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of an output of Loop, from that of its body."""
        at, carried = list(node.outputs).index(tensor), len(node.inputs) - 2
        names = node.bodies[0] if node.bodies else ()
        if at + 1 >= len(names):
            return None
        new_layout = self.layout(names[at + 1], depth)
        if new_layout.is_plain or at < carried:
            return None if new_layout.is_plain else new_layout
        return Layout("unsqueeze", operands=(new_layout,), numbers=(0,))

    def _read_scan(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of an output of Scan, from that of its body."""
        at = list(node.outputs).index(tensor)
        states = len(node.inputs) - int(node.attributes.get("num_scan_inputs", 0))
        if not node.bodies or at >= len(node.bodies[0]):
            return None
        new_layout = self.layout(node.bodies[0][at], depth)
        if new_layout.is_plain or at < states:
            return None if new_layout.is_plain else new_layout
        axes = node.attributes.get("scan_output_axes") or [0] * len(node.outputs)
        return Layout("unsqueeze", operands=(new_layout,), numbers=(int(axes[at - states]),))

    def _read_sequence(self, tensor: str, node: Maker, depth: int) -> Layout | None:
        """Return the layout of the output of ConcatFromSequence, or None.
        The result is None if the tensors of the sequence are unknown."""
        members, axis = self._sequence_members(node.inputs[0]), node.attributes.get("axis")
        if members is None or axis is None:
            return None
        if not node.attributes.get("new_axis"):
            return self._read_concat(tensor, evolve(node, inputs=members), depth)
        operands = tuple(
            Layout("unsqueeze", operands=(self.layout(name, depth),), numbers=(int(axis),))
            for name in members
        )
        lengths = (1,) * len(operands)
        return Layout("join", operands=operands, numbers=(int(axis),), shape=lengths)

    def _sequence_members(self, name: str) -> Sequence[str] | None:
        """Return the tensors of a sequence, in order; None if they are unknown."""
        added: list[str] = []
        for _ in range(DEEPEST):
            maker = self._graph.maker(name)
            if maker is None or maker.op == "SequenceEmpty":
                return None if maker is None else added
            if maker.op == "SequenceConstruct":
                return [*maker.inputs, *added]
            if maker.op != "SequenceInsert" or len(maker.inputs) != 2:
                return None
            name, added = maker.inputs[0], [maker.inputs[1], *added]
        return None

    def _read_scatter(self, tensor: str, node: Maker, depth: int) -> Layout:
        """Return the layout of the output of ScatterElements or ScatterND,
        which mixes two inputs."""
        fills = self._finite(node.inputs[0]) if self._graph.is_constant(node.inputs[0]) else ()
        return evolve(self._plain_layout(tensor, depth), is_mixed=True, fills=fills)


_MOVES_PIECES = _CUTS | {
    "Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
}  # fmt: skip


CHANNELS = {"Conv": (0, 1), "Gemm": (1, -1), "MatMul": (-1, -1)}
"""By operator, the axis of its weight that has a slice for each channel of the output, and the axis
of the channels."""
_DEFAULT_AXES = {"GatherElements": 0, "ReverseSequence": 0, "TopK": -1}


_MOST_SLICES = 256
"""Most constant indices of Gather whose slices are found one by one."""


def _runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last index of each run of indices without gaps."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] + 1 == index and index:
            runs[-1] = runs[-1][0], index
        else:
            runs.append((index, index))
    return runs


def _is_one(layout: Layout) -> bool:
    """Return whether a layout only moves the elements of a single part."""
    if layout.kind == "leaf":
        return layout.is_plain
    if layout.kind in ("join", "pad", "combine"):
        return False
    return layout.operands[0].is_plain
