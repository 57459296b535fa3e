"""The rules of the ONNX specification about elements of inputs: positions, lengths, sizes and
divisors that an operator has no answer for, which some backends refuse and others do not check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from polygraphy.domain.checks.operator_call import Operand, OperatorCall, Violation
from polygraphy.domain.checks.requirements import (
    Rule,
    attribute_rule,
    dim_of,
    fits,
    require_ranks,
    require_shape,
    scalar_rule,
    shape_rule,
    wrong_attribute,
    wrong_shape,
    wrong_values,
)
from polygraphy.domain.checks.window_rules import unpooled_sizes

Range = tuple["float | None", "float | None"]
"""The smallest and the largest element; None for no limit."""


def values_rule(
    position: int, limits: Callable[[OperatorCall], Range | None], text: str, ignored: str = ""
) -> Rule:
    """Return a rule for the elements of an input.

    Args:
        position: the input.
        limits: returns the range of the elements of a call; None if it is unknown.
        text: the description of the values, with their limits as ``{low}`` and ``{high}``.
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


def _lower_limit(least: int) -> Callable[[OperatorCall], Range]:
    """Return a function that returns the limits of elements that only have a smallest value."""
    return lambda call: (least, None)


def _index_limits(position: int, axis: int) -> Callable[[OperatorCall], Range | None]:
    """Return a function that returns the limits of indices that count from 0 along an axis."""

    def limits(call: OperatorCall) -> Range | None:
        """Return the range of valid indices; None if it is unknown."""
        size = dim_of(call, position, axis)
        return None if size is None else (0, size - 1)

    return limits


def _sequence_length_limits(call: OperatorCall) -> Range | None:
    """Return the limits of the lengths of sequences; None if the time axis has unknown length."""
    axis = call.attributes.get("layout", 0)
    if call.op == "ReverseSequence":
        axis = call.attributes.get("time_axis", 0)
    length = dim_of(call, 0, axis)
    return None if length is None else (0, length)


def _member_limits(beyond: int = 0) -> Callable[[OperatorCall], Range | None]:
    """Return a function that returns the limits of positions in a sequence.
    An inserted member may be one beyond."""

    def limits(call: OperatorCall) -> Range | None:
        """Return the range of valid values; None if it is unknown."""
        sequence = call.input(0)
        count = None if sequence is None else sequence.length
        return None if count is None else (-count, count - 1 + beyond)

    return limits


def _unpool_index_limits(call: OperatorCall) -> Range | None:
    """Return the limits of the indices of a MaxUnpool, which count all elements of its output.
    The result is None if its size is unknown."""
    sizes = call.integers(2) or unpooled_sizes(call)
    return None if sizes is None else (0, prod(sizes) - 1)


def _write_limits(call: OperatorCall) -> Range | None:
    """Return the limits of the positions that a TensorScatter writes to, or None.
    The result is None if they are unknown, or it wraps around."""
    axis = call.attributes.get("axis", -2)
    size, length = dim_of(call, 0, axis), dim_of(call, 1, axis)
    if size is None or length is None or call.attributes.get("mode", "linear") != "linear":
        return None
    return 0, size - length


