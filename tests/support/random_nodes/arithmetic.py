"""Random nodes of operators that compute; see `windows` for what the functions return."""

import numpy as np

from tests.support.random_nodes.values import (
    FLOAT,
    INTEGERS,
    a_shape,
    an_axis,
    array,
    broadcastable,
    chance,
    choice,
)


def gemm(rng, opset):
    """Return random inputs, attributes and the number of outputs of Gemm."""
    m, k, n = (int(x) for x in rng.integers(1, 5, 3))
    ta, tb = (int(chance(rng)), int(chance(rng)))
    attrs = {"transA": ta, "transB": tb}
    if chance(rng):
        attrs.update(alpha=0.5, beta=0.3)
    dt = (
        FLOAT
        if opset < 9 or chance(rng, 0.7)
        else choice(rng, np.float64, np.int32) if opset >= 9 else FLOAT
    )
    if dt == np.int32:
        dt = np.float64
    x = [array(rng, (k, m) if ta else (m, k), dt), array(rng, (n, k) if tb else (k, n), dt)]
    if opset < 11 or chance(rng, 0.7):
        c = (
            choice(rng, (m, n), (n,), (1, n), (m, 1), (1,), (1, 1))
            if opset >= 7
            else choice(rng, (m, n), (n,), (1,))
        )
        if opset < 7 and c != (m, n):
            attrs["broadcast"] = 1
        if opset < 7 and c != (m, n):
            c = choice(rng, (n,), (1,))
        x.append(array(rng, c, dt))
    return (x, attrs, 1)


def binary(rng, opset, ints=True, nz=False, lo=-5):
    """Return random inputs, attributes and the number of outputs of Add and the like."""
    dims = a_shape(rng, 1, 4)
    t = dims if chance(rng, 0.3) else broadcastable(rng, dims)
    dts = [FLOAT, FLOAT, np.float64]
    if ints:
        dts += [np.int32, np.int64] if opset < 14 else [*INTEGERS, np.uint8, np.uint32, np.uint64]
    dt = choice(rng, *dts)
    low = 0 if np.dtype(dt).kind == "u" else lo
    x, y = (array(rng, dims, dt, low, 9), array(rng, t, dt, low, 9))
    if nz:
        y[y == 0] = 1
    attrs = {}
    if opset < 7:
        y = array(rng, dims, dt, low, 9)
        if nz:
            y[y == 0] = 1
        if chance(rng):
            k = int(rng.integers(0, len(dims)))
            e = int(rng.integers(k, len(dims)))
            y = y[(0,) * k].reshape(dims[k:]) if k else y
            sub = dims[k : e + 1]
            y = array(rng, sub, dt, max(low, 1) if nz else low, 9)
            attrs = {"broadcast": 1, "axis": k}
            if nz:
                y[y == 0] = 1
    elif chance(rng):
        x, y = (y, x) if not nz else (x, y)
    return ([x, y], attrs, 1)


def div(rng, opset):
    """Return random inputs, attributes and the number of outputs of Div."""
    x, attrs, n = binary(rng, opset, nz=True)
    return (x, attrs, n)


def logic(rng, opset):
    """Return random inputs, attributes and the number of outputs of And and the like."""
    dims = a_shape(rng, 1, 4)
    if opset < 7:
        k = int(rng.integers(0, len(dims)))
        return (
            [array(rng, dims, bool), array(rng, dims[k:], bool)],
            {"broadcast": 1, "axis": k},
            1,
        )
    return ([array(rng, dims, bool), array(rng, broadcastable(rng, dims), bool)], {}, 1)


def compare(rng, opset):
    """Return random inputs, attributes and the number of outputs of a comparison."""
    x, attrs, n = binary(rng, opset, ints=opset >= 9)
    if opset < 7:
        x = [t.astype(np.int32) for t in x]
    return (x, attrs, n)


def equal(rng, opset):
    """Return random inputs, attributes and the number of outputs of Equal."""
    x, attrs, n = binary(rng, opset, ints=True)
    if opset < 11:
        x = [t.astype(np.int32) for t in x]
    return (x, attrs, n)


