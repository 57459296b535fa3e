"""The rules of the ONNX specification about elements of inputs: positions, lengths, sizes and
divisors that an operator has no answer for, which some backends refuse and others do not check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from polygraphy.domain.checks.operator_call import Operand, OperatorCall, Violation, shape_text
from polygraphy.domain.checks.requirements import (
    Rule,
    broadcast_shapes,
    fits,
    require_shape,
    wrong_shape,
    wrong_values,
)

Range = tuple["int | None", "int | None"]
"""The smallest and the largest element; None for no limit."""


def values_rule(
    position: int, limits: Callable[[OperatorCall], Range | None], text: str, ignored: str = ""
) -> Rule:
    """Return a rule for the elements of an input.

    Args:
        position: the input.
        limits: returns the range of the elements of a call; None if it is unknown.
        text: what they are, with their limits as ``{low}`` and ``{high}``.
        ignored: the attribute with a value that is not checked.
    """

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if elements are out of range."""
        operand = call.input(position)
        bounds = limits(call)
        if operand is None or operand.values is None or bounds is None:
            return
        low, high = bounds
        values = np.asarray(operand.values).reshape(-1)
        if ignored and call.attributes.get(ignored) is not None:
            values = values[values != call.attributes[ignored]]
        bad = np.zeros(values.shape, bool)
        bad |= False if low is None else values < low
        bad |= False if high is None else values > high
        if bad.any():
            shown = list(dict.fromkeys(values[bad].tolist()))
            yield wrong_values(call, operand, text.format(low=low, high=high), shown)

    return check


def _at_least(least: int) -> Callable[[OperatorCall], Range]:
    """Return the limits of elements that only have a smallest value."""
    return lambda call: (least, None)


def _dim(call: OperatorCall, position: int, axis: int) -> int | None:
    """Return a dimension of an input; None if it is unknown."""
    shape = call.shape(position)
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None


def _below(position: int, axis: int) -> Callable[[OperatorCall], Range | None]:
    """Return the limits of indices of an axis that counts from 0 only."""

    def limits(call: OperatorCall) -> Range | None:
        size = _dim(call, position, axis)
        return None if size is None else (0, size - 1)

    return limits


def _length_of_time(call: OperatorCall) -> Range | None:
    """Return the limits of the lengths of sequences."""
    axis = call.attributes.get("layout", 0)
    if call.op == "ReverseSequence":
        axis = call.attributes.get("time_axis", 0)
    length = _dim(call, 0, axis)
    return None if length is None else (0, length)


def _members(beyond: int = 0) -> Callable[[OperatorCall], Range | None]:
    """Return the limits of positions in a sequence; an inserted member may be one beyond."""

    def limits(call: OperatorCall) -> Range | None:
        sequence = call.input(0)
        count = None if sequence is None else sequence.length
        return None if count is None else (-count, count - 1 + beyond)

    return limits


