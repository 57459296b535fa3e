"""The rules of the ONNX specification about windows that slide over an input: convolution, pooling,
and their inverses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from attrs import frozen

from polygraphy.domain.checks.operator_call import OperatorCall, Violation
from polygraphy.domain.checks.requirements import (
    ANY_RANK,
    Rule,
    attribute_rule,
    dim_of,
    require_ranks,
    require_shape,
    shape_rule,
    wrong_attribute,
    wrong_shape,
    wrong_values,
)

_UNPADDED = ("NOTSET", "")


@frozen
class _Window:
    """The window of an operator along one spatial axis.

    Attributes:
        width: the elements that it covers, with the gaps of a dilation.
        before: the padding in front of the axis.
        after: the padding behind the axis.
        stride: the elements between two windows.
    """

    width: int
    before: int
    after: int
    stride: int

    def count(self, size: int) -> int:
        """Return the number of windows on an axis of this size."""
        return (size + self.before + self.after - self.width) // self.stride + 1


def _windows(call: OperatorCall, kernel: Sequence[int | None]) -> list[_Window | None]:
    """Return the window of each spatial axis, None for an unknown kernel.
    The result is empty if attributes are invalid or the padding is automatic.
    """
    auto, spatial = call.attributes.get("auto_pad", "NOTSET"), len(kernel)
    if auto not in (*_UNPADDED, "VALID"):
        return []
    pads = [*(call.attributes.get("pads") or [])] if auto != "VALID" else []
    pads, dilations = pads or [0] * 2 * spatial, call.attributes.get("dilations") or [1] * spatial
    strides = call.attributes.get("strides") or [1] * spatial
    if not len(dilations) == len(strides) == spatial == len(pads) // 2:
        return []
    if min((*strides, *dilations), default=1) < 1:
        return []  # Another rule reports values below 1.
    return [
        (
            None
            if width is None
            else _Window((width - 1) * dilations[i] + 1, pads[i], pads[i + spatial], strides[i])
        )
        for i, width in enumerate(kernel)
    ]


def _kernel_of(call: OperatorCall) -> Sequence[int | None] | None:
    """Return the sizes of the kernel; None if they are unknown."""
    weights = call.shape(1) if call.op.startswith("Conv") else None
    return weights[2:] if weights is not None else call.attributes.get("kernel_shape")


def check_window(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the window of a convolution or pooling exceeds its padded input."""
    data, shape, kernel = call.input(0), call.shape(0), _kernel_of(call)
    if data is None or shape is None or kernel is None or len(kernel) != len(shape) - 2:
        return
    for axis, window in enumerate(_windows(call, kernel), 2):
        size = shape[axis]
        if not size or window is None:
            continue
        if window.count(size) < 0:  # Without any window, the output is empty.
            needed = window.width - window.before - window.after
            text = f"at least {needed} elements on axis {axis} for its kernel of {kernel[axis - 2]}"
            yield wrong_shape(call, data, text)
            return


