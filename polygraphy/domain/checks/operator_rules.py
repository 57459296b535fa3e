"""The rules of the ONNX specification about ranks, broadcasting, attributes and indices: what a
checker that only sees types does not ask, and some backends accept.

A rule only applies to what is known: an unknown rank, dimension or element breaks none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from polygraphy.domain.checks.layer_rules import (
    BROADCASTS,
    check_convolution,
    check_gemm,
    check_group_normalization,
    check_matmul,
    check_normalization,
    check_pooling,
    check_slope,
    per_channel_rule,
)
from polygraphy.domain.checks.learning_rules import LEARNING_RULES
from polygraphy.domain.checks.operator_call import (
    SHAPE,
    Operand,
    OperatorCall,
    Violation,
    shape_text,
)
from polygraphy.domain.checks.quantized_rules import QUANTIZED_RULES
from polygraphy.domain.checks.requirements import (
    ANY_RANK,
    Rule,
    broadcast_shapes,
    fits,
    require_ranks,
    require_shape,
    scalar_rule,
    wrong_attribute,
    wrong_rank,
    wrong_shape,
    wrong_values,
)
from polygraphy.domain.checks.signal_rules import SIGNAL_RULES
from polygraphy.domain.checks.subgraph_rules import SUBGRAPH_RULES
from polygraphy.domain.checks.value_rules import VALUE_RULES
from polygraphy.domain.checks.window_rules import WINDOW_RULES
from polygraphy.domain.checks.words_of_attributes import check_words


def violations(call: OperatorCall) -> list[Violation]:
    """Return the rules that a node breaks."""
    rules = [rule for table in _TABLES for rule in table.get(call.op, ())]
    return [violation for rule in (*rules, check_words) for violation in rule(call)]


def _check_broadcast(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the shapes of the inputs do not broadcast."""
    if call.opset < BROADCASTS + (call.op in ("Max", "Min", "Sum", "Mean")):
        return
    operands = [
        input_name
        for input_name in call.inputs
        if input_name is not None and input_name.shape is not None
    ]
    for count in range(2, len(operands) + 1):
        shapes = [operand.shape for operand in operands[:count] if operand.shape is not None]
        if broadcast_shapes(shapes) is None:
            other_name = " and ".join(map(shape_text, shapes[:-1]))
            yield wrong_shape(
                call, operands[count - 1], f"a shape that broadcasts with {other_name}"
            )
            return


def _axis_rule(name: str = "axis", *, beyond: int = 0, position: int = 0) -> Rule:
    """Return a rule that requires an attribute to be an axis of an input, or up to `beyond`
    more."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if the axis is outside the rank of the input."""
        data, axis = call.shape(position), call.attributes.get(name)
        if data is None or axis is None or (not data and beyond == 0 and axis in (0, -1)):
            return
        rank = len(data)
        if not -rank - beyond <= axis < rank + beyond:
            low, high = -rank - beyond, rank + beyond - 1
            yield wrong_attribute(call, name, f"an axis in [{low}, {high}]")

    return check


def _axes_rule(position: int, *, adds_axes: bool = False) -> Rule:
    """Return a rule that requires axes, in an input or attribute, to exist, without duplicates."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if an axis is outside the rank or named twice."""
        data, axes = call.shape(0), call.integers(position, "axes")
        if data is None or axes is None:
            return
        rank = len(data) + (len(axes) if adds_axes else 0)
        bad = [axis for axis in axes if not -rank <= axis < rank]
        if bad:
            yield _bad_axes(call, position, f"axes in [{-rank}, {rank - 1}]", bad)
        elif len({axis % rank for axis in axes}) < len(axes) and rank:
            yield _bad_axes(call, position, "each axis once", axes)

    return check


def _bad_axes(call: OperatorCall, position: int, requirement: str, bad: Sequence[int]) -> Violation:
    """Return the violation of invalid axes, in an attribute or an input."""
    operand = call.input(position)
    if operand is None:
        return wrong_attribute(call, "axes", requirement)
    return wrong_values(call, operand, requirement, bad)


