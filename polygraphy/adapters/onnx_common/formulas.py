"""Formulas of the ONNX standard in float64, to decide between two implementations of an operator.

They are written from the standard, apart from the operators beside them, and are not quick. A
formula takes the inputs of a node, floating-point numbers in float64, its attributes by name with
their defaults, and `opset`, the version of its operator; it returns its result, or all that it
makes. What is not here, or an operator means in a rare form, cannot be decided:
NotImplementedError.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common import moving
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.precision import is_float

Formula = Callable[..., Array]

_erf = np.vectorize(math.erf, otypes=[np.float64])
_NEW_SOFTMAX = 13
_BROADCASTS = 7
_FLAT_SIGNAL = 2
_LONGEST_FRAME = 4096
"""Samples of a frame; the table of waves has its square. Chosen, not measured."""


def _unary_formula(function: Callable[..., Any]) -> Formula:
    """Return a formula that applies a function to one operand."""
    return lambda x, **_: np.asarray(function(x))


def _binary_formula(function: Callable[..., Any]) -> Formula:
    """Return a formula that applies a function to two operands, with today's broadcasting."""

    def call(x: Array, y: Array, *, opset: int, **_: Any) -> Array:
        """Return the result of the function on two broadcast arrays."""
        if opset < _BROADCASTS:
            raise NotImplementedError("broadcasting before opset 7")
        return np.asarray(function(x, y))

    return call


