"""Formulas of RNN, GRU and LSTM, one sequence at a time, and of GridSample; see
`polygraphy.adapters.onnx_common.formulas`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.tensors.aliases import Array

Formulas = Mapping[str, Callable[..., Any]]
_Functions = Sequence[Callable[[Array], Array]]

_CONSTANTS: Mapping[str, tuple[float | None, float | None]] = {
    "Affine": (1.0, 0.0), "Elu": (1.0, None), "HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01, None),
    "Relu": (None, None), "ScaledTanh": (1.0, 1.0), "Sigmoid": (None, None),
    "Softplus": (None, None), "Softsign": (None, None), "Tanh": (None, None),
    "ThresholdedRelu": (1.0, None),
}  # fmt: skip
"""What an activation takes, where nothing is given; None of what it does not take."""
_USUAL: Mapping[str, Sequence[str]] = {
    "RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"],
}  # fmt: skip
_CUBIC = -0.75


def recurrent(op: str, known: Formulas) -> Callable[..., Any]:
    """Return the formula of a recurrent operator, whose activations are formulas themselves."""

    def call(
        x: Array, w: Array, r: Array, b: Any = None, lengths: Any = None, *first: Any, **given: Any
    ) -> tuple[Array, ...]:
        turned = np.moveaxis(x, 1, 0) if given.get("layout") else x
        (steps, batch, _), (ways, _, size) = turned.shape, r.shape
        states = [*first, None, None, None][:3]
        if op == "LSTM" and given.get("clip"):
            raise NotImplementedError("what of a cell is clipped")
        functions = _functions(op, known, ways, given)
        peepholes = np.zeros((ways, 3 * size)) if states[2] is None or op != "LSTM" else states[2]
        held = [
            (
                np.zeros((batch, ways, size))
                if state is None
                else state if given.get("layout") else np.moveaxis(state, 1, 0)
            )
            for state in states[:2]
        ]
        made = np.zeros((batch, steps, ways, size))
        ends = [np.zeros((batch, ways, size)) for _ in held]
        for sample, way in itertools.product(range(batch), range(ways)):
            count = steps if lengths is None else int(lengths[sample])
            is_backward = way == 1 or given.get("direction") in ("reverse", b"reverse")
            bias = np.zeros(2 * len(w[way])) if b is None else b[way]
            cell = (w[way], r[way], bias, peepholes[way])
            now = [state[sample, way] for state in held]
            for moment in range(count)[:: -1 if is_backward else 1]:
                now = _CELLS[op](turned[moment, sample], now, cell, functions[way], given)
                made[sample, moment, way] = now[0]
            for end, value in zip(ends, now):
                end[sample, way] = value
        results = [made, *ends[: 2 if op == "LSTM" else 1]]
        if given.get("layout"):
            return tuple(results)
        return (made.transpose(1, 2, 0, 3), *(end.swapaxes(0, 1) for end in results[1:]))

    return call


def _functions(op: str, known: Formulas, ways: int, given: Mapping[str, Any]) -> list[_Functions]:
    """Return the activations of each direction; constants go to those that take some, in order."""
    names = given.get("activations") or [*_USUAL[op]] * ways
    alphas, betas = (iter(given.get(f"activation_{name}") or ()) for name in ("alpha", "beta"))
    clip = given.get("clip")
    made = []
    for text in names:
        word = text.decode() if isinstance(text, bytes) else text
        name = next((each for each in _CONSTANTS if each.lower() == word.lower()), "")
        if not name:
            raise NotImplementedError(f"the activation {word}")
        alpha, beta = _CONSTANTS[name]
        alpha = alpha if alpha is None else float(next(alphas, alpha))
        beta = beta if beta is None else float(next(betas, beta))
        made.append(_activation(known, name, alpha, beta, clip))
    count = len(_USUAL[op])
    return [made[way * count : (way + 1) * count] for way in range(ways)]


def _activation(
    known: Formulas, name: str, alpha: Any, beta: Any, clip: Any
) -> Callable[[Array], Array]:
    def call(x: Array) -> Array:
        bounded = np.minimum(np.maximum(x, -clip), clip) if clip else x
        if name == "Affine":
            return np.asarray(alpha * bounded + beta)
        if name == "ScaledTanh":
            return np.asarray(alpha * np.tanh(beta * bounded))
        constants = {} if alpha is None else {"alpha": alpha, "beta": beta}
        return np.asarray(known[name](bounded, opset=1, **constants))

    return call


def _rnn(x: Array, now: Any, cell: Any, functions: _Functions, given: Any) -> list[Array]:
    w, r, b, _ = cell
    size = len(now[0])
    return [functions[0](w @ x + r @ now[0] + b[:size] + b[size:]), now[1]]


def _gru(x: Array, now: Any, cell: Any, functions: _Functions, given: Any) -> list[Array]:
    w, r, b, _ = cell
    (f, g), (old, unused), size = functions, now, len(now[0])
    read, back = w @ x + b[: 3 * size], b[3 * size :]
    z, s, h = (slice(gate * size, (gate + 1) * size) for gate in range(3))
    update = f(read[z] + r[z] @ old + back[z])
    reset = f(read[s] + r[s] @ old + back[s])
    if given.get("linear_before_reset"):
        proposed = g(read[h] + reset * (r[h] @ old + back[h]))
    else:
        proposed = g(read[h] + r[h] @ (reset * old) + back[h])
    return [proposed - update * proposed + update * old, unused]


def _lstm(x: Array, now: Any, cell: Any, functions: _Functions, given: Any) -> list[Array]:
    w, r, b, p = cell
    (f, g, h), (old, kept), size = functions, now, len(now[0])
    gates = w @ x + r @ old + b[: 4 * size] + b[4 * size :]
    taken, out, forget, new = (gates[gate * size : (gate + 1) * size] for gate in range(4))
    entering = f(taken + p[:size] * kept)
    staying = 1 - entering if given.get("input_forget") else f(forget + p[2 * size :] * kept)
    inside = staying * kept + entering * g(new)
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
    """Interpolate along one axis after the other, at points that are moved inside first."""
    how, padding = (
        each.decode() if isinstance(each, bytes) else each for each in (mode, padding_mode)
    )
    rank = x.ndim - 2
    made = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    parts = []
    for axis, size in enumerate(x.shape[2:]):
        point = grid[..., rank - 1 - axis]
        at = (point + 1) * (size - 1) / 2 if align_corners else (point * size + size - 1) / 2
        ends = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        if not how.endswith("cubic"):
            at = _inside(at, size, ends, padding)
        parts.append(
            [(*_pixel(pixel, size, ends, padding), share) for pixel, share in _shares(at, how)]
        )
    for sample in range(len(x)):
        for taken in itertools.product(*parts):
            share: Any = 1.0
            for part in taken:
                share = share * np.where(part[1][sample], part[2][sample], 0.0)
            place = (slice(None), *(part[0][sample] for part in taken))
            made[sample] += x[sample][place] * share
    return made


def _shares(at: Array, mode: str) -> list[tuple[Array, Array]]:
    """Return the pixels that a point is made of, and the share of each."""
    if mode == "nearest":
        return [(np.rint(at), np.ones_like(at))]
    below = np.floor(at)
    rest = at - below
    if not mode.endswith("cubic"):
        return [(below, 1 - rest), (below + 1, rest)]
    a = _CUBIC
    outer, inner = 1 + rest, rest
    shares = []
    for distance in (outer, inner, 1 - inner, 2 - inner):
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((distance - 5) * distance + 8) * distance * a - 4 * a
        shares.append(np.where(distance <= 1, near, far))
    return [(below + step, share) for step, share in zip((-1, 0, 1, 2), shares)]


def _inside(at: Array, size: int, ends: tuple[float, float], padding: str) -> Array:
    if padding == "border":
        return np.minimum(np.maximum(at, 0), size - 1)
    return _reflected(at, ends) if padding == "reflection" else at


def _reflected(at: Array, ends: tuple[float, float]) -> Array:
    low, high = ends
    if high <= low:
        return np.full_like(at, low)
    turns, rest = np.divmod(np.abs(at - low), high - low)
    return np.where(turns % 2 == 0, low + rest, high - rest)


def _pixel(at: Array, size: int, ends: tuple[float, float], padding: str) -> tuple[Array, Array]:
    """Return which pixel stands for one that may lie outside, and whether there is one."""
    if not np.isfinite(at).all():
        raise NotImplementedError("points that are no numbers")
    if padding == "reflection":
        at = np.rint(_reflected(at, ends))
    is_there = (at >= 0) & (at < size) if padding == "zeros" else np.ones(at.shape, bool)
    return np.clip(at, 0, size - 1).astype(np.int64), is_there
