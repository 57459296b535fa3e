"""The rules of the ONNX specification about ranks, broadcasting, attributes and indices: what a
checker that only sees types does not ask, and some backends accept.

A rule only applies to what is known: an unknown rank, dimension or element breaks none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from polygraphy.domain.checks.operator_call import (
    ATTRIBUTE,
    SHAPE,
    VALUE,
    Operand,
    OperatorCall,
    Violation,
    shape_text,
)

Shape = Sequence["int | None"]
Rule = Callable[[OperatorCall], Iterator[Violation]]

_SHOWN = 4
"""Values that a message names."""


def violations(call: OperatorCall) -> list[Violation]:
    """Return the rules that a node breaks."""
    return [one for rule in _RULES.get(call.op, ()) for one in rule(call)]


def _wrong_shape(call: OperatorCall, operand: Operand, requirement: str) -> Violation:
    shape = shape_text(operand.shape or ())
    return Violation(
        call.op, requirement, f"{operand.name!r} has shape {shape}", SHAPE, operand.name
    )


def _wrong_rank(call: OperatorCall, operand: Operand, requirement: str) -> Violation:
    rank = operand.rank
    actual = f"{operand.name!r} has rank {rank} (shape {shape_text(operand.shape or ())})"
    return Violation(call.op, requirement, actual, SHAPE, operand.name)


def _wrong_attribute(call: OperatorCall, name: str, requirement: str) -> Violation:
    actual = f"attribute {name!r} is {call.attributes.get(name)}"
    return Violation(call.op, requirement, actual, ATTRIBUTE)


def _wrong_values(
    call: OperatorCall, operand: Operand, requirement: str, bad: Sequence[Any]
) -> Violation:
    shown = ", ".join(map(str, bad[:_SHOWN])) + (", ..." if len(bad) > _SHOWN else "")
    return Violation(
        call.op, requirement, f"{operand.name!r} contains {shown}", VALUE, operand.name
    )


def _ranks(**allowed: Any) -> Rule:
    """Require ranks: the keys are ``x`` and the position of an input."""
    ranks = {int(key[1:]): value for key, value in allowed.items()}

    def rule(call: OperatorCall) -> Iterator[Violation]:
        for position, expected in ranks.items():
            operand = call.input(position)
            if operand is None or operand.rank is None:
                continue
            least, most = expected if isinstance(expected, tuple) else (expected, expected)
            if not least <= operand.rank <= most:
                if least == most:
                    text = f"rank {least}"
                else:
                    text = f"at least rank {least}" if most == _ANY else f"rank {least} to {most}"
                yield _wrong_rank(call, operand, f"{text} for input {position}")

    return rule


_ANY = 1 << 30


def _fits(dim: int | None, expected: int | None) -> bool:
    return dim is None or expected is None or dim == expected


def _is_shape(shape: Shape, expected: Shape) -> bool:
    return len(shape) == len(expected) and all(map(_fits, shape, expected))


def _require(
    call: OperatorCall, position: int, expected: Shape, what: str = ""
) -> Iterator[Violation]:
    """Require the shape of an input."""
    operand = call.input(position)
    if operand is None or operand.shape is None or _is_shape(operand.shape, expected):
        return
    yield _wrong_shape(
        call, operand, f"shape {shape_text(expected)} for {what or f'input {position}'}"
    )


def _broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Return whether a shape broadcasts to another, which stays as it is."""
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target))
    return all(dim is None or dim == 1 or _fits(dim, wide) for dim, wide in pairs)


def _broadcast(shapes: Sequence[Shape]) -> list[int | None] | None:
    """Return the shape that several broadcast to; None if they do not."""
    rank = max(map(len, shapes), default=0)
    made: list[int | None] = []
    for axis in range(rank):
        dims = {s[len(s) - rank + axis] for s in shapes if len(s) - rank + axis >= 0}
        known = {dim for dim in dims if dim not in (None, 1)}
        if len(known) > 1:
            return None
        made.append(known.pop() if known else None if None in dims else 1)
    return made