def _divide(x: Array, y: Array) -> Array:
    """Return the quotient; integers are rounded towards zero."""
    if is_float(x):
        return np.asarray(x / y)
    if not y.all():
        raise NotImplementedError("integer division by zero")
    return np.asarray(np.sign(x) * np.sign(y) * (abs(x) // abs(y)))


def _power(x: Array, y: Array) -> Array:
    """Return x to the power of y, for floating-point x only."""
    if not is_float(x):
        raise NotImplementedError("powers of integers")
    return np.asarray(np.power(x, y))


def _variadic_formula(function: Callable[[Array, Array], Array]) -> Formula:
    """Return a formula that combines any number of operands, from the first on."""

    def call(*inputs: Array, **_: Any) -> Array:
        """Return the result of the function, applied to all inputs in turn."""
        array = inputs[0]
        for input_name in inputs[1:]:
            array = function(array, input_name)
        return array

    return call


def _mean(*inputs: Array, **_: Any) -> Array:
    """Return the mean of all operands."""
    return np.asarray(sum(inputs) / len(inputs))


def _gelu(x: Array, *, approximate: Any = "none", **_: Any) -> Array:
    """Return x times the probability that a normal variable is below it, or its tanh
    approximation."""
    if approximate in ("tanh", b"tanh"):
        tanh = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        return np.asarray(0.5 * x * (1 + tanh))
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def _clip(x: Array, *bounds: Any, **attributes: Any) -> Array:
    """Return the elements limited to a range."""
    low, high = [*bounds, None, None][:2]
    low = attributes.get("min") if low is None else low
    high = attributes.get("max") if high is None else high
    array = x if low is None else np.maximum(x, low)
    return array if high is None else np.minimum(array, high)


def _reduction_formula(function: Callable[..., Any]) -> Formula:
    """Return a formula that reduces axes by a function."""

    def call(x: Array, axes_input: Any = None, *, axes: Any = None, **attributes: Any) -> Array:
        """Return the array reduced along the axes of an attribute or an input."""
        chosen = axes if axes_input is None else axes_input
        if not x.size:
            raise NotImplementedError("a reduction of an empty tensor")
        over = None if chosen is None or not len(chosen) else tuple(int(a) for a in chosen)
        if over is None and attributes.get("noop_with_empty_axes"):
            over = ()  # Without axes to reduce, the result has the shape of the input.
        array = np.asarray(function(x, axis=over, keepdims=bool(attributes.get("keepdims", 1))))
        # NumPy adds integers in 64 bits; converted to their own type, they wrap around.
        return array.astype(x.dtype) if array.dtype.kind in "iu" else array

    return call


def _log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Any:
    """Return the logarithm of the sum of exponentials along an axis."""
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def _softmax_formula(function: Callable[[Array, int], Array]) -> Formula:
    """Return a formula of the softmax kind; before opset 13, all axes from one on count as one."""

    def call(x: Array, *, opset: int, axis: int | None = None, **_: Any) -> Array:
        """Return the result along an axis; in old opsets along all axes from it on."""
        if opset >= _NEW_SOFTMAX:
            return function(x, -1 if axis is None else axis)
        start = 1 if axis is None else axis % max(1, x.ndim)
        flat = x.reshape(int(np.prod(x.shape[:start])), -1)
        return np.asarray(function(flat, -1).reshape(x.shape))

    return call


def _softmax(x: Array, axis: int) -> Array:
    """Return exp(x) over its sum along an axis."""
    exp = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(exp / exp.sum(axis=axis, keepdims=True))


def _log_softmax(x: Array, axis: int) -> Array:
    """Return the logarithm of the softmax along an axis."""
    return np.asarray(x - _log_sum_exp(x, axis, True))


def _batch_normalization(
    x: Array, scale: Array, bias: Array, mean: Array, variance: Array, **attributes: Any
) -> Array:
    """Return x normalized by the given statistics."""
    if attributes.get("training_mode") or not attributes.get("spatial", 1):
        raise NotImplementedError("normalization in training mode")
    arrays = [array.reshape(1, -1, *[1] * (x.ndim - 2)) for array in (scale, bias, mean, variance)]
    spread = np.sqrt(arrays[3] + attributes["epsilon"])
    return np.asarray(arrays[0] * (x - arrays[2]) / spread + arrays[1])


def _center_values(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Return x minus its mean, over its standard deviation."""
    apart = x - x.mean(axis=axes, keepdims=True)
    return np.asarray(apart / np.sqrt(np.mean(apart**2, axis=axes, keepdims=True) + epsilon))


def _instance_normalization(
    x: Array, scale: Array, bias: Array, *, epsilon: float, **_: Any
) -> Array:
    """Return each channel of each sample normalized by its own statistics."""
    wide = (1, -1, *[1] * (x.ndim - 2))
    center_values = _center_values(x, tuple(range(2, x.ndim)), epsilon)
    return center_values * scale.reshape(wide) + bias.reshape(wide)


def _layer_normalization(
    x: Array, scale: Array, bias: Any = None, *, axis: int = -1, epsilon: float, **_: Any
) -> Array:
    """Return x normalized over the last axes."""
    layer_normalization = _center_values(x, tuple(range(axis % x.ndim, x.ndim)), epsilon) * scale
    return np.asarray(layer_normalization if bias is None else layer_normalization + bias)


def _rms_normalization(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float, **_: Any
) -> Array:
    """Return x over its root mean square along the last axes."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    return np.asarray(x / np.sqrt(np.mean(x**2, axis=axes, keepdims=True) + epsilon) * scale)


def _lrn(x: Array, *, size: int, alpha: float, beta: float, bias: float, **_: Any) -> Array:
    """Return x over a power of the sum of squares of the channels around each."""
    squares = np.zeros_like(x)
    before, after = (size - 1) // 2, math.ceil((size - 1) / 2)
    for channel in range(x.shape[1]):
        near = slice(max(0, channel - before), channel + after + 1)
        squares[:, channel] = np.sum(x[:, near] ** 2, axis=1)
    return np.asarray(x / (bias + alpha / size * squares) ** beta)


def _gemm(
    a: Array, b: Array, c: Any = None, *, alpha: float, beta: float, **attributes: Any
) -> Array:
    """Return alpha A' B' + beta C."""
    left = a.T if attributes.get("transA") else a
    right = b.T if attributes.get("transB") else b
    gemm = alpha * (left @ right)
    return np.asarray(gemm if c is None else gemm + beta * c)


def _dequantize(
    x: Array, scale: Array, zero: Any = None, *, axis: int = 1, **attributes: Any
) -> Array:
    """Return (x - zero point) times scale."""
    if attributes.get("block_size") or scale.ndim > 1:
        raise NotImplementedError("a scale for each block")
    if is_float(x):
        raise NotImplementedError("types with fewer than 8 bits")
    shape = [1] * x.ndim
    if scale.ndim and scale.size > 1:
        shape[axis] = -1
    start = 0 if zero is None else np.asarray(zero, np.float64).reshape(shape if scale.ndim else ())
    return (x.astype(np.float64) - start) * scale.reshape(shape if scale.ndim else ())


def _global_formula(function: Callable[..., Any]) -> Formula:
    """Return a formula that reduces all spatial axes by a function."""

    def call(x: Array, **_: Any) -> Array:
        """Return the result over all axes but the first two."""
        return np.asarray(function(x, axis=tuple(range(2, x.ndim)), keepdims=True))

    return call


def _global_lp_pool(x: Array, *, p: float = 2, **_: Any) -> Array:
    """Return the p-norm of each channel."""
    total = np.sum(abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True)
    return np.asarray(total ** (1 / p))


def _stft(
    signal: Array,
    frame_step: Array,
    window: Any = None,
    frame_length: Any = None,
    *,
    onesided: int = 1,
    **_: Any,
) -> Array:
    """Return the sum of each frame times its window and the waves of each frequency,
    with real and imaginary parts on the last axis.
    """
    parts = signal[..., None] if signal.ndim == _FLAT_SIGNAL else signal
    length = len(window) if frame_length is None else int(np.reshape(frame_length, ()))
    if length > _LONGEST_FRAME:
        raise NotImplementedError("long frames")
    samples = parts[..., 0] if parts.shape[-1] == 1 else parts[..., 0] + 1j * parts[..., 1]
    starts = np.arange(0, samples.shape[1] - length + 1, int(np.reshape(frame_step, ())))
    frames = samples[:, starts[:, None] + np.arange(length)]
    # Omit full turns, because the sine of a large angle is less precise.
    turns = np.outer(np.arange(length), np.arange(length // 2 + 1 if onesided else length)) % length
    waves = np.exp(-2j * np.pi / length * turns)
    spectrum = (frames if window is None else frames * window) @ waves
    return np.stack([spectrum.real, spectrum.imag], -1)


def _transpose_formula(x: Array, *, perm: Sequence[int] | None = None, **_: Any) -> Array:
    """Return the transposed array."""
    return np.transpose(x, perm)


def _concat_formula(*inputs: Array, axis: int, **_: Any) -> Array:
    """Return the concatenated arrays."""
    return np.concatenate(inputs, axis)


def _gather_formula(x: Array, indices: Array, *, axis: int = 0, **_: Any) -> Array:
    """Return the elements at indices along an axis."""
    return np.take(x, indices, axis)


def _sigmoid_formula(x: Array) -> Array:
    """Return the logistic function of an array."""
    return np.asarray(1 / (1 + np.exp(-x)))


_UNARY: Mapping[str, str] = {
    "Abs": "abs", "Acos": "arccos", "Acosh": "arccosh", "Asin": "arcsin",
    "Asinh": "arcsinh", "Atan": "arctan", "Atanh": "arctanh", "Ceil": "ceil",
    "Cos": "cos", "Cosh": "cosh", "Exp": "exp", "Floor": "floor", "Log": "log",
    "Neg": "negative", "Not": "logical_not", "Reciprocal": "reciprocal", "Round": "rint",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan",
    "Tanh": "tanh", "IsNaN": "isnan", "Identity": "array",
}  # fmt: skip
_BINARY: Mapping[str, Callable[..., Any]] = {
    "Add": np.add, "And": np.logical_and, "Div": _divide, "Equal": np.equal,
    "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less,
    "LessOrEqual": np.less_equal, "Mul": np.multiply, "Or": np.logical_or,
    "PRelu": lambda x, slope: np.where(x < 0, slope * x, x), "Pow": _power,
    "Sub": np.subtract, "Xor": np.logical_xor,
}  # fmt: skip
_REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "L1": lambda x, **how: np.sum(abs(x), **how),
    "L2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "LogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "LogSumExp": _log_sum_exp, "Max": np.max, "Mean": np.mean, "Min": np.min,
    "Prod": np.prod, "Sum": np.sum, "SumSquare": lambda x, **how: np.sum(x * x, **how),
}  # fmt: skip

Formulas = Mapping[str, Callable[..., Any]]
_Functions = Sequence[Callable[[Array], Array]]

_CONSTANTS: Mapping[str, tuple[float | None, float | None]] = {
    "Affine": (1.0, 0.0), "Elu": (1.0, None), "HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01, None),
    "Relu": (None, None), "ScaledTanh": (1.0, 1.0), "Sigmoid": (None, None),
    "Softplus": (None, None), "Softsign": (None, None), "Tanh": (None, None),
    "ThresholdedRelu": (1.0, None),
}  # fmt: skip
"""Default parameters of an activation; None for parameters that it does not have."""
_USUAL: Mapping[str, Sequence[str]] = {
    "RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"],
}  # fmt: skip
_CUBIC = -0.75


def recurrent_formula(op: str, formulas: Formulas) -> Callable[..., Any]:
    """Return the formula of a recurrent operator, whose activations are formulas too."""

    def call(
        x: Array,
        w: Array,
        r: Array,
        b: Any = None,
        lengths: Any = None,
        *first: Any,
        **attributes: Any,
    ) -> tuple[Array, ...]:
        """Return the outputs and final states of the recurrent operator."""
        turned = np.moveaxis(x, 1, 0) if attributes.get("layout") else x
        (steps, batch, _), (directions, _, size) = turned.shape, r.shape
        states = [*first, None, None, None][:3]
        if op == "LSTM" and attributes.get("clip"):
            raise NotImplementedError("clipping inside a cell")
        functions = _functions(op, formulas, directions, attributes)
        peepholes = (
            np.zeros((directions, 3 * size)) if states[2] is None or op != "LSTM" else states[2]
        )
        arrays = [
            (
                np.zeros((batch, directions, size))
                if state is None
                else state if attributes.get("layout") else np.moveaxis(state, 1, 0)
            )
            for state in states[:2]
        ]
        array = np.zeros((batch, steps, directions, size))
        ends = [np.zeros((batch, directions, size)) for _ in arrays]
        for sample, direction in itertools.product(range(batch), range(directions)):
            count = steps if lengths is None else int(lengths[sample])
            is_backward = direction == 1 or attributes.get("direction") in ("reverse", b"reverse")
            bias = np.zeros(2 * len(w[direction])) if b is None else b[direction]
            cell = (w[direction], r[direction], bias, peepholes[direction])
            now = [state[sample, direction] for state in arrays]
            for moment in range(count)[:: -1 if is_backward else 1]:
                now = _CELLS[op](
                    turned[moment, sample], now, cell, functions[direction], attributes
                )
                array[sample, moment, direction] = now[0]
            for end, value in zip(ends, now):
                end[sample, direction] = value
        results = [array, *ends[: 2 if op == "LSTM" else 1]]
        if attributes.get("layout"):
            return tuple(results)
        return (array.transpose(1, 2, 0, 3), *(end.swapaxes(0, 1) for end in results[1:]))

    return call


def _functions(
    op: str, formulas: Formulas, directions: int, attributes: Mapping[str, Any]
) -> list[_Functions]:
    """Return the activations of each direction; constants go to those that take any, in order."""
    names = attributes.get("activations") or [*_USUAL[op]] * directions
    alphas, betas = (iter(attributes.get(f"activation_{name}") or ()) for name in ("alpha", "beta"))
    clip = attributes.get("clip")
    functions = []
    for text in names:
        word = text.decode() if isinstance(text, bytes) else text
        name = next((constant for constant in _CONSTANTS if constant.lower() == word.lower()), "")
        if not name:
            raise NotImplementedError(f"the activation {word}")
        alpha, beta = _CONSTANTS[name]
        alpha = alpha if alpha is None else float(next(alphas, alpha))
        beta = beta if beta is None else float(next(betas, beta))
        functions.append(_activation(formulas, name, alpha, beta, clip))
    count = len(_USUAL[op])
    return [
        functions[direction * count : (direction + 1) * count] for direction in range(directions)
    ]


def _activation(
    formulas: Formulas, name: str, alpha: Any, beta: Any, clip: Any
) -> Callable[[Array], Array]:
    """Return an activation as a function, with its constants and the clip limit."""

    def call(x: Array) -> Array:
        """Return the activation of an array."""
        bounded = np.minimum(np.maximum(x, -clip), clip) if clip else x
        if name == "Affine":
            return np.asarray(alpha * bounded + beta)
        if name == "ScaledTanh":
            return np.asarray(alpha * np.tanh(beta * bounded))
        constants = {} if alpha is None else {"alpha": alpha, "beta": beta}
        return np.asarray(formulas[name](bounded, opset=1, **constants))

    return call


def _rnn(x: Array, now: Any, cell: Any, functions: _Functions, attributes: Any) -> list[Array]:
    """Return the next state of an RNN cell, and its unused second state."""
    w, r, b, _ = cell
    size = len(now[0])
    return [functions[0](w @ x + r @ now[0] + b[:size] + b[size:]), now[1]]


def _gru(x: Array, now: Any, cell: Any, functions: _Functions, attributes: Any) -> list[Array]:
    """Return the next state of a GRU cell, and its unused second state."""
    w, r, b, _ = cell
    (f, g), (old, unused), size = functions, now, len(now[0])
    read, back = w @ x + b[: 3 * size], b[3 * size :]
    z, s, h = (slice(gate * size, (gate + 1) * size) for gate in range(3))
    update = f(read[z] + r[z] @ old + back[z])
    reset = f(read[s] + r[s] @ old + back[s])
    if attributes.get("linear_before_reset"):
        proposed = g(read[h] + reset * (r[h] @ old + back[h]))
    else:
        proposed = g(read[h] + r[h] @ (reset * old) + back[h])
    return [proposed - update * proposed + update * old, unused]


def _lstm(x: Array, now: Any, cell: Any, functions: _Functions, attributes: Any) -> list[Array]:
    """Return the next hidden and cell states of an LSTM cell."""
    w, r, b, p = cell
    (f, g, h), (old, state), size = functions, now, len(now[0])
    gates = w @ x + r @ old + b[: 4 * size] + b[4 * size :]
    input_gate, out, forget, new = (gates[gate * size : (gate + 1) * size] for gate in range(4))
    entering = f(input_gate + p[:size] * state)
    staying = 1 - entering if attributes.get("input_forget") else f(forget + p[2 * size :] * state)
    inside = staying * state + entering * g(new)
    return [f(out + p[size : 2 * size] * inside) * h(inside), inside]


_CELLS: Mapping[str, Callable[..., list[Array]]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def grid_sample(
    x: Array,
    grid: Array,
    *,
    mode: Any = "linear",
    padding_mode: Any = "zeros",
    align_corners: int = 0,
    **_: Any,
) -> Array:
    """Return the interpolation at the points of a grid, along one axis after the other.
    Points outside are moved inside first.
    """
    how, padding = (
        value.decode() if isinstance(value, bytes) else value for value in (mode, padding_mode)
    )
    rank = x.ndim - 2
    array = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    parts = []
    for axis, size in enumerate(x.shape[2:]):
        point = grid[..., rank - 1 - axis]
        at = (point + 1) * (size - 1) / 2 if align_corners else (point * size + size - 1) / 2
        ends = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        if not how.endswith("cubic"):
            at = _move_inside(at, size, ends, padding)
        parts.append(
            [(*_pixel(pixel, size, ends, padding), share) for pixel, share in _shares(at, how)]
        )
    for sample in range(len(x)):
        for corner in itertools.product(*parts):
            share: Any = 1.0
            for part in corner:
                share = share * np.where(part[1][sample], part[2][sample], 0.0)
            index = (slice(None), *(part[0][sample] for part in corner))
            array[sample] += x[sample][index] * share
    return array


def _shares(at: Array, mode: str) -> list[tuple[Array, Array]]:
    """Return the pixels around each point with their weights."""
    if mode == "nearest":
        return [(np.rint(at), np.ones_like(at))]
    below = np.floor(at)
    array = at - below
    if not mode.endswith("cubic"):
        return [(below, 1 - array), (below + 1, array)]
    a = _CUBIC
    outer, inner = 1 + array, array
    shares = []
    for distance in (outer, inner, 1 - inner, 2 - inner):
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((distance - 5) * distance + 8) * distance * a - 4 * a
        shares.append(np.where(distance <= 1, near, far))
    return [(below + step, share) for step, share in zip((-1, 0, 1, 2), shares)]


def _move_inside(at: Array, size: int, ends: tuple[float, float], padding: str) -> Array:
    """Return points that are moved inside by the padding mode."""
    if padding == "border":
        return np.minimum(np.maximum(at, 0), size - 1)
    return _reflect_positions(at, ends) if padding == "reflection" else at


def _reflect_positions(at: Array, ends: tuple[float, float]) -> Array:
    """Return positions reflected at both ends."""
    low, high = ends
    if high <= low:
        return np.full_like(at, low)
    turns, reflect_positions = np.divmod(np.abs(at - low), high - low)
    return np.where(turns % 2 == 0, low + reflect_positions, high - reflect_positions)


def _pixel(at: Array, size: int, ends: tuple[float, float], padding: str) -> tuple[Array, Array]:
    """Return each position's pixel index, maybe outside of the image, and whether it exists."""
    if not np.isfinite(at).all():
        raise NotImplementedError("coordinates that are NaN")
    if padding == "reflection":
        at = np.rint(_reflect_positions(at, ends))
    is_there = (at >= 0) & (at < size) if padding == "zeros" else np.ones(at.shape, bool)
    return np.clip(at, 0, size - 1).astype(np.int64), is_there


_SIMPLE: Mapping[str, Formula] = {
    **moving.FORMULAS,
    **{name: _unary_formula(getattr(np, function)) for name, function in _UNARY.items()},
    **{name: _binary_formula(function) for name, function in _BINARY.items()},
    **{f"Reduce{name}": _reduction_formula(function) for name, function in _REDUCTIONS.items()},
    "AveragePool": moving.average_pool,
    "BatchNormalization": _batch_normalization,
    "Celu": lambda x, alpha, **_: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)),
    "Clip": _clip,
    "Concat": _concat_formula,
    "Conv": moving.conv,
    "DequantizeLinear": _dequantize,
    "Elu": lambda x, alpha, **_: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
    "Erf": _unary_formula(_erf),
    "Gather": _gather_formula,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_formula(np.mean),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global_formula(np.max),
    "HardSigmoid": lambda x, alpha, beta, **_: np.clip(alpha * x + beta, 0, 1),
    "HardSwish": _unary_formula(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "InstanceNormalization": _instance_normalization,
    "LRN": _lrn,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": lambda x, alpha, **_: np.where(x < 0, alpha * x, x),
    "GridSample": grid_sample,
    "LogSoftmax": _softmax_formula(_log_softmax),
    "LpPool": moving.lp_pool,
    "MatMul": lambda x, y, **_: np.matmul(x, y),
    "Max": _variadic_formula(np.maximum),
    "MaxPool": moving.max_pool,
    "Mean": _mean,
    "Min": _variadic_formula(np.minimum),
    "Mish": _unary_formula(lambda x: x * np.tanh(np.logaddexp(0, x))),
    "RMSNormalization": _rms_normalization,
    "Relu": _unary_formula(lambda x: np.where(x < 0, 0, x).astype(x.dtype)),
    "Selu": lambda x, alpha, gamma, **_: gamma
    * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "STFT": _stft,
    "Sigmoid": _unary_formula(_sigmoid_formula),
    "Softmax": _softmax_formula(_softmax),
    "Softplus": _unary_formula(lambda x: np.logaddexp(0, x)),
    "Softsign": _unary_formula(lambda x: x / (1 + abs(x))),
    "Sum": _variadic_formula(np.add),
    "ThresholdedRelu": lambda x, alpha, **_: np.where(x > alpha, x, 0),
    "Transpose": _transpose_formula,
    "Where": lambda condition, x, y, **_: np.where(condition, x, y),
}  # fmt: skip
_RECURRENT = {op: recurrent_formula(op, _SIMPLE) for op in ("RNN", "GRU", "LSTM")}

FORMULAS: Mapping[str, Formula] = {**_SIMPLE, **_RECURRENT, **moving.TYPED}
"""Formulas by standard operator."""
TYPED = frozenset(moving.TYPED)
"""Those whose results have a type of their own."""