def _check_squeeze(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a squeezed axis does not have size 1."""
    data, axes = call.input(0), call.integers(1, "axes")
    if data is None or data.shape is None or axes is None:
        return
    rank = len(data.shape)
    axises = [axis for axis in axes if -rank <= axis < rank]
    bad = [axis for axis in axises if not fits(data.shape[axis], 1)]
    if bad:
        yield wrong_shape(call, data, f"size 1 on axis {', '.join(map(str, bad))}")


def _check_transpose(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the permutation does not name each axis once."""
    data, perm = call.shape(0), call.attributes.get("perm")
    if perm is None:
        return
    rank = len(perm) if data is None else len(data)
    if sorted(perm) != [*range(rank)]:
        yield wrong_attribute(call, "perm", f"each of the axes 0 to {rank - 1} once in perm")


def _check_reshape(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the new shape does not have as many elements."""
    data, sizes = call.shape(0), call.integers(1, "shape")
    if sizes is None:
        return
    operand = call.input(1)
    if sizes.count(-1) > 1 or min(sizes, default=0) < -1:
        bad = [size for size in sizes if size < 0]
        if operand is not None:
            yield wrong_values(call, operand, "at most one -1, and no other negative size", bad)
        return
    if data is None or None in data or operand is None:
        return
    keeps = not call.attributes.get("allowzero")
    if keeps and any(size == 0 and axis >= len(data) for axis, size in enumerate(sizes)):
        yield wrong_values(call, operand, f"0 only for the axes of {shape_text(data)}", sizes)
        return
    wanted = [data[i] if keeps and size == 0 else size for i, size in enumerate(sizes)]
    total, known_product = prod(dim or 0 for dim in data), prod(
        size or 0 for size in wanted if size != -1
    )
    fits = (
        (known_product and total % known_product == 0) or (not known_product and not total)
        if -1 in wanted
        else None
    )
    if not (total == known_product if fits is None else fits):
        count = f"a shape of {total} elements, like its input {shape_text(data)}"
        yield wrong_values(call, operand, count, sizes)


def _check_expand(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the input cannot be broadcast to the new shape."""
    data, sizes, operand = call.shape(0), call.integers(1), call.input(1)
    if data is None or sizes is None or operand is None:
        return
    if min(sizes, default=0) < 0:
        yield wrong_values(call, operand, "sizes of at least 0", sizes)
    elif broadcast_shapes([data, sizes]) is None:
        yield wrong_values(call, operand, f"a shape that {shape_text(data)} broadcasts to", sizes)


def _one_per_axis_rule(
    position: int, name: str, *, factor: int = 1, axes: int | None = None
) -> Rule:
    """Return a rule: an input has `factor` elements for each axis of the first input, or of those
    that `axes` lists.
    """

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if an input does not have one element per axis."""
        data, operand = call.shape(0), call.input(position)
        if data is None or operand is None or operand.shape is None or len(operand.shape) != 1:
            return
        count: int | None = len(data)
        chosen = call.input(axes) if axes is not None else None
        if chosen is not None:
            count = chosen.shape[0] if chosen.shape else None
        elif call.attributes.get("axes") is not None:
            count = len(call.attributes["axes"])
        size = operand.shape[0]
        is_unused = size == 0 and call.op == "Resize"
        if count is not None and size is not None and size != factor * count and not is_unused:
            yield wrong_shape(call, operand, f"{factor * count} {name}")

    return check


def _check_tile(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation for negative repeats."""
    operand, repeats = call.input(1), call.integers(1)
    if operand is not None and repeats and min(repeats) < 0:
        yield wrong_values(call, operand, "repeats of at least 0", repeats)


def _check_slice(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations by starts, ends, axes and steps that are invalid or of different lengths."""
    names = ("", "starts", "ends", "axes", "steps")
    lists = [call.integers(i, names[i]) for i in range(1, 5)]
    starts = lists[0]
    for position, values in enumerate(lists[1:], 2):
        if starts is not None and values is not None and len(values) != len(starts):
            operand = call.input(position)
            text = f"as many {names[position]} as starts ({len(starts)})"
            if operand is None:
                yield wrong_attribute(call, names[position], text)
            else:
                yield wrong_values(call, operand, text, values)
    steps = call.input(4)
    if steps is not None and 0 in (lists[3] or ()):
        yield wrong_values(call, steps, "steps other than 0", lists[3] or ())


def _indices_rule(default: int = 0) -> Rule:
    """Return a rule that requires indices to exist along an axis of the data."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation for indices outside the axis."""
        data, operand = call.shape(0), call.input(1)
        axis = call.attributes.get("axis", default)
        if data is None or operand is None or operand.values is None:
            return
        if not -len(data) <= axis < len(data):
            return
        size = data[axis]
        if size is not None:
            yield from _bad_indices(call, operand, np.asarray(operand.values), size, axis)

    return check


def _bad_indices(
    call: OperatorCall, operand: Operand, values: Any, size: int, axis: int
) -> Iterator[Violation]:
    """Yield a violation if indices are outside an axis."""
    if not np.issubdtype(values.dtype, np.integer):
        return
    # Before opset 11, negative indices count from the end only in some operators.
    bad = values[(values < -size) | (values >= size)].reshape(-1)
    if bad.size:
        text = f"indices in [{-size}, {size - 1}] for axis {axis} of size {size}"
        yield wrong_values(call, operand, text, list(dict.fromkeys(bad.tolist())))


def _check_element_indices(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations unless indices have the rank of the data, and the updates of a scatter their
    shape.
    """
    data, indices, axis = call.shape(0), call.input(1), call.attributes.get("axis", 0)
    if data is None or indices is None or indices.shape is None:
        return
    if len(indices.shape) != len(data):
        yield wrong_rank(call, indices, f"indices of rank {len(data)}, like its input")
        return
    if not -len(data) <= axis < len(data):
        return
    for position, (dim, size) in enumerate(zip(indices.shape, data)):
        if position != axis % len(data) and dim is not None and size is not None and dim > size:
            yield wrong_shape(call, indices, f"at most {size} indices on axis {position}")
    if call.op != "GatherElements":
        yield from require_shape(call, 2, indices.shape, "the updates")


def _check_index_tuples(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations unless the index tuples exist in the data (GatherND, ScatterND)."""
    data, indices = call.shape(0), call.input(1)
    batch = call.attributes.get("batch_dims", 0) if call.op == "GatherND" else 0
    if data is None or indices is None or not indices.shape or indices.shape[-1] is None:
        return
    if batch < 0:
        return  # Another rule reports this.
    length = indices.shape[-1]
    if not 1 <= length <= len(data) - batch:
        yield wrong_shape(call, indices, f"1 to {len(data) - batch} indices on the last axis")
        return
    if call.op == "ScatterND":
        expected = (*indices.shape[:-1], *data[length:])
        yield from require_shape(call, 2, expected, "the updates")
    if indices.values is None:
        return
    values = np.asarray(indices.values)
    for position in range(length):
        size = data[batch + position]
        if size is not None:
            violations = [
                *_bad_indices(call, indices, values[..., position], size, batch + position)
            ]
            if violations:
                yield violations[0]
                return


def _check_split(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the sizes of a Split."""
    data, axis = call.shape(0), call.attributes.get("axis", 0)
    sizes, operand = call.integers(1, "split"), call.input(1)
    if sizes is not None:
        requirement = ""
        if len(sizes) != call.outputs:
            requirement = f"{call.outputs} sizes, one per output"
        elif min(sizes, default=0) < 0:
            requirement = "sizes of at least 0"
        elif data is not None and -len(data) <= axis < len(data):
            size = data[axis]
            if not fits(sum(sizes), size):
                requirement = f"sizes that add up to {size}, the size of axis {axis}"
        if requirement and operand is not None:
            yield wrong_values(call, operand, requirement, sizes)
        elif requirement:
            yield wrong_attribute(call, "split", requirement)
    elif operand is None and data is not None and -len(data) <= axis < len(data):
        size, parts = data[axis], call.attributes.get("num_outputs")
        if parts is not None and parts != call.outputs:
            yield wrong_attribute(call, "num_outputs", f"num_outputs {call.outputs}")
        elif parts is None and size is not None and call.outputs and size % call.outputs:
            source = call.input(0)
            assert source is not None
            text = f"a size on axis {axis} that {call.outputs} outputs divide"
            yield wrong_shape(call, source, text)


def _check_concat(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the shapes of the inputs differ on an axis that is not joined."""
    axis = call.attributes.get("axis", 0)
    inputs = [
        input_name
        for input_name in call.inputs
        if input_name is not None and input_name.shape is not None
    ]
    for operand in inputs[1:]:
        first, shape = inputs[0].shape or (), operand.shape or ()
        if len(shape) != len(first):
            yield wrong_rank(call, operand, f"inputs of equal rank, as in {shape_text(first)}")
            return
        differing = [
            i
            for i, pair in enumerate(zip(shape, first))
            if i != axis % max(len(first), 1) and not fits(*pair)
        ]
        if differing:
            text = f"equal sizes except on axis {axis}, as in {shape_text(first)}"
            yield wrong_shape(call, operand, text)
            return


def _check_top_k(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if K of a TopK exceeds the axis."""
    data, count, operand = call.shape(0), call.integers(1), call.input(1)
    axis = call.attributes.get("axis", -1)
    if data is None or not count or operand is None or not -len(data) <= axis < len(data):
        return
    size = data[axis]
    if size is not None and not 0 <= count[0] <= size:
        yield wrong_values(call, operand, f"K in [0, {size}], the size of axis {axis}", count)


def _check_space_blocks(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if DepthToSpace or SpaceToDepth has a block size that does not fit;
    it must divide the dimensions.
    """
    data, size = call.input(0), call.attributes.get("blocksize", 0)
    if data is None or data.shape is None or len(data.shape) != 4:
        return
    if size < 1:
        yield wrong_attribute(call, "blocksize", "a positive blocksize")
        return
    is_depth = call.op == "DepthToSpace"
    dims = data.shape[1:2] if is_depth else data.shape[2:]
    factor = size * size if is_depth else size
    if any(dim is not None and dim % factor for dim in dims):
        block_kind = "channels" if is_depth else "height and width"
        yield wrong_shape(call, data, f"{block_kind} that {factor} divides (blocksize {size})")


def _check_resize(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if scales or sizes are missing, both given, or of the wrong length."""
    if call.opset < _RESIZE:
        return
    scales, sizes = call.input(2), call.input(3)
    if scales is None and sizes is None:
        yield Violation(call.op, "scales or sizes", "it has neither", SHAPE)
    elif scales is not None and sizes is not None:
        # In opset 11, an empty tensor means no scales; later opsets omit the input.
        is_empty = scales.shape == (0,)
        if is_empty and (call.opset < _RESIZE_WITHOUT or scales.values is not None):
            return
        if scales.shape is None and call.opset < _RESIZE_WITHOUT:
            return
        how = "an empty tensor" if is_empty else "also given"
        actual = f"{sizes.name!r} is given and {scales.name!r} is {how}"
        requirement = "either scales or sizes, with '' as the name of the other"
        yield Violation(call.op, requirement, actual, SHAPE, scales.name)


_RESIZE, _RESIZE_WITHOUT = 11, 13


def _recurrent_rule(gates: int) -> Rule:
    """Return a rule for the shapes of weights, bias and states of a recurrent operator
    with that many gates."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield violations by the shapes of weights and states."""
        data, weights, recurrence = call.shape(0), call.shape(1), call.shape(2)
        directions = 2 if call.attributes.get("direction") == "bidirectional" else 1
        hidden = call.attributes.get("hidden_size")
        if hidden is None and recurrence is not None and len(recurrence) == 3:
            hidden = recurrence[2]
        batch_first = bool(call.attributes.get("layout", 0))
        length, batch, width = (None, None, None)
        if data is not None and len(data) == 3:
            length, batch, width = (data[1], data[0], data[2]) if batch_first else data
        del length
        rows = None if hidden is None else gates * hidden
        if weights is not None:
            yield from require_shape(call, 1, (directions, rows, width), "the weights")
        yield from require_shape(call, 2, (directions, rows, hidden), "the recurrence weights")
        double = None if rows is None else 2 * rows
        yield from require_shape(call, 3, (directions, double), "the bias")
        yield from require_shape(call, 4, (batch,), "sequence_lens")
        state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
        for position in (5, 6) if gates == _LSTM else (5,):
            yield from require_shape(call, position, state, "the initial state")
        if gates == _LSTM:
            peepholes = None if hidden is None else 3 * hidden
            yield from require_shape(call, 7, (directions, peepholes), "the peepholes")

    return check


_LSTM = 4


def _check_einsum(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the equation of an Einsum."""
    equation = str(call.attributes.get("equation", "")).replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if len(terms) != len(call.inputs):
        yield wrong_attribute(call, "equation", f"one term per input ({len(call.inputs)})")
        return
    letters = equation.partition("->")[2].replace(".", "")
    if not equation.replace("->", "", 1).replace(",", "").replace(".", "").isalpha():
        if equation.replace(".", "") not in ("", "->"):
            yield wrong_attribute(call, "equation", "letters, ',', '...' and one '->'")
        return
    if "," in letters:
        yield wrong_attribute(call, "equation", "one output, without ','")
        return
    if len({*letters}) < len(letters):
        yield wrong_attribute(call, "equation", "each letter of the output once")
        return
    sizes: dict[str, tuple[int, str]] = {}
    for term, operand in zip(terms, call.inputs):
        if operand is None or operand.shape is None:
            continue
        letters, shape = term.replace("...", "."), operand.shape
        if "." in letters:
            before, _, after = letters.partition(".")
            if len(before) + len(after) > len(shape):
                yield wrong_rank(call, operand, f"at least rank {len(before + after)} for {term!r}")
                return
            tail = shape[len(shape) - len(after) :] if after else ()
            pairs = [*zip(before, shape), *zip(after, tail)]
        elif len(letters) != len(shape):
            yield wrong_rank(call, operand, f"rank {len(letters)} for {term!r}")
            return
        else:
            pairs = [*zip(letters, shape)]
        for letter, dim in pairs:
            if dim is None or dim == 1:
                continue
            size = sizes.setdefault(letter, (dim, operand.name))
            if size[0] != dim:
                text = f"one size for {letter!r} ({size[0]} in {size[1]!r})"
                yield wrong_shape(call, operand, text)
                return


def _check_one_hot(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless a OneHot has two values."""
    yield from require_shape(call, 2, (2,), "the values")


def _check_grid_sample(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the grid of a GridSample."""
    data, grid = call.shape(0), call.input(1)
    if data is None or grid is None or grid.shape is None:
        return
    if len(grid.shape) != len(data):
        yield wrong_rank(call, grid, f"a grid of rank {len(data)}, like its input")
    elif not fits(grid.shape[-1], len(data) - 2) or not fits(grid.shape[0], data[0]):
        expected = (data[0], *[None] * (len(data) - 2), len(data) - 2)
        yield wrong_shape(call, grid, f"a grid of shape {shape_text(expected)}")


def _check_roi_align(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the regions of a RoiAlign."""
    yield from require_shape(call, 1, (None, 4), "the regions")
    data, batches = call.shape(0), call.input(2)
    if data and data[0] is not None and batches is not None and batches.values is not None:
        values = np.asarray(batches.values)
        bad = values[(values < 0) | (values >= data[0])].reshape(-1)
        if bad.size:
            text = f"batch indices in [0, {data[0] - 1}]"
            yield wrong_values(call, batches, text, bad.tolist())


def _check_boxes(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the boxes and scores of a NonMaxSuppression."""
    boxes, scores = call.shape(0), call.shape(1)
    count = scores[2] if scores is not None and len(scores) == 3 else None
    batch = scores[0] if scores is not None and len(scores) == 3 else None
    yield from require_shape(call, 0, (batch, count, 4), "the boxes")
    yield from require_shape(call, 1, (boxes[0] if boxes else None, None, None), "the scores")


def _check_range(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the delta of a Range is 0."""
    delta = call.input(2)
    if delta is not None and delta.values is not None and not np.all(delta.values):
        yield wrong_values(call, delta, "a delta other than 0", [0])


def _check_cum_sum(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the axis of a CumSum is invalid."""
    data, axis, operand = call.shape(0), call.integers(1), call.input(1)
    if data is None or not axis or operand is None or not data:
        return
    if not -len(data) <= axis[0] < len(data):
        yield wrong_values(call, operand, f"an axis in [{-len(data)}, {len(data) - 1}]", axis)


_BINARY = (
    "Add Sub Mul Div Pow And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual Mod BitShift"
    " BitwiseAnd BitwiseOr BitwiseXor Where Max Min Sum Mean"
)
_ALONG = (
    "Softmax LogSoftmax Hardmax ArgMax ArgMin TopK Gather GatherElements ScatterElements Scatter"
    " Split LayerNormalization RMSNormalization Concat LpNormalization"
)
_REDUCED = (
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum"
    " ReduceLogSumExp ReduceSumSquare"
)

_NO_INPUT = 99
"""The position of an input that no operator has: axes are an attribute."""

_RULES: dict[str, tuple[Rule, ...]] = {
    "PRelu": (check_slope,),
    "BatchNormalization": (
        per_channel_rule((1, 2, 3, 4), ("the scale", "the bias", "the mean", "the variance")),
    ),
    "InstanceNormalization": (per_channel_rule((1, 2), ("the scale", "the bias")),),
    "GroupNormalization": (check_group_normalization,),
    "LayerNormalization": (check_normalization,),
    "RMSNormalization": (check_normalization,),
    "Conv": (check_convolution, require_ranks(x0=(3, ANY_RANK))),
    "ConvInteger": (check_convolution, require_ranks(x0=(3, ANY_RANK))),
    "ConvTranspose": (check_convolution, require_ranks(x0=(3, ANY_RANK))),
    "DeformConv": (check_convolution, require_ranks(x0=(3, ANY_RANK))),
    "MaxPool": (check_pooling, require_ranks(x0=(3, ANY_RANK))),
    "AveragePool": (check_pooling, require_ranks(x0=(3, ANY_RANK))),
    "LpPool": (check_pooling, require_ranks(x0=(3, ANY_RANK))),
    "MaxUnpool": (check_pooling, require_ranks(x0=(3, ANY_RANK))),
    "Gemm": (require_ranks(x0=2, x1=2), check_gemm),
    "MatMul": (require_ranks(x0=(1, ANY_RANK), x1=(1, ANY_RANK)), check_matmul),
    "Gather": (_indices_rule(),),
    "GatherElements": (_check_element_indices, _indices_rule()),
    "ScatterElements": (_check_element_indices, _indices_rule()),
    "Scatter": (_check_element_indices, _indices_rule()),
    "GatherND": (_check_index_tuples,),
    "ScatterND": (_check_index_tuples,),
    "Transpose": (_check_transpose,),
    "Flatten": (_axis_rule(beyond=1),),
    "Reshape": (_check_reshape,),
    "Expand": (_check_expand,),
    "Tile": (_one_per_axis_rule(1, "repeats, one per axis"), _check_tile),
    "Pad": (_one_per_axis_rule(1, "pads, two per axis", factor=2, axes=3), _axes_rule(3)),
    "Slice": (_check_slice, _axes_rule(3)),
    "Squeeze": (_axes_rule(1), _check_squeeze),
    "Unsqueeze": (_axes_rule(1, adds_axes=True),),
    "Split": (_check_split,),
    "Concat": (_check_concat,),
    "TopK": (_check_top_k,),
    "Clip": (scalar_rule(1, 2),),
    "DepthToSpace": (require_ranks(x0=4), _check_space_blocks),
    "SpaceToDepth": (require_ranks(x0=4), _check_space_blocks),
    "Resize": (
        _check_resize,
        _one_per_axis_rule(2, "scales, one per axis"),
        _one_per_axis_rule(3, "sizes, one per axis"),
    ),
    "LSTM": (require_ranks(x0=3, x1=3, x2=3), _recurrent_rule(_LSTM)),
    "GRU": (require_ranks(x0=3, x1=3, x2=3), _recurrent_rule(3)),
    "RNN": (require_ranks(x0=3, x1=3, x2=3), _recurrent_rule(1)),
    "Einsum": (_check_einsum,),
    "OneHot": (scalar_rule(1), _check_one_hot),
    "GridSample": (_check_grid_sample,),
    "RoiAlign": (require_ranks(x0=4), _check_roi_align),
    "NonMaxSuppression": (require_ranks(x0=3, x1=3), _check_boxes),
    "Range": (scalar_rule(0, 1, 2), _check_range),
    "CumSum": (_check_cum_sum,),
    "CumProd": (_check_cum_sum,),
    "CenterCropPad": (_axes_rule(_NO_INPUT),),
    "MeanVarianceNormalization": (_axes_rule(_NO_INPUT),),
    "Trilu": (require_ranks(x0=(2, ANY_RANK)),),
    "STFT": (require_ranks(x0=(2, 3)),),
    "ConstantOfShape": (require_ranks(x0=1),),
    "EyeLike": (require_ranks(x0=2),),
    "Compress": (require_ranks(x1=1),),
    "If": (scalar_rule(0),),
    "Loop": (scalar_rule(0, 1),),
    "SequenceAt": (scalar_rule(1),),
}


def _extend(ops: str, rule: Rule) -> None:
    """Add a rule to operators."""
    for op in ops.split():
        _RULES[op] = (*_RULES.get(op, ()), rule)


_extend(_BINARY, _check_broadcast)
_extend(_ALONG, _axis_rule())
_extend(_REDUCED, _axes_rule(1))
_extend(_REDUCED, require_ranks(x1=(0, 1)))
_extend("Split Squeeze Unsqueeze", require_ranks(x1=(0, 1)))
_extend("Expand Reshape", require_ranks(x1=1))

_TABLES = (
    _RULES,
    VALUE_RULES,
    WINDOW_RULES,
    QUANTIZED_RULES,
    SIGNAL_RULES,
    LEARNING_RULES,
    SUBGRAPH_RULES,
)
"""The rules by operator, of each subject."""
