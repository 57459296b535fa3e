"""RNN, GRU and LSTM, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from polygraphy.adapters.onnx_common.elementwise import Array, Results, round_like, to_float64

_Function: TypeAlias = Callable[[Array], Array]

# The function of an activation, and the defaults of its constants.
_ACTIVATIONS: dict[str, tuple[Callable[..., Array], tuple[float, ...]]] = {
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "elu": (lambda x, a: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))), (1.0,)),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
    "leakyrelu": (lambda x, a: np.where(x >= 0, x, a * x), (0.01,)),
    "relu": (lambda x: np.maximum(x, 0), ()),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "sigmoid": (lambda x: 0.5 * (1 + np.tanh(0.5 * x)), ()),
    "softplus": (lambda x: np.logaddexp(x, 0), ()),
    "softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "tanh": (np.tanh, ()),
    "thresholdedrelu": (lambda x, a: np.where(x > a, x, 0), (1.0,)),
}


def _activation_functions(
    names: Sequence[str],
    count: int,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    clip: float | None,
) -> list[_Function]:
    """Return the activation functions of all directions, with their constants in order.
    As in ONNX Runtime, the third function of a direction, for the cell state, is not clipped."""
    constants: tuple[Iterator[float], ...] = (iter(alphas or ()), iter(betas or ()))
    activation_functions = []
    for number, name in enumerate(names):
        if name.lower() not in _ACTIVATIONS:
            raise ValueError(f"activation {name!r} is unknown")
        function, defaults = _ACTIVATIONS[name.lower()]
        used_values = [
            float(next(constant, default)) for constant, default in zip(constants, defaults)
        ]
        is_of_cell = count == 3 and number % 3 == 2
        activation_functions.append(
            _clip_input(function, used_values, None if is_of_cell else clip)
        )
    return activation_functions


def _clip_input(
    function: Callable[..., Array], constants: Sequence[float], clip: float | None
) -> _Function:
    """Return a function that clips its input, and passes constants."""

    def call(x: Array) -> Array:
        """Return the function of an array with clipped values."""
        return function(np.clip(x, -clip, clip) if clip else x, *constants)

    return call


_Step: TypeAlias = Callable[[int, Array, list[Array], list[_Function]], list[Array]]


def _unroll(
    x: Array,
    r: Array,
    lengths: Array | None,
    states: Sequence[Array | None],
    step: _Step,
    default: Sequence[str],
    *,
    direction: str = "forward",
    layout: int = 0,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    **_: Any,
) -> list[Array]:
    """Return Y [T, D, N, H] and the last states [D, N, H], with N first if `layout` is 1.

    Args:
        x: the input [T, N, I], or [N, T, I].
        r: the recurrent weights [D, ., H].
        lengths: of each sequence; all of them where there are none.
        states: the first ones, or None for zeros.
        step: takes the direction, the elements of one moment and the states, and returns the new
            ones; the first is what comes out.
        default: the activations of one direction.
    """
    values = to_float64(x).swapaxes(0, 1) if layout else to_float64(x)
    (steps, batch), (directions, hidden) = values.shape[:2], (r.shape[0], r.shape[2])
    functions = _activation_functions(
        activations or [*default] * directions,
        len(default),
        activation_alpha,
        activation_beta,
        clip,
    )
    ends = np.full(batch, steps) if lengths is None else np.asarray(lengths).astype(int)
    array = np.zeros((steps, directions, batch, hidden))
    last = []
    for state in states:
        first = np.zeros((directions, batch, hidden)) if state is None else to_float64(state)
        last.append(first.swapaxes(0, 1).copy() if layout and state is not None else first)
    for way in range(directions):
        now = [state[way] for state in last]
        own_functions = functions[way * len(default) : (way + 1) * len(default)]
        is_backward = way == 1 or direction == "reverse"
        for moment in range(steps):
            # In reverse direction, a sequence starts at its own end.
            last_first = np.where(ends > moment, ends - 1 - moment, 0)
            at = last_first if is_backward else np.full(batch, moment)
            new = step(way, values[at, np.arange(batch)], now, own_functions)
            runs = (moment < ends)[:, None]
            now = [np.where(runs, after, before) for after, before in zip(new, now)]
            rows = np.flatnonzero(moment < ends)
            array[at[rows], way, rows] = now[0][rows]
        for state, value in zip(last, now):
            state[way] = value
    if layout:
        return [array.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in last)]
    return [array, *last]


def _gates(matrix: Array | None, count: int, shape: tuple[int, ...]) -> list[Array]:
    """Return weights or biases [D, count * H, ...] split by gate."""
    array = np.zeros(shape) if matrix is None else to_float64(matrix)
    return np.split(array, count, axis=1)


def _round_outputs(arrays: Sequence[Array], x: Array, outputs: int) -> Results:
    """Return the first outputs in the data type of x."""
    return tuple(round_like(value, x) for value in arrays[:outputs])


def rnn(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    outputs: int,
    **attributes: Any,
) -> Results:
    """Return Y and Y_h of H = f(X W' + H R' + b)."""
    weights, back = to_float64(w), to_float64(r)
    hidden = r.shape[2]
    biases = np.add(*_gates(b, 2, (len(w), 2 * hidden)))

    def step(
        direction: int, now: Array, states: list[Array], functions: list[_Function]
    ) -> list[Array]:
        """Return the next states of one direction."""
        return [
            functions[0](
                now @ weights[direction].T + states[0] @ back[direction].T + biases[direction]
            )
        ]

    unroll = _unroll(x, r, sequence_lens, [initial_h], step, ["Tanh"], **attributes)
    return _round_outputs(unroll, x, outputs)


def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    outputs: int,
    linear_before_reset: int = 0,
    **attributes: Any,
) -> Results:
    """Return Y and Y_h; the gates are update, reset and hidden."""
    hidden = r.shape[2]
    wz, wr, wh = _gates(w, 3, ())
    rz, rr, rh = _gates(r, 3, ())
    bz, br, bh, cz, cr, ch = _gates(b, 6, (len(w), 6 * hidden))

    def step(
        direction: int, now: Array, states: list[Array], functions: list[_Function]
    ) -> list[Array]:
        """Return the next states of one direction."""
        (old,), (f, g) = states, functions
        update = f(now @ wz[direction].T + old @ rz[direction].T + bz[direction] + cz[direction])
        reset = f(now @ wr[direction].T + old @ rr[direction].T + br[direction] + cr[direction])
        if linear_before_reset:
            recalled = reset * (old @ rh[direction].T + ch[direction])
        else:
            recalled = (reset * old) @ rh[direction].T + ch[direction]
        proposed = g(now @ wh[direction].T + recalled + bh[direction])
        return [(1 - update) * proposed + update * old]

    unroll = _unroll(x, r, sequence_lens, [initial_h], step, ["Sigmoid", "Tanh"], **attributes)
    return _round_outputs(unroll, x, outputs)


def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    *,
    outputs: int,
    input_forget: int = 0,
    **attributes: Any,
) -> Results:
    """Return Y, Y_h and Y_c; the gates are input, output, forget and cell."""
    hidden = r.shape[2]
    wi, wo, wf, wc = _gates(w, 4, ())
    ri, ro, rf, rc = _gates(r, 4, ())
    halves = _gates(b, 8, (len(w), 8 * hidden))
    bi, bo, bf, bc = (first + second for first, second in zip(halves[:4], halves[4:]))
    pi, po, pf = _gates(p, 3, (len(w), 3 * hidden))

    def step(
        direction: int, now: Array, states: list[Array], functions: list[_Function]
    ) -> list[Array]:
        """Return the next states of one direction."""
        (old, cell), (f, g, h) = states, functions
        forget_gate = f(
            now @ wi[direction].T + old @ ri[direction].T + pi[direction] * cell + bi[direction]
        )
        array = f(
            now @ wf[direction].T + old @ rf[direction].T + pf[direction] * cell + bf[direction]
        )
        if input_forget:
            array = 1 - forget_gate
        new = array * cell + forget_gate * g(
            now @ wc[direction].T + old @ rc[direction].T + bc[direction]
        )
        out = f(now @ wo[direction].T + old @ ro[direction].T + po[direction] * new + bo[direction])
        return [out * h(new), new]

    default = ["Sigmoid", "Tanh", "Tanh"]
    unroll = _unroll(x, r, sequence_lens, [initial_h, initial_c], step, default, **attributes)
    return _round_outputs(unroll, x, outputs)