def _check_divisor(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if integers are divided by 0."""
    divisor = call.input(1)
    if divisor is None or divisor.values is None:
        return
    values = np.asarray(divisor.values)
    if np.issubdtype(values.dtype, np.integer) and values.size and not values.all():
        yield wrong_values(call, divisor, "a divisor other than 0 for integers", [0])


def _check_compress(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the condition of a Compress selects elements that do not exist."""
    condition, axis, shape = call.input(1), call.attributes.get("axis"), call.shape(0)
    if condition is None or condition.values is None or shape is None:
        return
    size = dim_of(call, 0, axis) if axis is not None else _count(shape)
    selected = np.flatnonzero(condition.values)
    if size is not None and selected.size and selected[-1] >= size:
        yield wrong_shape(call, condition, f"a condition of at most {size} elements")


def _count(shape: tuple[int | None, ...]) -> int | None:
    """Return the number of elements; None if it is unknown."""
    return None if None in shape else prod(dim or 0 for dim in shape)


def _check_removed_pads(call: OperatorCall) -> Iterator[Violation]:
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


def _positive_scales_rule(position: int) -> Rule:
    """Return a rule that requires positive scales."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if a scale is 0 or negative."""
        scales = call.input(position)
        values = np.asarray([] if scales is None or scales.values is None else scales.values)
        if scales is not None and (values <= 0).any():
            yield wrong_values(call, scales, "scales above 0", values[values <= 0].tolist())

    return check


def _check_reflection(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if more is padded by reflection than an axis has, or by copies of an
    element of an empty axis.
    """
    shape, pads, operand = call.shape(0), call.integers(1, "pads"), call.input(1)
    mode = call.attributes.get("mode", "constant")
    if shape is None or pads is None or mode not in ("reflect", "edge", "wrap"):
        return
    axes = call.integers(3) if call.input(3) is not None else list(range(len(shape)))
    if axes is None or len(pads) != 2 * len(axes):
        return
    for axis, before, after in zip(axes, pads, pads[len(axes) :]):
        size = shape[axis] if -len(shape) <= axis < len(shape) else None
        if size is None or max(before, after) <= 0:
            continue
        text = ""
        if not size:
            text = f"an element on axis {axis} for mode {mode}"
        elif mode == "reflect" and max(before, after) >= size:
            text = (
                f"pads of at most {size - 1} in mode reflect, because axis {axis} has size {size}"
            )
        if text and operand is not None:
            yield wrong_values(call, operand, text, [before, after])
        elif text:
            yield wrong_attribute(call, "pads", text)
        if text:
            return


def _check_split_sequence(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation of the sizes of a SplitToSequence."""
    sizes, operand = call.integers(1), call.input(1)
    size = dim_of(call, 0, call.attributes.get("axis", 0))
    if sizes is None or operand is None or operand.shape is None:
        return
    if not operand.shape:
        if sizes[0] < 1:
            yield wrong_values(call, operand, "a size of at least 1", sizes)
    elif min(sizes, default=0) < 0:
        yield wrong_values(call, operand, "sizes of at least 0", sizes)
    elif not fits(sum(sizes), size):
        yield wrong_values(call, operand, f"sizes that add up to {size}", sizes)


def _is_single(value: Any) -> bool:
    """Return whether a tensor of an attribute has one element."""
    return not isinstance(value, Operand) or prod(dim or 0 for dim in value.shape or ()) == 1


def _ratio_limits(call: OperatorCall) -> Range:
    """Return the limits of the ratio of a Dropout, which is below 1."""
    return 0, float(np.nextafter(np.float32(1), np.float32(0)))


def _check_float_remainder(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a Mod of floating-point numbers has `fmod` 0, before opset 28."""
    data = call.input(0)
    if data is None or not data.dtype.startswith(("float", "bfloat")):
        return
    if call.opset < _FLOAT_REMAINDER and not call.attributes.get("fmod"):
        yield wrong_attribute(call, "fmod", "fmod 1 for floating-point numbers")


_FLOAT_REMAINDER = 28


def _check_sequence_axes(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless ReverseSequence has the batch and the time as its first axes."""
    batch, time = call.attributes.get("batch_axis", 1), call.attributes.get("time_axis", 0)
    if {batch, time} != {0, 1}:
        text = f"batch_axis and time_axis to be 0 and 1 in either order (time_axis is {time})"
        yield wrong_attribute(call, "batch_axis", text)


def _check_batch_dims(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless the indices of a GatherND have the batch dimensions of the data."""
    shape, indices, count = call.shape(0), call.input(1), call.attributes.get("batch_dims", 0)
    if count < 0:
        yield wrong_attribute(call, "batch_dims", "batch_dims of at least 0")
        return
    if shape is None or indices is None or indices.shape is None or count < 1:
        return
    if count >= min(len(shape), len(indices.shape)):
        most = min(len(shape), len(indices.shape)) - 1
        yield wrong_attribute(call, "batch_dims", f"batch_dims of at most {most}")
    elif not all(map(fits, indices.shape[:count], shape[:count])):
        yield wrong_shape(call, indices, f"indices that begin with {[*shape[:count]]}")


def _class_weights(call: OperatorCall) -> tuple[int | None, ...] | None:
    """Return the shape of the weights of the classes of a loss, or None.
    The result is None if the rank of the scores is unknown."""
    return None if call.shape(0) is None else (dim_of(call, 0, 1),)


def _per_axis_rule(position: int, per_axis: int = 1) -> Rule:
    """Return a rule for a vector with some elements for each axis."""

    def shape(call: OperatorCall) -> tuple[int | None, ...] | None:
        """Return the shape of the vector."""
        data = call.shape(0)
        return None if data is None else (per_axis * len(data),)

    return shape_rule(position, "a vector over the axes", shape)


def _check_crop_region(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless the region of a Resize has two numbers for each axis."""
    shape, region = call.shape(0), call.input(1)
    mode = call.attributes.get("coordinate_transformation_mode")
    if shape is None or region is None or mode != "tf_crop_and_resize":
        return
    count = 2 * len(call.attributes.get("axes") or shape)
    yield from require_shape(call, 1, (count,), "the region")


def _check_inferred_size(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a Reshape with `allowzero` has both 0 and -1."""
    sizes, operand = call.integers(1), call.input(1)
    if operand is None or sizes is None or not call.attributes.get("allowzero"):
        return
    if {0, -1} <= {*sizes}:
        yield wrong_values(call, operand, "0 or -1, but not both (allowzero is 1)", sizes)


def _check_crop(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless a CenterCropPad has one size for each axis."""
    axes, shape = call.attributes.get("axes"), call.shape(0)
    count = len(axes) if axes else None if shape is None else len(shape)
    if count is not None:
        yield from require_shape(call, 1, (count,), "the sizes, one for each axis")


def _check_label_count(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless there is one label for each element of a loss."""
    shape = call.shape(0)
    if shape is not None and len(shape) > 1:
        yield from require_shape(call, 1, (shape[0], *shape[2:]), "the labels")


def _check_square(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless the last two dimensions are equal."""
    data, shape = call.input(0), call.shape(0)
    if data is not None and shape and len(shape) > 1 and not fits(*shape[-2:]):
        yield wrong_shape(call, data, "square matrices")


def _sequence_lengths_rule(batch_axis: int | str) -> Rule:
    """Return a rule that requires one length for each sequence of a batch."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if the number of lengths is wrong."""
        axis = call.attributes.get(batch_axis, 1) if isinstance(batch_axis, str) else batch_axis
        yield from require_shape(call, 1, (dim_of(call, 0, axis),), "the lengths")

    return check


_LENGTHS = values_rule(1, _sequence_length_limits, "lengths in [{low}, {high}]")
_RECURRENT = values_rule(4, _sequence_length_limits, "lengths in [{low}, {high}]")
_CLASSES = values_rule(1, _index_limits(0, 1), "labels in [{low}, {high}]", ignored="ignore_index")
_LOSS = (_check_label_count, _CLASSES, shape_rule(2, "the weights", _class_weights))
_CLIP = attribute_rule("clip", lambda value: value >= 0, "a clip of at least 0")
_THRESHOLD = values_rule(3, lambda call: (0, 1), "a threshold in [{low}, {high}]")
_MEMBER = "a position in [{low}, {high}]"

_TOP_INPUT = 10
"""The opset from which on K is an input."""

VALUE_RULES: dict[str, tuple[Rule, ...]] = {
    "ConstantOfShape": (
        values_rule(0, _lower_limit(0), "sizes of at least 0"),
        attribute_rule("value", _is_single, "a value with one element"),
    ),
    "OneHot": (
        values_rule(1, _lower_limit(1), "a depth of at least 1"),
        require_ranks(x1=(0, 1)),
    ),
    "ReverseSequence": (_check_sequence_axes, _sequence_lengths_rule("batch_axis"), _LENGTHS),
    "LSTM": (_RECURRENT, _CLIP),
    "GRU": (_RECURRENT, _CLIP),
    "RNN": (_RECURRENT, _CLIP),
    "Compress": (_check_compress,),
    "Pad": (_check_removed_pads, _check_reflection, scalar_rule(2)),
    "Resize": (
        _positive_scales_rule(2),
        values_rule(3, _lower_limit(0), "sizes of at least 0"),
        _check_crop_region,
    ),
    "Upsample": (values_rule(1, _lower_limit(1), "scales of at least 1"), _per_axis_rule(1)),
    "Div": (_check_divisor,),
    "Mod": (_check_divisor, _check_float_remainder),
    "CenterCropPad": (_check_crop, values_rule(1, _lower_limit(0), "sizes of at least 0")),
    "SoftmaxCrossEntropyLoss": _LOSS,
    "NegativeLogLikelihoodLoss": _LOSS,
    "ArrayFeatureExtractor": (values_rule(1, _index_limits(0, -1), "indices in [{low}, {high}]"),),
    "SequenceAt": (values_rule(1, _member_limits(), _MEMBER),),
    "SequenceErase": (values_rule(1, _member_limits(), _MEMBER),),
    "SequenceInsert": (values_rule(2, _member_limits(1), _MEMBER),),
    "MaxUnpool": (values_rule(1, _unpool_index_limits, "indices in [{low}, {high}]"),),
    "RotaryEmbedding": (values_rule(3, _index_limits(1, 0), "position ids in [{low}, {high}]"),),
    "TensorScatter": (values_rule(2, _write_limits, "positions in [{low}, {high}]"),),
    "Det": (_check_square,),
    "GatherND": (_check_batch_dims,),
    "SplitToSequence": (_check_split_sequence,),
    "NonMaxSuppression": (scalar_rule(2, 3, 4), _THRESHOLD),
    "Multinomial": (
        attribute_rule("sample_size", lambda value: value > 0, "a positive sample_size"),
    ),
    "Bernoulli": (values_rule(0, lambda call: (0, 1), "probabilities in [{low}, {high}]"),),
    "Dropout": (scalar_rule(1), values_rule(1, _ratio_limits, "a ratio in [0, 1)")),
    "Reshape": (_check_inferred_size,),
    "Slice": (require_ranks(x1=1, x2=1, x3=1, x4=1),),
    "TopK": (shape_rule(1, "K", lambda call: (1,) if call.opset >= _TOP_INPUT else None),),
    "Trilu": (scalar_rule(1),),
    "CumSum": (scalar_rule(1),),
}
"""The rules by operator."""