def _slope(call: OperatorCall) -> Iterator[Violation]:
    data, slope = call.shape(0), call.input(1)
    if data is None or slope is None or slope.shape is None or _broadcasts_to(slope.shape, data):
        return
    requirement = f"a slope that broadcasts to the input {shape_text(data)}"
    if len(data) > 1 and prod(dim or 0 for dim in slope.shape) == data[1]:
        per_channel = (data[1], *[1] * (len(data) - 2))
        requirement += f", such as {shape_text(per_channel)} for one slope per channel"
    yield _wrong_shape(call, slope, requirement)


def _channels(call: OperatorCall) -> int | None:
    shape = call.shape(0)
    return shape[1] if shape is not None and len(shape) > 1 else None


def _per_channel(positions: Sequence[int], names: Sequence[str]) -> Rule:
    """Require one element per channel of the first input."""

    def rule(call: OperatorCall) -> Iterator[Violation]:
        for position, name in zip(positions, names):
            yield from _require(call, position, (_channels(call),), name)

    return rule


def _group_norm(call: OperatorCall) -> Iterator[Violation]:
    channels, groups = _channels(call), call.attributes.get("num_groups")
    if groups is None:
        return
    if channels is not None and (groups < 1 or channels % groups):
        yield _wrong_attribute(call, "num_groups", f"num_groups that divides {channels} channels")
    size = channels if call.opset >= _GROUPS_PER_CHANNEL else groups
    for position, name in ((1, "the scale"), (2, "the bias")):
        yield from _require(call, position, (size,), name)


_GROUPS_PER_CHANNEL = 21
"""The opset from which on GroupNormalization has a scale per channel, not per group."""


def _check_normalization(call: OperatorCall) -> Iterator[Violation]:
    data, axis = call.shape(0), call.attributes.get("axis", -1)
    if data is None or not -len(data) <= axis < len(data):
        return  # `_axis_attribute` reports the axis.
    target = data[axis % len(data) :]
    for position, name in ((1, "a scale"), (2, "a bias")):
        operand = call.input(position)
        if operand is None or operand.shape is None:
            continue
        if not _broadcasts_to(operand.shape, target) and not _broadcasts_to(operand.shape, data):
            yield _wrong_shape(
                call, operand, f"{name} that broadcasts to the normalized {shape_text(target)}"
            )


def _convolution(call: OperatorCall) -> Iterator[Violation]:
    """Conv and ConvInteger have weights (M, C / group, ...), ConvTranspose (C, M / group, ...)."""
    data, weight, group = call.shape(0), call.input(1), call.attributes.get("group", 1)
    if weight is None or weight.shape is None:
        return
    kernel, is_transposed = weight.shape, call.op == "ConvTranspose"
    if data is not None and len(kernel) != len(data):
        yield _wrong_rank(call, weight, f"weights of rank {len(data)}, as its input")
        return
    if len(kernel) < 2:
        return
    if group < 1:
        yield _wrong_attribute(call, "group", "a positive group")
        return
    channels = data[1] if data is not None else None
    expected = kernel[0] if is_transposed else None if kernel[1] is None else kernel[1] * group
    if not _fits(channels, expected):
        many = f" x {group} groups" if group > 1 and not is_transposed else ""
        axis = 0 if is_transposed else 1
        yield _wrong_shape(
            call,
            weight,
            f"as many input channels in its weights (axis {axis}{many}) as its input has:"
            f" {channels}",
        )
    filters = kernel[1] if is_transposed else kernel[0]
    if kernel[0] is not None and kernel[0] % group:
        yield _wrong_attribute(call, "group", f"a group that divides {kernel[0]}")
    if is_transposed:
        filters = None if filters is None else filters * group
    stated = call.attributes.get("kernel_shape")
    if stated is not None and not _is_shape(kernel[2:], list(stated)):
        wanted = shape_text(kernel[2:])
        yield _wrong_attribute(call, "kernel_shape", f"kernel_shape {wanted}, as its weights have")
    if call.op != "ConvInteger":
        yield from _require(call, 2, (filters,), "the bias")
    yield from _spatial(call, len(kernel) - 2)


