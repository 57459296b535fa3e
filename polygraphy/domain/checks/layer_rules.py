"""The rules of the ONNX specification about normalization, convolution, pooling and products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from polygraphy.domain.checks.operator_call import (
    OperatorCall,
    Violation,
    shape_text,
)
from polygraphy.domain.checks.requirements import (
    Rule,
    broadcast_shapes,
    broadcasts_to,
    fits,
    is_shape,
    require_shape,
    wrong_attribute,
    wrong_rank,
    wrong_shape,
)


def check_slope(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the slope of PRelu does not broadcast to the data."""
    data, slope = call.shape(0), call.input(1)
    if data is None or slope is None or slope.shape is None or broadcasts_to(slope.shape, data):
        return
    if call.opset < BROADCASTS and slope.shape in ((1,), data[1:2]):
        return
    requirement = f"a slope that broadcasts to the input {shape_text(data)}"
    if len(data) > 1 and prod(dim or 0 for dim in slope.shape) == data[1]:
        per_channel = (data[1], *[1] * (len(data) - 2))
        requirement += f", such as {shape_text(per_channel)} for one slope per channel"
    yield wrong_shape(call, slope, requirement)


def _channels(call: OperatorCall) -> int | None:
    """Return the number of channels of the first input; None if it is unknown."""
    shape = call.shape(0)
    return shape[1] if shape is not None and len(shape) > 1 else None


def per_channel_rule(positions: Sequence[int], names: Sequence[str]) -> Rule:
    """Return a rule that requires one element per channel of the first input."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield violations by inputs that do not have one element per channel."""
        for position, name in zip(positions, names):
            yield from require_shape(call, position, (_channels(call),), name)

    return check


def check_group_normalization(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations in the groups, scale or bias of GroupNormalization."""
    channels, groups = _channels(call), call.attributes.get("num_groups")
    if groups is None:
        return
    if channels is not None and (groups < 1 or channels % groups):
        yield wrong_attribute(call, "num_groups", f"num_groups that divides {channels} channels")
    size = channels if call.opset >= _GROUPS_PER_CHANNEL else groups
    for position, name in ((1, "the scale"), (2, "the bias")):
        yield from require_shape(call, position, (size,), name)


_GROUPS_PER_CHANNEL = 21
"""The opset from which on GroupNormalization has a scale per channel, not per group."""


def check_normalization(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a scale or a bias does not fit the normalized axes."""
    data, axis = call.shape(0), call.attributes.get("axis", -1)
    if data is None or not -len(data) <= axis < len(data):
        return  # `_axis_attribute` reports the axis.
    target = data[axis % len(data) :]
    for position, name in ((1, "a scale"), (2, "a bias")):
        operand = call.input(position)
        if operand is None or operand.shape is None:
            continue
        if not broadcasts_to(operand.shape, target) and not broadcasts_to(operand.shape, data):
            yield wrong_shape(
                call, operand, f"{name} that broadcasts to the normalized {shape_text(target)}"
            )


def check_convolution(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations by weights:
    Conv has (M, C / group, ...), ConvTranspose (C, M / group, ...).
    """
    data, weight, group = call.shape(0), call.input(1), call.attributes.get("group", 1)
    if weight is None or weight.shape is None:
        return
    kernel, is_transposed = weight.shape, call.op == "ConvTranspose"
    if data is not None and len(kernel) != len(data):
        yield wrong_rank(call, weight, f"weights of rank {len(data)}, like its input")
        return
    if len(kernel) < 2:
        return
    if group < 1:
        yield wrong_attribute(call, "group", "a positive group")
        return
    channels = data[1] if data is not None else None
    expected = kernel[0] if is_transposed else None if kernel[1] is None else kernel[1] * group
    if not fits(channels, expected):
        many = f" x {group} groups" if group > 1 and not is_transposed else ""
        axis = 0 if is_transposed else 1
        yield wrong_shape(
            call,
            weight,
            f"weights with {channels} input channels (axis {axis}{many}), like its input",
        )
    filters = kernel[1] if is_transposed else kernel[0]
    if kernel[0] is not None and kernel[0] % group:
        yield wrong_attribute(call, "group", f"a group that divides {kernel[0]}")
    if is_transposed:
        filters = None if filters is None else filters * group
    stated = call.attributes.get("kernel_shape")
    if stated is not None and not is_shape(kernel[2:], list(stated)):
        wanted = shape_text(kernel[2:])
        yield wrong_attribute(call, "kernel_shape", f"kernel_shape {wanted}, like its weights")
    if call.op != "ConvInteger":
        bias = 3 if call.op == "DeformConv" else 2  # The offsets precede the bias.
        yield from require_shape(call, bias, (filters,), "the bias")
    yield from _check_spatial(call, len(kernel) - 2)


def check_pooling(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation for each attribute that does not fit the spatial axes of the data."""
    data = call.shape(0)
    if data is not None and len(data) > 2:
        yield from _check_spatial(call, len(data) - 2)


def _check_spatial(call: OperatorCall, dims: int) -> Iterator[Violation]:
    """Yield violations unless there are as many strides, pads and so on as spatial dimensions."""
    for name, factor in (
        ("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("output_padding", 1), ("pads", 2),
    ):  # fmt: skip
        value = call.attributes.get(name)
        if value is None or not list(value):
            continue
        if len(value) != factor * dims:
            yield wrong_attribute(call, name, f"{factor * dims} values in {name}")
        elif name in ("kernel_shape", "strides", "dilations") and min(value) < 1:
            yield wrong_attribute(call, name, f"positive values in {name}")


def check_gemm(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the sizes of the inputs of Gemm do not match."""
    a, b = call.shape(0), call.shape(1)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return  # `require_ranks` reports inputs that are not matrices.
    rows, inner = reversed(a) if call.attributes.get("transA") else a
    depth, columns = reversed(b) if call.attributes.get("transB") else b
    if not fits(inner, depth):
        operand = call.input(1)
        assert operand is not None
        yield wrong_shape(
            call, operand, f"{inner} rows in the second matrix, as in {shape_text(a)}"
        )
        return
    bias = call.input(2)
    if bias is None or bias.shape is None or call.opset < BROADCASTS:
        return
    if not broadcasts_to(bias.shape, (rows, columns)):
        yield wrong_shape(call, bias, f"a bias that broadcasts to {shape_text((rows, columns))}")


BROADCASTS = 7
"""The opset from which on operators broadcast as NumPy does."""


def check_matmul(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the sizes of the inputs of MatMul do not match."""
    a, second = call.shape(0), call.input(1)
    if a is None or second is None or second.shape is None or not a or not second.shape:
        return
    b = second.shape
    inner = b[0] if len(b) == 1 else b[-2]
    if not fits(a[-1], inner) or broadcast_shapes([a[:-2], b[:-2]]) is None:
        yield wrong_shape(call, second, f"a matrix that multiplies {shape_text(a)}")