def mod(rng, opset):
    """Return random inputs, attributes and the number of outputs of Mod."""
    dims = a_shape(rng, 1, 4)
    t = broadcastable(rng, dims)
    if chance(rng, 0.4):
        y = array(rng, t, FLOAT, -4, 4)
        y[y == 0] = 1
        return ([array(rng, dims, FLOAT, -9, 9), y], {"fmod": 1}, 1)
    dt = choice(rng, *INTEGERS, np.uint8, np.uint32)
    low = 0 if np.dtype(dt).kind == "u" else -9
    y = array(rng, t, dt, low, 9)
    y[y == 0] = 3
    return ([array(rng, dims, dt, low, 9), y], {"fmod": 1} if chance(rng) else {}, 1)


def power(rng, opset):
    """Return random inputs, attributes and the number of outputs of Pow."""
    dims = a_shape(rng, 1, 3)
    if opset >= 12 and chance(rng):
        b = choice(rng, np.int32, np.int64, FLOAT)
        e = choice(rng, np.int32, np.int64, FLOAT)
        return ([array(rng, dims, b, 1, 4), array(rng, broadcastable(rng, dims), e, 0, 3)], {}, 1)
    return (
        [
            array(rng, dims, FLOAT, 0.1, 3),
            array(rng, dims if opset < 7 else broadcastable(rng, dims), FLOAT, -2, 3),
        ],
        {},
        1,
    )


def variadic(rng, opset):
    """Return random inputs, attributes and the number of outputs of Max and the like."""
    dims = a_shape(rng, 1, 4)
    k = int(rng.integers(1, 5))
    dt = FLOAT
    return (
        [
            array(rng, dims if opset < 8 or i == 0 else broadcastable(rng, dims), dt)
            for i in range(k)
        ],
        {},
        1,
    )


def reduce_(rng, opset, new=18, ints=True):
    """Return random inputs, attributes and the number of outputs of a reduction."""
    dims = a_shape(rng, 1, 4)
    n = len(dims)
    attrs = {}
    axes = (
        [
            int(x) - (n if chance(rng, 0.3) and opset >= 11 else 0)
            for x in rng.permutation(n)[: rng.integers(1, n + 1)]
        ]
        if chance(rng, 0.8)
        else None
    )
    if chance(rng):
        attrs["keepdims"] = int(chance(rng))
    dt = choice(rng, FLOAT, FLOAT, np.float64, np.int32)
    x = array(rng, dims, dt, 1, 4) if ints == "log" else array(rng, dims, dt)
    if ints == "log":
        x = array(rng, dims, FLOAT, 0.2, 3)
    if opset < new:
        if axes is not None:
            attrs["axes"] = axes
        return ([x], attrs, 1)
    ins = [x]
    if axes is not None:
        ins.append(np.array(axes, np.int64))
    elif chance(rng, 0.5):
        attrs["noop_with_empty_axes"] = 1
    return (ins, attrs, 1)


def reducesum(rng, opset):
    """Return random inputs, attributes and the number of outputs of ReduceSum."""
    return reduce_(rng, opset, 13)


def arg(rng, opset):
    """Return random inputs, attributes and the number of outputs of ArgMax or ArgMin."""
    dims = a_shape(rng, 1, 4)
    attrs = {"axis": an_axis(rng, len(dims), opset >= 11)}
    if chance(rng):
        attrs["keepdims"] = int(chance(rng))
    if opset >= 12 and chance(rng):
        attrs["select_last_index"] = 1
    x = array(rng, dims, choice(rng, np.int32, FLOAT), 0, 2)
    if x.dtype == FLOAT:
        x = np.round(x)
    return ([x], attrs, 1)