def _pooling(call: OperatorCall) -> Iterator[Violation]:
    data = call.shape(0)
    if data is not None and len(data) > 2:
        yield from _spatial(call, len(data) - 2)


def _spatial(call: OperatorCall, dims: int) -> Iterator[Violation]:
    """Require as many strides, pads, ... as there are spatial dimensions."""
    for name, factor in (
        ("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("output_padding", 1), ("pads", 2),
    ):  # fmt: skip
        value = call.attributes.get(name)
        if value is None or not list(value):
            continue
        if len(value) != factor * dims:
            yield _wrong_attribute(call, name, f"{factor * dims} values in {name}")
        elif name in ("kernel_shape", "strides", "dilations") and min(value) < 1:
            yield _wrong_attribute(call, name, f"positive values in {name}")


def _gemm(call: OperatorCall) -> Iterator[Violation]:
    a, b = call.shape(0), call.shape(1)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return  # `_ranks` reports those.
    rows, inner = reversed(a) if call.attributes.get("transA") else a
    depth, columns = reversed(b) if call.attributes.get("transB") else b
    if not _fits(inner, depth):
        operand = call.input(1)
        assert operand is not None
        yield _wrong_shape(
            call, operand, f"{inner} rows in the second matrix, as in {shape_text(a)}"
        )
        return
    bias = call.input(2)
    if bias is None or bias.shape is None or call.opset < _BROADCASTS:
        return
    if not _broadcasts_to(bias.shape, (rows, columns)):
        yield _wrong_shape(call, bias, f"a bias that broadcasts to {shape_text((rows, columns))}")


_BROADCASTS = 7
"""The opset from which on operators broadcast as NumPy does."""


def _matmul(call: OperatorCall) -> Iterator[Violation]:
    a, second = call.shape(0), call.input(1)
    if a is None or second is None or second.shape is None or not a or not second.shape:
        return
    b = second.shape
    inner = b[0] if len(b) == 1 else b[-2]
    if not _fits(a[-1], inner) or _broadcast([a[:-2], b[:-2]]) is None:
        yield _wrong_shape(call, second, f"a matrix that multiplies {shape_text(a)}")


def _elementwise(call: OperatorCall) -> Iterator[Violation]:
    if call.opset < _BROADCASTS + (call.op in ("Max", "Min", "Sum", "Mean")):
        return
    operands = [one for one in call.inputs if one is not None and one.shape is not None]
    for count in range(2, len(operands) + 1):
        shapes = [one.shape for one in operands[:count] if one.shape is not None]
        if _broadcast(shapes) is None:
            others = " and ".join(map(shape_text, shapes[:-1]))
            yield _wrong_shape(call, operands[count - 1], f"a shape that broadcasts with {others}")
            return


def _axis_attribute(name: str = "axis", *, beyond: int = 0, position: int = 0) -> Rule:
    """Require that an attribute is an axis of an input, with so many more at the end."""

    def rule(call: OperatorCall) -> Iterator[Violation]:
        data, axis = call.shape(position), call.attributes.get(name)
        if data is None or axis is None or (not data and beyond == 0 and axis in (0, -1)):
            return
        rank = len(data)
        if not -rank - beyond <= axis < rank + beyond:
            low, high = -rank - beyond, rank + beyond - 1
            yield _wrong_attribute(call, name, f"an axis in [{low}, {high}]")

    return rule


def _axes(position: int, *, added: bool = False) -> Rule:
    """Require that axes, in an input or an attribute, exist, each once."""

    def rule(call: OperatorCall) -> Iterator[Violation]:
        data, axes = call.shape(0), call.integers(position, "axes")
        if data is None or axes is None:
            return
        rank = len(data) + (len(axes) if added else 0)
        bad = [axis for axis in axes if not -rank <= axis < rank]
        if bad:
            yield _bad_axes(call, position, f"axes in [{-rank}, {rank - 1}]", bad)
        elif len({axis % rank for axis in axes}) < len(axes) and rank:
            yield _bad_axes(call, position, "each axis once", axes)

    return rule


def _bad_axes(call: OperatorCall, position: int, requirement: str, bad: Sequence[int]) -> Violation:
    operand = call.input(position)
    if operand is None:
        return _wrong_attribute(call, "axes", requirement)
    return _wrong_values(call, operand, requirement, bad)


def _check_squeeze(call: OperatorCall) -> Iterator[Violation]:
    data, axes = call.input(0), call.integers(1, "axes")
    if data is None or data.shape is None or axes is None:
        return
    rank = len(data.shape)
    known = [axis for axis in axes if -rank <= axis < rank]
    bad = [axis for axis in known if not _fits(data.shape[axis], 1)]
    if bad:
        yield _wrong_shape(call, data, f"size 1 on axis {', '.join(map(str, bad))}")


def _check_transpose(call: OperatorCall) -> Iterator[Violation]:
    data, perm = call.shape(0), call.attributes.get("perm")
    if perm is None:
        return
    rank = len(perm) if data is None else len(data)
    if sorted(perm) != [*range(rank)]:
        yield _wrong_attribute(call, "perm", f"each of the axes 0 to {rank - 1} once in perm")


def _check_reshape(call: OperatorCall) -> Iterator[Violation]:
    data, sizes = call.shape(0), call.integers(1, "shape")
    if sizes is None:
        return
    operand = call.input(1)
    if sizes.count(-1) > 1 or min(sizes, default=0) < -1:
        bad = [size for size in sizes if size < 0]
        if operand is not None:
            yield _wrong_values(call, operand, "one -1 at most, and no other negative size", bad)
        return
    if data is None or None in data or operand is None:
        return
    keeps = not call.attributes.get("allowzero")
    if keeps and any(size == 0 and axis >= len(data) for axis, size in enumerate(sizes)):
        yield _wrong_values(call, operand, f"0 only for the axes of {shape_text(data)}", sizes)
        return
    wanted = [data[i] if keeps and size == 0 else size for i, size in enumerate(sizes)]
    total, known = prod(dim or 0 for dim in data), prod(size or 0 for size in wanted if size != -1)
    fits = (known and total % known == 0) or (not known and not total) if -1 in wanted else None
    if not (total == known if fits is None else fits):
        count = f"a shape of {total} elements, as its input {shape_text(data)} has"
        yield _wrong_values(call, operand, count, sizes)


def _check_expand(call: OperatorCall) -> Iterator[Violation]:
    data, sizes, operand = call.shape(0), call.integers(1), call.input(1)
    if data is None or sizes is None or operand is None:
        return
    if _broadcast([data, sizes]) is None:
        yield _wrong_values(call, operand, f"a shape that {shape_text(data)} broadcasts to", sizes)


def _one_per_axis(position: int, name: str, *, factor: int = 1, axes: int | None = None) -> Rule:
    """Require so many elements of an input for each axis of the first, or of those that another
    input names.
    """

    def rule(call: OperatorCall) -> Iterator[Violation]:
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
            yield _wrong_shape(call, operand, f"{factor * count} {name}")

    return rule


def _check_tile(call: OperatorCall) -> Iterator[Violation]:
    operand, repeats = call.input(1), call.integers(1)
    if operand is not None and repeats and min(repeats) < 0:
        yield _wrong_values(call, operand, "repeats of at least 0", repeats)


def _check_slice(call: OperatorCall) -> Iterator[Violation]:
    names = ("", "starts", "ends", "axes", "steps")
    lists = [call.integers(i, names[i]) for i in range(1, 5)]
    starts = lists[0]
    for position, found in enumerate(lists[1:], 2):
        if starts is not None and found is not None and len(found) != len(starts):
            operand = call.input(position)
            text = f"as many {names[position]} as starts ({len(starts)})"
            if operand is None:
                yield _wrong_attribute(call, names[position], text)
            else:
                yield _wrong_values(call, operand, text, found)
    steps = call.input(4)
    if steps is not None and 0 in (lists[3] or ()):
        yield _wrong_values(call, steps, "steps other than 0", lists[3] or ())


def _indices(default: int = 0) -> Rule:
    """Require that indices exist along an axis of the data."""

    def rule(call: OperatorCall) -> Iterator[Violation]:
        data, operand = call.shape(0), call.input(1)
        axis = call.attributes.get("axis", default)
        if data is None or operand is None or operand.values is None:
            return
        if not -len(data) <= axis < len(data):
            return
        size = data[axis]
        if size is not None:
            yield from _bad_indices(call, operand, np.asarray(operand.values), size, axis)

    return rule


def _bad_indices(
    call: OperatorCall, operand: Operand, values: Any, size: int, axis: int
) -> Iterator[Violation]:
    if not np.issubdtype(values.dtype, np.integer):
        return
    # Before opset 11 negative indices count from the end in some operators only.
    bad = values[(values < -size) | (values >= size)].reshape(-1)
    if bad.size:
        text = f"indices in [{-size}, {size - 1}] for axis {axis} of size {size}"
        yield _wrong_values(call, operand, text, list(dict.fromkeys(bad.tolist())))


def _elements_indices(call: OperatorCall) -> Iterator[Violation]:
    """Require indices of the rank of the data, and for a scatter updates of their shape."""
    data, indices, axis = call.shape(0), call.input(1), call.attributes.get("axis", 0)
    if data is None or indices is None or indices.shape is None:
        return
    if len(indices.shape) != len(data):
        yield _wrong_rank(call, indices, f"indices of rank {len(data)}, as its input")
        return
    if not -len(data) <= axis < len(data):
        return
    for position, (dim, size) in enumerate(zip(indices.shape, data)):
        if position != axis % len(data) and dim is not None and size is not None and dim > size:
            yield _wrong_shape(call, indices, f"at most {size} indices on axis {position}")
    if call.op != "GatherElements":
        yield from _require(call, 2, indices.shape, "the updates")


def _tuple_indices(call: OperatorCall) -> Iterator[Violation]:
    """Require tuples of indices that exist in the data (GatherND, ScatterND)."""
    data, indices = call.shape(0), call.input(1)
    batch = call.attributes.get("batch_dims", 0) if call.op == "GatherND" else 0
    if data is None or indices is None or not indices.shape or indices.shape[-1] is None:
        return
    length = indices.shape[-1]
    if not 1 <= length <= len(data) - batch:
        yield _wrong_shape(call, indices, f"1 to {len(data) - batch} indices on the last axis")
        return
    if call.op == "ScatterND":
        expected = (*indices.shape[:-1], *data[length:])
        yield from _require(call, 2, expected, "the updates")
    if indices.values is None:
        return
    values = np.asarray(indices.values)
    for position in range(length):
        size = data[batch + position]
        if size is not None:
            found = [*_bad_indices(call, indices, values[..., position], size, batch + position)]
            if found:
                yield found[0]
                return


def _split(call: OperatorCall) -> Iterator[Violation]:
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
            if not _fits(sum(sizes), size):
                requirement = f"sizes that add up to {size}, the size of axis {axis}"
        if requirement and operand is not None:
            yield _wrong_values(call, operand, requirement, sizes)
        elif requirement:
            yield _wrong_attribute(call, "split", requirement)
    elif operand is None and data is not None and -len(data) <= axis < len(data):
        size, parts = data[axis], call.attributes.get("num_outputs")
        if parts is not None and parts != call.outputs:
            yield _wrong_attribute(call, "num_outputs", f"num_outputs {call.outputs}")
        elif parts is None and size is not None and call.outputs and size % call.outputs:
            source = call.input(0)
            assert source is not None
            text = f"a size on axis {axis} that {call.outputs} outputs divide"
            yield _wrong_shape(call, source, text)


def _check_concat(call: OperatorCall) -> Iterator[Violation]:
    axis = call.attributes.get("axis", 0)
    known = [one for one in call.inputs if one is not None and one.shape is not None]
    for operand in known[1:]:
        first, shape = known[0].shape or (), operand.shape or ()
        if len(shape) != len(first):
            yield _wrong_rank(call, operand, f"inputs of one rank, as {shape_text(first)}")
            return
        others = [
            i
            for i, pair in enumerate(zip(shape, first))
            if i != axis % max(len(first), 1) and not _fits(*pair)
        ]
        if others:
            text = f"equal sizes except on axis {axis}, as in {shape_text(first)}"
            yield _wrong_shape(call, operand, text)
            return


def _top(call: OperatorCall) -> Iterator[Violation]:
    data, count, operand = call.shape(0), call.integers(1), call.input(1)
    axis = call.attributes.get("axis", -1)
    if data is None or not count or operand is None or not -len(data) <= axis < len(data):
        return
    size = data[axis]
    if size is not None and not 0 <= count[0] <= size:
        yield _wrong_values(call, operand, f"K in [0, {size}], the size of axis {axis}", count)


def _scalars(*positions: int) -> Rule:
    """Require a single element."""

    def rule(call: OperatorCall) -> Iterator[Violation]:
        for position in positions:
            operand = call.input(position)
            if operand is None or operand.shape is None or None in operand.shape:
                continue
            if prod(dim or 0 for dim in operand.shape) != 1:
                yield _wrong_shape(call, operand, f"a scalar for input {position}")

    return rule


def _check_quantize(call: OperatorCall) -> Iterator[Violation]:
    data, scale, zero = call.shape(0), call.input(1), call.input(2)
    axis, block = call.attributes.get("axis", 1), call.attributes.get("block_size", 0)
    if scale is None or scale.shape is None:
        return
    if zero is not None and zero.shape is not None and not _is_shape(zero.shape, scale.shape):
        sizes = [prod(dim or 0 for dim in one) for one in (zero.shape, scale.shape)]
        if sizes != [1, 1]:
            text = f"a zero point of the shape of its scale {shape_text(scale.shape)}"
            yield _wrong_shape(call, zero, text)
            return
    size = prod(dim or 0 for dim in scale.shape)
    if data is None or block or size == 1 or None in scale.shape:
        return
    if len(scale.shape) != 1:
        yield _wrong_rank(call, scale, "a scale that is a scalar or a vector")
    elif -len(data) <= axis < len(data) and not _fits(size, data[axis]):
        yield _wrong_shape(call, scale, f"{data[axis]} scales, one per index of axis {axis}")


def _blocks(call: OperatorCall) -> Iterator[Violation]:
    data, size = call.input(0), call.attributes.get("blocksize", 0)
    if data is None or data.shape is None or len(data.shape) != 4:
        return
    if size < 1:
        yield _wrong_attribute(call, "blocksize", "a positive blocksize")
        return
    is_depth = call.op == "DepthToSpace"
    dims = data.shape[1:2] if is_depth else data.shape[2:]
    factor = size * size if is_depth else size
    if any(dim is not None and dim % factor for dim in dims):
        what = "channels" if is_depth else "height and width"
        yield _wrong_shape(call, data, f"{what} that {factor} divides (blocksize {size})")


def _check_resize(call: OperatorCall) -> Iterator[Violation]:
    if call.opset < _RESIZE:
        return
    scales, sizes = call.input(2), call.input(3)
    if scales is None and sizes is None:
        yield Violation(call.op, "scales or sizes", "it has neither", SHAPE)
    elif scales is not None and sizes is not None:
        # Opset 11 has an empty tensor for no scales; later ones leave the input out.
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


def _recurrent(gates: int) -> Rule:
    """Require the shapes of the weights, the bias and the states of a recurrent operator."""

    def rule(call: OperatorCall) -> Iterator[Violation]:
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
            yield from _require(call, 1, (directions, rows, width), "the weights")
        yield from _require(call, 2, (directions, rows, hidden), "the recurrence weights")
        double = None if rows is None else 2 * rows
        yield from _require(call, 3, (directions, double), "the bias")
        yield from _require(call, 4, (batch,), "sequence_lens")
        state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
        for position in (5, 6) if gates == _LSTM else (5,):
            yield from _require(call, position, state, "the initial state")
        if gates == _LSTM:
            peepholes = None if hidden is None else 3 * hidden
            yield from _require(call, 7, (directions, peepholes), "the peepholes")

    return rule


_LSTM = 4


def _einsum(call: OperatorCall) -> Iterator[Violation]:
    equation = str(call.attributes.get("equation", "")).replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if len(terms) != len(call.inputs):
        yield _wrong_attribute(call, "equation", f"one term per input ({len(call.inputs)})")
        return
    sizes: dict[str, tuple[int, str]] = {}
    for term, operand in zip(terms, call.inputs):
        if operand is None or operand.shape is None:
            continue
        letters, shape = term.replace("...", "."), operand.shape
        if "." in letters:
            before, _, after = letters.partition(".")
            if len(before) + len(after) > len(shape):
                yield _wrong_rank(
                    call, operand, f"at least rank {len(before + after)} for {term!r}"
                )
                return
            tail = shape[len(shape) - len(after) :] if after else ()
            pairs = [*zip(before, shape), *zip(after, tail)]
        elif len(letters) != len(shape):
            yield _wrong_rank(call, operand, f"rank {len(letters)} for {term!r}")
            return
        else:
            pairs = [*zip(letters, shape)]
        for letter, dim in pairs:
            if dim is None or dim == 1:
                continue
            known = sizes.setdefault(letter, (dim, operand.name))
            if known[0] != dim:
                text = f"one size for {letter!r} ({known[0]} in {known[1]!r})"
                yield _wrong_shape(call, operand, text)
                return


def _one_hot(call: OperatorCall) -> Iterator[Violation]:
    yield from _require(call, 2, (2,), "the values")


def _grid(call: OperatorCall) -> Iterator[Violation]:
    data, grid = call.shape(0), call.input(1)
    if data is None or grid is None or grid.shape is None:
        return
    if len(grid.shape) != len(data):
        yield _wrong_rank(call, grid, f"a grid of rank {len(data)}, as its input")
    elif not _fits(grid.shape[-1], len(data) - 2) or not _fits(grid.shape[0], data[0]):
        expected = (data[0], *[None] * (len(data) - 2), len(data) - 2)
        yield _wrong_shape(call, grid, f"a grid of shape {shape_text(expected)}")


def _regions(call: OperatorCall) -> Iterator[Violation]:
    yield from _require(call, 1, (None, 4), "the regions")
    data, batches = call.shape(0), call.input(2)
    if data and data[0] is not None and batches is not None and batches.values is not None:
        values = np.asarray(batches.values)
        bad = values[(values < 0) | (values >= data[0])].reshape(-1)
        if bad.size:
            text = f"batch indices in [0, {data[0] - 1}]"
            yield _wrong_values(call, batches, text, bad.tolist())


def _boxes(call: OperatorCall) -> Iterator[Violation]:
    boxes, scores = call.shape(0), call.shape(1)
    count = scores[2] if scores is not None and len(scores) == 3 else None
    batch = scores[0] if scores is not None and len(scores) == 3 else None
    yield from _require(call, 0, (batch, count, 4), "the boxes")
    yield from _require(call, 1, (boxes[0] if boxes else None, None, None), "the scores")


def _range(call: OperatorCall) -> Iterator[Violation]:
    delta = call.input(2)
    if delta is not None and delta.values is not None and not np.all(delta.values):
        yield _wrong_values(call, delta, "a delta other than 0", [0])


def _sums_along(call: OperatorCall) -> Iterator[Violation]:
    data, axis, operand = call.shape(0), call.integers(1), call.input(1)
    if data is None or not axis or operand is None or not data:
        return
    if not -len(data) <= axis[0] < len(data):
        yield _wrong_values(call, operand, f"an axis in [{-len(data)}, {len(data) - 1}]", axis)


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

_RULES: dict[str, tuple[Rule, ...]] = {
    "PRelu": (_slope,),
    "BatchNormalization": (
        _per_channel((1, 2, 3, 4), ("the scale", "the bias", "the mean", "the variance")),
    ),
    "InstanceNormalization": (_per_channel((1, 2), ("the scale", "the bias")),),
    "GroupNormalization": (_group_norm,),
    "LayerNormalization": (_check_normalization,),
    "RMSNormalization": (_check_normalization,),
    "Conv": (_convolution, _ranks(x0=(3, _ANY))),
    "ConvInteger": (_convolution, _ranks(x0=(3, _ANY))),
    "ConvTranspose": (_convolution, _ranks(x0=(3, _ANY))),
    "MaxPool": (_pooling, _ranks(x0=(3, _ANY))),
    "AveragePool": (_pooling, _ranks(x0=(3, _ANY))),
    "LpPool": (_pooling, _ranks(x0=(3, _ANY))),
    "Gemm": (_ranks(x0=2, x1=2), _gemm),
    "MatMul": (_ranks(x0=(1, _ANY), x1=(1, _ANY)), _matmul),
    "Gather": (_indices(),),
    "GatherElements": (_elements_indices, _indices()),
    "ScatterElements": (_elements_indices, _indices()),
    "Scatter": (_elements_indices, _indices()),
    "GatherND": (_tuple_indices,),
    "ScatterND": (_tuple_indices,),
    "Transpose": (_check_transpose,),
    "Flatten": (_axis_attribute(beyond=1),),
    "Reshape": (_check_reshape,),
    "Expand": (_check_expand,),
    "Tile": (_one_per_axis(1, "repeats, one per axis"), _check_tile),
    "Pad": (_one_per_axis(1, "pads, two per axis", factor=2, axes=3), _axes(3)),
    "Slice": (_check_slice, _axes(3)),
    "Squeeze": (_axes(1), _check_squeeze),
    "Unsqueeze": (_axes(1, added=True),),
    "Split": (_split,),
    "Concat": (_check_concat,),
    "TopK": (_top,),
    "Clip": (_scalars(1, 2),),
    "QuantizeLinear": (_check_quantize,),
    "DequantizeLinear": (_check_quantize,),
    "DepthToSpace": (_ranks(x0=4), _blocks),
    "SpaceToDepth": (_ranks(x0=4), _blocks),
    "Resize": (
        _check_resize,
        _one_per_axis(2, "scales, one per axis"),
        _one_per_axis(3, "sizes, one per axis"),
    ),
    "LSTM": (_ranks(x0=3, x1=3, x2=3), _recurrent(_LSTM)),
    "GRU": (_ranks(x0=3, x1=3, x2=3), _recurrent(3)),
    "RNN": (_ranks(x0=3, x1=3, x2=3), _recurrent(1)),
    "Einsum": (_einsum,),
    "OneHot": (_scalars(1), _one_hot),
    "GridSample": (_grid,),
    "RoiAlign": (_ranks(x0=4), _regions),
    "NonMaxSuppression": (_ranks(x0=3, x1=3), _boxes),
    "Range": (_scalars(0, 1, 2), _range),
    "CumSum": (_sums_along,),
    "Trilu": (_ranks(x0=(2, _ANY)),),
    "STFT": (_ranks(x0=3),),
    "ConstantOfShape": (_ranks(x0=1),),
}


def _extend(ops: str, rule: Rule) -> None:
    for op in ops.split():
        _RULES[op] = (*_RULES.get(op, ()), rule)


_extend(_BINARY, _elementwise)
_extend(_ALONG, _axis_attribute())
_extend(_REDUCED, _axes(1))
