"""The rules of the ONNX specification about signals, attention and grids of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from polygraphy.domain.checks.operator_call import (
    SHAPE,
    Operand,
    OperatorCall,
    Violation,
    shape_text,
)
from polygraphy.domain.checks.requirements import (
    Rule,
    broadcasts_to,
    dim_of,
    fits,
    is_shape,
    scalar_rule,
    shape_rule,
    wrong_attribute,
    wrong_rank,
    wrong_shape,
    wrong_values,
)


def _number(call: OperatorCall, position: int) -> float | None:
    """Return the element of a scalar input; None if it is unknown."""
    operand = call.input(position)
    values = None if operand is None else operand.values
    return None if values is None or np.size(values) != 1 else float(np.ravel(values)[0])


def _positive_rule(position: int, name: str, least: int = 1) -> Rule:
    """Return a rule that requires a scalar of at least some value."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if the scalar is smaller."""
        operand, value = call.input(position), _number(call, position)
        if operand is not None and value is not None and value < least:
            yield wrong_values(call, operand, f"{name} of at least {least}", [f"{value:g}"])

    return check


def _check_components(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless the last axis of a DFT is real or complex."""
    data, size = call.input(0), dim_of(call, 0, -1)
    if data is not None and size is not None and size not in (1, 2):
        yield wrong_shape(call, data, "1 (real) or 2 (complex) elements on its last axis")


def _check_frames(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the window and frames of an STFT."""
    window, length, size = call.input(2), _number(call, 3), dim_of(call, 2, 0)
    if window is None and call.input(3) is None:
        yield Violation(call.op, "a window or a frame_length", "it has neither", SHAPE)
        return
    if window is not None and length is not None and not fits(size, int(length)):
        yield wrong_shape(call, window, f"a window of {length:g} elements, like frame_length")
        return
    data, signal = call.input(0), dim_of(call, 0, 1)
    frame = size if length is None else int(length)
    if data is not None and frame is not None and signal is not None and signal < frame:
        yield wrong_shape(call, data, f"a signal of at least one frame of {frame} elements")


def _check_sides(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if half of the spectrum of complex numbers is requested."""
    if call.attributes.get("onesided") and dim_of(call, 0, -1) == 2:
        yield wrong_attribute(call, "onesided", "onesided 0 for complex numbers")


def _check_bands(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the frequencies of a MelWeightMatrix."""
    rate, low, high = (_number(call, position) for position in (2, 3, 4))
    edges: tuple[Operand | None, Operand | None] = (call.input(3), call.input(4))
    if edges[0] is not None and low is not None and (low < 0 or (high is not None and low >= high)):
        text = "a lower_edge_hertz of at least 0, below upper_edge_hertz"
        yield wrong_values(call, edges[0], text, [f"{low:g}"])
    elif edges[1] is not None and high is not None and rate is not None and high > rate / 2:
        text = f"an upper_edge_hertz of at most half the sample_rate ({rate / 2:g})"
        yield wrong_values(call, edges[1], text, [f"{high:g}"])


def _check_affine_grid(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations unless the matrices of an AffineGrid fit its size."""
    theta, sizes, operand = call.input(0), call.integers(1), call.input(1)
    if theta is None or theta.shape is None or operand is None:
        return
    count = len(sizes) if sizes is not None else dim_of(call, 1, 0)
    if count is None:
        return
    if count not in (4, 5):
        yield wrong_shape(call, operand, "4 or 5 sizes")
        return
    if sizes is not None and min(sizes) < 1:
        yield wrong_values(call, operand, "sizes of at least 1", sizes)
        return
    expected = (None if sizes is None else sizes[0], count - 2, count - 1)
    if len(theta.shape) != len(expected) or not all(map(fits, theta.shape, expected)):
        yield wrong_shape(call, theta, f"matrices of shape {shape_text(expected)}")


_Heads = tuple["int | None", "int | None", "int | None"]
"""The number of heads, the length and the size of a head."""


def _heads(call: OperatorCall, position: int) -> _Heads | None:
    """Return the heads, length and head size of an input of Attention, or None.
    The result is None if its rank is unknown or its heads are not given.
    """
    shape = call.shape(position)
    if shape is None or len(shape) not in (3, 4):
        return None
    if len(shape) == 4:
        return shape[1], shape[2], shape[3]
    count = call.attributes.get("q_num_heads" if position == 0 else "kv_num_heads")
    size = shape[2]
    if not count or (size is not None and size % count):
        return None
    return count, shape[1], None if size is None else size // count


def _check_attention(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the inputs of an Attention."""
    for position, name in ((0, "q_num_heads"), (1, "kv_num_heads"), (2, "kv_num_heads")):
        shape, count = call.shape(position), call.attributes.get(name)
        if shape is not None and len(shape) == 3 and count:
            operand, size = call.input(position), shape[2]
            if size is not None and size % count and operand is not None:
                yield wrong_shape(call, operand, f"a last axis that {count} heads divide")
                return
    query, key, value = (_heads(call, position) for position in range(3))
    operands = [call.input(position) for position in range(3)]
    first, keys, values = operands
    if first is None or keys is None or values is None:
        return
    for operand in (keys, values):
        if first.shape is None or operand.shape is None:
            continue
        if len(operand.shape) != len(first.shape):
            yield wrong_rank(call, operand, f"rank {len(first.shape)}, like its query")
            return
        if first.shape and not fits(operand.shape[0], first.shape[0]):
            yield wrong_shape(call, operand, f"a batch of {first.shape[0]}, like its query")
            return
    if query is None or key is None or value is None:
        return
    if not fits(key[2], query[2]):
        yield wrong_shape(call, keys, f"heads of {query[2]} elements, like its query")
    elif not fits(value[1], key[1]) or not fits(value[0], key[0]):
        yield wrong_shape(call, values, f"{key[0]} heads and {key[1]} positions, like its key")
    elif query[0] is not None and key[0] and query[0] % key[0]:
        yield wrong_shape(call, keys, f"a number of heads that divides {query[0]}")
    else:
        yield from _check_past(call, key, value)
        yield from _check_mask(call, query, key)


_PAST_KEY, _PAST_VALUE = 4, 5


def _check_past(call: OperatorCall, key: _Heads, value: _Heads) -> Iterator[Violation]:
    """Yield a violation if an Attention has one past input only,
    or one that it cannot join with its keys or values."""
    past_key, past_value = call.input(_PAST_KEY), call.input(_PAST_VALUE)
    if (past_key is None) != (past_value is None):
        single_input = past_key or past_value
        assert single_input is not None
        actual = f"it has only {single_input.name!r}"
        yield Violation(
            call.op, "past_key and past_value, or neither", actual, SHAPE, single_input.name
        )
        return
    batch, length = dim_of(call, 0, 0), dim_of(call, _PAST_KEY, 2)
    for operand, (heads, _, size), name in ((past_key, key, "keys"), (past_value, value, "values")):
        if operand is None or operand.shape is None:
            continue
        text = ""
        if not is_shape(operand.shape, (None, heads, None, size)):
            text = f"past {name} of {heads} heads of {size} elements, like its {name}"
        elif not fits(operand.shape[0], batch):
            text = f"past {name} of a batch of {batch}, like its query"
        elif not fits(operand.shape[2], length):
            text = f"past values of length {length}, like past_key"
        if text:
            yield wrong_shape(call, operand, text)
            return


def _check_mask(call: OperatorCall, query: _Heads, key: _Heads) -> Iterator[Violation]:
    """Yield a violation unless the mask of an Attention broadcasts to its weights.
    A mask may be shorter than the keys.
    """
    mask = call.input(3)
    past, keys = dim_of(call, _PAST_KEY, 2), key[1]
    if mask is None or mask.shape is None or not mask.shape:
        return
    is_open = keys is None or (call.input(_PAST_KEY) is not None and past is None)
    total = None if is_open or keys is None else keys + (past or 0)
    last = mask.shape[-1]
    is_longer = total is not None and last is not None and last > total
    if is_longer or not broadcasts_to(mask.shape, (dim_of(call, 0, 0), query[0], query[1], None)):
        expected = (dim_of(call, 0, 0), query[0], query[1], total)
        yield wrong_shape(call, mask, f"a mask that broadcasts to {shape_text(expected)}")


def _check_rotation(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the head size and the caches of a RotaryEmbedding."""
    shape, data = call.shape(0), call.input(0)
    if shape is None or data is None:
        return
    heads = call.attributes.get("num_heads") or 0
    size = shape[-1] if len(shape) == 4 else None
    if len(shape) == 3 and heads and shape[-1] is not None:
        size = shape[-1] // heads
    part = call.attributes.get("rotary_embedding_dim") or 0
    if size is not None and part > size:
        text = f"a rotary_embedding_dim of at most {size}, the size of a head"
        yield wrong_attribute(call, "rotary_embedding_dim", text)
        return
    if size is not None and size % 2:
        yield wrong_shape(call, data, "an even head size")
        return
    if len(shape) == 3 and heads and shape[-1] is not None and shape[-1] % heads:
        yield wrong_shape(call, data, f"a last axis that {heads} heads divide")
        return
    ids, second = call.input(3), call.input(2)
    length = shape[2] if len(shape) == 4 else shape[1] if len(shape) == 3 else None
    if ids is not None and ids.shape is not None and not is_shape(ids.shape, (shape[0], length)):
        text = f"position ids of shape {shape_text((shape[0], length))}"
        yield wrong_shape(call, ids, text)
        return
    wanted, actual = call.shape(1), call.shape(2)
    if second is not None and wanted and actual and not is_shape(actual, wanted):
        yield wrong_shape(call, second, f"the shape of cos_cache {shape_text(wanted)}")
        return
    half = part // 2 if part else None if size is None else size // 2
    rank = 2 if call.input(3) is not None else 3
    for position in (1, 2):
        cache = call.input(position)
        if cache is None or cache.shape is None:
            continue
        if len(cache.shape) != rank or not fits(cache.shape[-1], half):
            text = f"a cache of rank {rank} with {half} elements on its last axis"
            yield wrong_shape(call, cache, text)
            return


def _window_shape(axis: int) -> Callable[[OperatorCall], tuple[int | None, ...] | None]:
    """Return a function that returns the shape of a vector with an element for each index
    of an axis of the first input.
    """
    return lambda call: None if call.shape(0) is None else (dim_of(call, 0, axis),)


_SIZED = (scalar_rule(0), _positive_rule(0, "a size", 0))

SIGNAL_RULES: dict[str, tuple[Rule, ...]] = {
    "DFT": (_check_components, scalar_rule(1), _positive_rule(1, "a dft_length")),
    "STFT": (
        scalar_rule(1, 3),
        _positive_rule(1, "a frame_step"),
        _positive_rule(3, "a frame_length"),
        _check_frames,
        _check_sides,
    ),
    "HannWindow": _SIZED,
    "HammingWindow": _SIZED,
    "BlackmanWindow": _SIZED,
    "MelWeightMatrix": (
        scalar_rule(0, 1, 2, 3, 4),
        _positive_rule(0, "num_mel_bins"),
        _positive_rule(1, "a dft_length"),
        _positive_rule(2, "a sample_rate"),
        _check_bands,
    ),
    "AffineGrid": (_check_affine_grid,),
    "Attention": (_check_attention,),
    "RotaryEmbedding": (_check_rotation,),
    "TensorScatter": (shape_rule(2, "the positions", _window_shape(0)),),
}
"""The rules by operator."""