def cumsum(rng, opset):
    """Return random inputs, attributes and the number of outputs of CumSum or CumProd."""
    dims = a_shape(rng, 1, 4)
    attrs = {}
    if chance(rng):
        attrs["exclusive"] = 1
    if chance(rng):
        attrs["reverse"] = 1
    return (
        [
            array(rng, dims, choice(rng, FLOAT, np.int32, np.int64, np.float64)),
            np.array(an_axis(rng, len(dims)), choice(rng, np.int32, np.int64)),
        ],
        attrs,
        1,
    )


def clip(rng, opset):
    """Return random inputs, attributes and the number of outputs of Clip."""
    dt = (
        FLOAT
        if opset < 12
        else choice(rng, FLOAT, np.int32, np.int8, np.int64, np.uint8, np.float64)
    )
    x = array(rng, a_shape(rng), dt, 0 if dt == np.uint8 else -5, 5)
    if opset < 11:
        attrs = {}
        if chance(rng):
            attrs["min"] = -1.0
        if chance(rng):
            attrs["max"] = 0.5
        return ([x], attrs, 1)
    return (
        [
            x,
            np.array(1, dt) if chance(rng) else None,
            np.array(choice(rng, 3, 0), dt) if chance(rng) else None,
        ],
        {},
        1,
    )


def dequant(rng, opset):
    """Return random inputs, attributes and the number of outputs of DequantizeLinear."""
    dims = a_shape(rng, 2, 4)
    dt = choice(rng, np.int8, np.uint8, np.int32)
    ax = an_axis(rng, len(dims))
    per = opset >= 13 and chance(rng)
    sc = array(rng, (dims[ax],), FLOAT, 0.01, 1) if per else np.array(0.3, FLOAT)
    x = array(rng, dims, dt, -100 if dt != np.uint8 else 0, 100)
    ins = [x, sc]
    attrs = {"axis": ax} if per else {}
    if opset >= 21 and chance(rng, 0.3):
        s2 = list(dims)
        s2[ax] = dims[ax] * 2
        x = array(rng, s2, dt, -100 if dt != np.uint8 else 0, 100)
        sc = array(rng, dims, FLOAT, 0.01, 1)
        attrs = {"axis": ax, "block_size": 2}
        ins = [x, sc]
    if chance(rng):
        ins.append(np.zeros(sc.shape, dt) if dt == np.int32 else array(rng, sc.shape, dt, 0, 50))
    return (ins, attrs, 1)


def quant(rng, opset):
    """Return random inputs, attributes and the number of outputs of QuantizeLinear."""
    dims = a_shape(rng, 2, 4)
    dt = choice(rng, np.int8, np.uint8)
    ax = an_axis(rng, len(dims))
    per = opset >= 13 and chance(rng)
    sc = array(rng, (dims[ax],), FLOAT, 0.01, 0.1) if per else np.array(0.05, FLOAT)
    ins = [array(rng, dims, FLOAT, -9, 9), sc]
    attrs = {"axis": ax} if per else {}
    if opset >= 21 and chance(rng, 0.3):
        s2 = list(dims)
        s2[ax] = dims[ax] * 2
        sc = array(rng, dims, FLOAT, 0.01, 1)
        attrs = {"axis": ax, "block_size": 2}
        ins = [array(rng, s2, FLOAT, -9, 9), sc]
    if chance(rng):
        ins.append(array(rng, sc.shape, dt, 0, 50))
    elif chance(rng) and per:
        pass
    return (ins, attrs, 1)


def prelu(rng, opset):
    """Return random inputs, attributes and the number of outputs of PRelu."""
    dims = a_shape(rng, 2, 4)
    t = broadcastable(rng, dims) if opset >= 7 else choice(rng, (dims[1],), (1,))
    if opset >= 7 and (not t):
        t = (1,)
    attrs = {"consumed_inputs": [0, 0]} if opset == 1 else {}
    return ([array(rng, dims), array(rng, t)], attrs, 1)