def _unpooled(call: OperatorCall) -> Range | None:
    """Return the limits of the indices of a MaxUnpool, which count all elements of its output."""
    shape, sizes = call.shape(0), call.integers(2)
    kernel = call.attributes.get("kernel_shape")
    if sizes is None and shape is not None and kernel is not None and None not in shape:
        spatial = len(shape) - 2
        strides = call.attributes.get("strides") or [1] * spatial
        pads = call.attributes.get("pads") or [0] * 2 * spatial
        if not len(kernel) == len(strides) == spatial == len(pads) // 2:
            return None
        dims = [dim or 0 for dim in shape]
        sizes = dims[:2] + [
            (dims[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + spatial]
            for i in range(spatial)
        ]
    return None if sizes is None else (0, prod(sizes) - 1)


def _written(call: OperatorCall) -> Range | None:
    """Return the limits of the positions that a TensorScatter writes to."""
    axis = call.attributes.get("axis", -2)
    size, length = _dim(call, 0, axis), _dim(call, 1, axis)
    if size is None or length is None or call.attributes.get("mode", "linear") != "linear":
        return None
    return 0, size - length


def _divisor(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if integers are divided by 0."""
    divisor = call.input(1)
    if divisor is None or divisor.values is None:
        return
    values = np.asarray(divisor.values)
    if np.issubdtype(values.dtype, np.integer) and values.size and not values.all():
        yield wrong_values(call, divisor, "a divisor other than 0 for integers", [0])


def _compress(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the condition of a Compress selects elements that do not exist."""
    condition, axis, shape = call.input(1), call.attributes.get("axis"), call.shape(0)
    if condition is None or condition.values is None or shape is None:
        return
    size = _dim(call, 0, axis) if axis is not None else _count(shape)
    selected = np.flatnonzero(condition.values)
    if size is not None and selected.size and selected[-1] >= size:
        yield wrong_shape(call, condition, f"a condition of at most {size} elements")


def _count(shape: tuple[int | None, ...]) -> int | None:
    """Return the number of elements; None if it is unknown."""
    return None if None in shape else prod(dim or 0 for dim in shape)


def _pads(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if negative pads remove more than an axis has."""
    shape, pads, operand = call.shape(0), call.integers(1, "pads"), call.input(1)
    if shape is None or pads is None or operand is None:
        return
    axes = call.integers(3) if call.input(3) is not None else list(range(len(shape)))
    if axes is None or len(pads) != 2 * len(axes):
        return
    for axis, before, after in zip(axes, pads, pads[len(axes) :]):
        size = shape[axis] if -len(shape) <= axis < len(shape) else None
        if size is not None and size + before + after < 0:
            text = f"pads that remove at most the {size} elements of axis {axis}"
            yield wrong_values(call, operand, text, [before, after])
            return


def _scales(position: int) -> Rule:
    """Return a rule that requires positive scales."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if a scale is 0 or negative."""
        scales = call.input(position)
        values = np.asarray([] if scales is None or scales.values is None else scales.values)
        if scales is not None and (values <= 0).any():
            yield wrong_values(call, scales, "scales above 0", values[values <= 0].tolist())

    return check


def _window(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the window of a convolution or pooling exceeds its padded input."""
    data, shape = call.input(0), call.shape(0)
    weights = call.shape(1) if call.op.startswith("Conv") else None
    kernel = weights[2:] if weights is not None else call.attributes.get("kernel_shape")
    auto = call.attributes.get("auto_pad", "NOTSET")
    if data is None or shape is None or kernel is None or auto not in ("NOTSET", "VALID", ""):
        return
    spatial = len(shape) - 2
    pads = [*(call.attributes.get("pads") or [])] if auto != "VALID" else []
    pads, dilations = pads or [0] * 2 * spatial, call.attributes.get("dilations") or [1] * spatial
    strides = call.attributes.get("strides") or [1] * spatial
    if not len(kernel) == len(dilations) == len(strides) == spatial == len(pads) // 2:
        return
    if min(strides, default=1) < 1:
        return  # Another rule reports that.
    for axis in range(spatial):
        size, width = shape[axis + 2], kernel[axis]
        if size is None or width is None or not size:
            continue
        needed, pad = (width - 1) * dilations[axis] + 1, pads[axis] + pads[axis + spatial]
        if (size + pad - needed) // strides[axis] + 1 < 0:  # No window at all is an empty output.
            text = f"at least {needed - pad} elements on axis {axis + 2} for its kernel of {width}"
            yield wrong_shape(call, data, text)
            return


def _crop(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless a CenterCropPad has one size for each axis."""
    axes, shape = call.attributes.get("axes"), call.shape(0)
    count = len(axes) if axes else None if shape is None else len(shape)
    if count is not None:
        yield from require_shape(call, 1, (count,), "the sizes, one for each axis")


def _labels(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless there is one label for each element of a loss."""
    shape = call.shape(0)
    if shape is not None and len(shape) > 1:
        yield from require_shape(call, 1, (shape[0], *shape[2:]), "the labels")


def _square(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless the last two dimensions are equal."""
    data, shape = call.input(0), call.shape(0)
    if data is not None and shape and len(shape) > 1 and not fits(*shape[-2:]):
        yield wrong_shape(call, data, "square matrices")


def _quantized_product(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the quantized matrices of a product do not fit."""
    second: Operand | None = call.input(3 if call.op == "QLinearMatMul" else 1)
    a, b = call.shape(0), None if second is None else second.shape
    if second is None or a is None or b is None or len(a) < 2 or len(b) < 2:
        return
    inner = {dim for dim in (a[-1], b[-2]) if dim is not None}
    if len(inner) > 1 or broadcast_shapes([a[:-2], b[:-2]]) is None:
        yield wrong_shape(call, second, f"a matrix that multiplies {shape_text(a)}")


def _lengths_of(batch_axis: int | str) -> Rule:
    """Return a rule that requires one length for each sequence of a batch."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if the number of lengths is wrong."""
        axis = call.attributes.get(batch_axis, 1) if isinstance(batch_axis, str) else batch_axis
        yield from require_shape(call, 1, (_dim(call, 0, axis),), "the lengths")

    return check


_LENGTHS = values_rule(1, _length_of_time, "lengths in [{low}, {high}]")
_RECURRENT = values_rule(4, _length_of_time, "lengths in [{low}, {high}]")
_CLASSES = values_rule(1, _below(0, 1), "labels in [{low}, {high}]", ignored="ignore_index")
_MEMBER = "a position in [{low}, {high}]"

VALUE_RULES: dict[str, tuple[Rule, ...]] = {
    "ConstantOfShape": (values_rule(0, _at_least(0), "sizes of at least 0"),),
    "OneHot": (values_rule(1, _at_least(0), "a depth of at least 0"),),
    "ReverseSequence": (_lengths_of("batch_axis"), _LENGTHS),
    "LSTM": (_RECURRENT,),
    "GRU": (_RECURRENT,),
    "RNN": (_RECURRENT,),
    "Compress": (_compress,),
    "Pad": (_pads,),
    "Resize": (_scales(2), values_rule(3, _at_least(0), "sizes of at least 0")),
    "Upsample": (_scales(1),),
    "Div": (_divisor,),
    "Mod": (_divisor,),
    "CenterCropPad": (_crop, values_rule(1, _at_least(0), "sizes of at least 0")),
    "SoftmaxCrossEntropyLoss": (_labels, _CLASSES),
    "NegativeLogLikelihoodLoss": (_labels, _CLASSES),
    "ArrayFeatureExtractor": (values_rule(1, _below(0, -1), "indices in [{low}, {high}]"),),
    "SequenceAt": (values_rule(1, _members(), _MEMBER),),
    "SequenceErase": (values_rule(1, _members(), _MEMBER),),
    "SequenceInsert": (values_rule(2, _members(1), _MEMBER),),
    "MaxUnpool": (values_rule(1, _unpooled, "indices in [{low}, {high}]"),),
    "RotaryEmbedding": (values_rule(3, _below(1, 0), "position ids in [{low}, {high}]"),),
    "TensorScatter": (values_rule(2, _written, "positions in [{low}, {high}]"),),
    "Conv": (_window,),
    "MaxPool": (_window,),
    "AveragePool": (_window,),
    "LpPool": (_window,),
    "Det": (_square,),
    "MatMulInteger": (_quantized_product,),
    "QLinearMatMul": (_quantized_product,),
}
"""The rules by operator."""