def _check_empty_windows(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a window contains padding only,
    so that its maximum or average is undefined."""
    shape, kernel = call.shape(0), _kernel_of(call)
    if shape is None or kernel is None or len(kernel) != len(shape) - 2:
        return
    if call.attributes.get("count_include_pad") or call.attributes.get("ceil_mode"):
        return
    for axis, window in enumerate(_windows(call, kernel), 2):
        size = shape[axis]
        if not size or window is None or window.count(size) < 1:
            continue
        last = (window.count(size) - 1) * window.stride - window.before
        if window.before >= window.width or last >= size:
            text = f"an element of the input in each window, so pads below {window.width} on axis"
            yield wrong_attribute(call, "pads", f"{text} {axis}")
            return


def _check_padding(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if pads are given together with automatic padding."""
    auto, pads = call.attributes.get("auto_pad", "NOTSET"), call.attributes.get("pads")
    # Many models have pools with zero pads, and every backend accepts them.
    if auto not in _UNPADDED and pads and (any(pads) or call.op.startswith("Conv")):
        yield wrong_attribute(call, "pads", f"no pads with auto_pad {auto}")


def _check_negative_pads(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation for negative pads."""
    if min(call.attributes.get("pads") or (), default=0) < 0:
        yield wrong_attribute(call, "pads", "pads of at least 0")


def _check_transposed(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the output of a transposed convolution."""
    shape, kernel, sizes = call.shape(0), _kernel_of(call), call.attributes.get("output_shape")
    if sizes and min(sizes) < 1:
        yield wrong_attribute(call, "output_shape", "positive values in output_shape")
        return
    spatial = len(kernel or ())
    strides = call.attributes.get("strides") or [1] * spatial
    dilations = call.attributes.get("dilations") or [1] * spatial
    extra = call.attributes.get("output_padding") or [0] * spatial
    if kernel is None or not len(strides) == len(dilations) == len(extra) == spatial:
        return
    most = [max(pair) for pair in zip(strides, dilations)]
    if any(not 0 <= size < limit for size, limit in zip(extra, most)):
        text = f"output_padding below the strides or dilations {[*most]}"
        yield wrong_attribute(call, "output_padding", text)
        return
    data = call.input(0)
    if sizes or shape is None or data is None or len(shape) != spatial + 2:
        return
    for axis, window in enumerate(_windows(call, kernel), 2):
        size = shape[axis]
        if window is None or not size:
            continue
        length = (size - 1) * window.stride + window.width + extra[axis - 2]
        if length - window.before - window.after < 1:
            text = f"pads that remove fewer than the {length} elements of axis {axis}"
            yield wrong_attribute(call, "pads", text)
            return


def _check_blocks(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations unless the input of a Col2Im has the blocks of its image."""
    data, image, block = call.input(0), call.integers(1), call.integers(2)
    for position, name in ((1, "image"), (2, "block")):
        sizes, operand = call.integers(position), call.input(position)
        if operand is not None and sizes and min(sizes) < 1:
            yield wrong_values(call, operand, f"positive sizes of the {name}", sizes)
            return
    if data is None or data.shape is None or len(data.shape) != _COLUMNS:
        return
    if block is None or image is None or len(image) != len(block) or min(block, default=0) < 1:
        return
    _, rows, columns = data.shape
    if rows is not None and rows % prod(block):
        yield wrong_shape(call, data, f"a multiple of {prod(block)} on axis 1, the size of a block")
        return
    windows = _windows(call, block)
    counts = [window.count(size) for window, size in zip(windows, image) if window is not None]
    if len(counts) == len(image) and columns is not None and prod(counts) != columns:
        yield wrong_shape(call, data, f"{prod(counts)} blocks on axis 2")


_COLUMNS = 3
"""The rank of the input of a Col2Im."""


def unpooled_sizes(call: OperatorCall) -> list[int] | None:
    """Return the sizes of the output of a MaxUnpool without padding; None if they are unknown."""
    shape, kernel = call.shape(0), call.attributes.get("kernel_shape")
    if shape is None or kernel is None or len(kernel) != len(shape) - 2:
        return None
    windows = _windows(call, kernel)
    if not windows or None in shape:
        return None
    dims = [dim or 0 for dim in shape]
    return dims[:2] + [
        (size - 1) * window.stride + window.width - window.before - window.after
        for size, window in zip(dims[2:], windows)
        if window is not None
    ]


def _check_unpooled(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the given output of a MaxUnpool is too small."""
    output_sizes, least, operand = call.integers(2), unpooled_sizes(call), call.input(2)
    if output_sizes is None or least is None or operand is None:
        return
    if len(output_sizes) == len(least) and any(map(int.__lt__, output_sizes, least)):
        yield wrong_values(call, operand, f"an output of at least {least}", output_sizes)


def _check_offsets(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless a DeformConv has an offset, and a weight of its mask,
    for each position of its kernel.
    """
    kernel, groups = _kernel_of(call), call.attributes.get("offset_group", 1)
    weights = call.shape(1)
    kernel = weights[2:] if weights is not None else kernel
    if kernel is None or None in kernel:
        return
    count = groups * prod(size or 0 for size in kernel)
    batch, sizes = dim_of(call, 0, 0), _output_sizes(call, kernel)
    yield from require_shape(
        call, 2, (batch, len(kernel) * count, *sizes), "the offsets, one for each axis and weight"
    )
    yield from require_shape(call, 4, (batch, count, *sizes), "the mask")


def _output_sizes(call: OperatorCall, kernel: Sequence[int | None]) -> list[int | None]:
    """Return the number of windows along each spatial axis, None where it is unknown."""
    shape, windows = call.shape(0), _windows(call, kernel)
    if shape is None or len(shape) != len(kernel) + 2 or len(windows) != len(kernel):
        return [None] * len(kernel)
    return [
        None if window is None or size is None else window.count(size)
        for window, size in zip(windows, shape[2:])
    ]


_SLIDING: tuple[Rule, ...] = (check_window, _check_padding, _check_negative_pads)
_IMAGES = require_ranks(x0=(3, ANY_RANK))

WINDOW_RULES: dict[str, tuple[Rule, ...]] = {
    "Conv": _SLIDING,
    "ConvInteger": _SLIDING,
    "MaxPool": (*_SLIDING, _check_empty_windows),
    "AveragePool": (*_SLIDING, _check_empty_windows),
    "LpPool": (*_SLIDING, attribute_rule("p", lambda value: value > 0, "a positive p")),
    "GlobalAveragePool": (_IMAGES,),
    "GlobalMaxPool": (_IMAGES,),
    "GlobalLpPool": (_IMAGES,),
    "InstanceNormalization": (_IMAGES,),
    "GroupNormalization": (_IMAGES,),
    "LRN": (_IMAGES,),
    "ConvTranspose": (_check_padding, _check_negative_pads, _check_transposed),
    "Col2Im": (_check_blocks,),
    "DeformConv": (_check_offsets,),
    "MaxUnpool": (
        shape_rule(1, "the indices", lambda call: call.shape(0)),
        _check_unpooled,
    ),
    "MaxRoiPool": (shape_rule(1, "the regions", lambda call: (None, 5)),),
    "RoiAlign": (
        attribute_rule("sampling_ratio", lambda value: value >= 0, "sampling_ratio of at least 0"),
        attribute_rule("output_height", lambda value: value > 0, "a positive output_height"),
        attribute_rule("output_width", lambda value: value > 0, "a positive output_width"),
        shape_rule(2, "the batch indices", lambda call: (dim_of(call, 1, 0),)),
    ),
}
"""The rules by operator."""