def unary(lo=-3, hi=3, **choices):
    """Return a generator of nodes with one input between bounds, and attributes of choices."""

    def gen(rng, opset):
        """Return random inputs, attributes and the number of outputs of the node."""
        attrs = {k: float(choice(rng, *c)) for k, c in choices.items() if chance(rng)}
        return ([array(rng, a_shape(rng), FLOAT, lo, hi)], attrs, 1)

    return gen


def matmul(rng, opset):
    """Return random inputs, attributes and the number of outputs of MatMul."""
    a_, b_, c_ = (int(x) for x in rng.integers(1, 5, 3))
    lead = a_shape(rng, 0, 2, 3)
    dt = FLOAT if opset < 9 else choice(rng, FLOAT, np.float64, np.int32, np.int64)
    x, y = (
        array(rng, (*lead, a_, b_), dt),
        array(rng, (*broadcastable(rng, lead), b_, c_) if lead else (b_, c_), dt),
    )
    h = choice(rng, 0, 0, 1, 2)
    if h == 1:
        x = array(rng, (b_,), dt)
    if h == 2:
        y = array(rng, (b_,), dt)
    return ([x, y], {}, 1)


def einsum(rng, opset):
    """Return random inputs, attributes and the number of outputs of Einsum."""
    i, j, k, b = (int(x) for x in rng.integers(1, 5, 4))
    e = choice(
        rng,
        ("ij,jk->ik", [(i, j), (j, k)]),
        ("bij,bjk->bik", [(b, i, j), (b, j, k)]),
        ("ij->ji", [(i, j)]),
        ("ii->i", [(i, i)]),
        ("ij,ij", [(i, j), (i, j)]),
        ("...ij,...jk->...ik", [(b, i, j), (b, j, k)]),
        ("bij->b", [(b, i, j)]),
        ("i,j->ij", [(i,), (j,)]),
        ("ii", [(i, i)]),
    )
    return ([array(rng, dims) for dims in e[1]], {"equation": e[0]}, 1)


def dft(rng, opset):
    """Return random inputs, attributes and the number of outputs of DFT."""
    dims = (2, int(rng.integers(2, 7)), int(rng.integers(2, 7)), int(choice(rng, 1, 2)))
    attrs = {}
    inv = chance(rng, 0.3)
    one = chance(rng, 0.4) and (not inv) and (dims[-1] == 1)
    if inv:
        attrs["inverse"] = 1
        dims = (*dims[:3], 2)
    if one:
        attrs["onesided"] = 1
    ax = int(choice(rng, 1, 2))
    if opset < 20:
        attrs["axis"] = ax
        return (
            [array(rng, dims)]
            + ([np.array(int(rng.integers(2, 8)), np.int64)] if chance(rng) else []),
            attrs,
            1,
        )
    return (
        [
            array(rng, dims),
            np.array(int(rng.integers(2, 8)), np.int64) if chance(rng) else None,
            np.array(ax - (4 if chance(rng) else 0), np.int64),
        ],
        attrs,
        1,
    )


def stft(rng, opset):
    """Return random inputs, attributes and the number of outputs of STFT."""
    n = int(rng.integers(10, 20))
    w = int(choice(rng, 4, 5, 8))
    return (
        [
            array(rng, (2, n, 1) if chance(rng) else (2, n)),
            np.array(int(rng.integers(1, 5)), np.int64),
            array(rng, (w,), FLOAT, 0.1, 1),
            np.array(w, np.int64),
        ],
        {"onesided": int(chance(rng))},
        1,
    )


def qlinmm(rng, opset):
    """Return random inputs, attributes and the number of outputs of QLinearMatMul."""
    dims = (3, 4)
    t = (4, 2)
    return (
        [
            rng.integers(0, 255, dims).astype(np.uint8),
            np.array(0.02, FLOAT),
            np.array(3, np.uint8),
            rng.integers(0, 255, t).astype(np.uint8),
            np.array(0.03, FLOAT),
            np.array(7, np.uint8),
            np.array(0.2, FLOAT),
            np.array(5, np.uint8),
        ],
        {},
        1,
    )


def mmint(rng, opset):
    """Return random inputs, attributes and the number of outputs of MatMulInteger."""
    return (
        [
            rng.integers(0, 255, (3, 4)).astype(np.uint8),
            rng.integers(0, 255, (4, 2)).astype(np.uint8),
            np.array(3, np.uint8),
            np.array(7, np.uint8),
        ],
        {},
        1,
    )


def dynq(rng, opset):
    """Return random inputs, attributes and the number of outputs of DynamicQuantizeLinear."""
    return ([array(rng, a_shape(rng))], {}, 3)


def bitshift(rng, opset):
    """Return random inputs, attributes and the number of outputs of BitShift."""
    return (
        [rng.integers(0, 100, (3, 4)).astype(np.uint8), rng.integers(0, 7, (4,)).astype(np.uint8)],
        {"direction": choice(rng, "LEFT", "RIGHT")},
        1,
    )


def nll(rng, opset):
    """Return random inputs, attributes and the number of outputs of a loss of classes."""
    c = 4
    dims = a_shape(rng, 0, 2)
    x = array(rng, (3, c, *dims))
    t = rng.integers(0, c, (3, *dims)).astype(np.int64)
    attrs = {"reduction": choice(rng, "mean", "sum", "none")}
    ins = [x, t]
    if chance(rng):
        ins.append(array(rng, (c,), FLOAT, 0.1, 1))
    if chance(rng):
        attrs["ignore_index"] = 1
    return (ins, attrs, 1)


def hardswish(rng, opset):
    """Return random inputs, attributes and the number of outputs of HardSwish or Size."""
    return ([array(rng, a_shape(rng))], {}, 1)


def gelu(rng, opset):
    """Return random inputs, attributes and the number of outputs of Gelu."""
    return ([array(rng, a_shape(rng))], {"approximate": choice(rng, "none", "tanh")}, 1)


def shrink(rng, opset):
    """Return random inputs, attributes and the number of outputs of Shrink."""
    return ([array(rng, a_shape(rng))], {"lambd": 0.7, "bias": 0.3}, 1)


def isinf(rng, opset):
    """Return random inputs, attributes and the number of outputs of IsInf."""
    x = array(rng, (6,))
    x[0] = np.inf
    x[1] = -np.inf
    return ([x], {"detect_negative": int(chance(rng)), "detect_positive": int(chance(rng))}, 1)


def gen_round(rng, opset):
    """Return random inputs, attributes and the number of outputs of Round."""
    return ([np.round(array(rng, a_shape(rng)) * 2) / 2], {}, 1)


def det(rng, opset):
    """Return random inputs, attributes and the number of outputs of Det."""
    n = int(rng.integers(1, 4))
    return ([array(rng, (*a_shape(rng, 0, 2, 2), n, n))], {}, 1)


def melw(rng, opset):
    """Return random inputs, attributes and the number of outputs of MelWeightMatrix."""
    return (
        [
            np.array(8, np.int64),
            np.array(32, np.int64),
            np.array(8000, np.int64),
            np.array(0.0, FLOAT),
            np.array(4000.0, FLOAT),
        ],
        {},
        1,
    )


def win(rng, opset):
    """Return random inputs, attributes and the number of outputs of a window function."""
    return ([np.array(int(rng.integers(3, 12)), np.int64)], {"periodic": int(chance(rng))}, 1)


def hardsig(rng, opset):
    """Return random inputs, attributes and the number of outputs of HardSigmoid."""
    return ([array(rng, a_shape(rng))], {"alpha": 0.3, "beta": 0.4} if chance(rng) else {}, 1)


def swish(rng, opset):
    """Return random inputs, attributes and the number of outputs of Swish or Mish."""
    return ([array(rng, a_shape(rng))], {}, 1)


def whole_numbers(dtype):
    """Return a generator of nodes with one input of a data type, whose values are 0 or 1."""

    def gen(rng, opset):
        """Return random inputs, attributes and the number of outputs of the node."""
        return ([array(rng, a_shape(rng), dtype, 0, 1)], {}, 1)

    return gen
