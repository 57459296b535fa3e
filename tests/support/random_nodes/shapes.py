"""Random nodes of operators that move elements; see `windows` for what the functions return."""

import numpy as np
import onnx

from tests.support.random_nodes.values import (
    FLOAT,
    a_shape,
    an_axis,
    array,
    broadcastable,
    chance,
    choice,
)


def pad(rng, opset):
    """Return random inputs, attributes and the number of outputs of Pad."""
    dims = a_shape(rng, 1, 4)
    n = len(dims)
    mode = choice(rng, "constant", "reflect", "edge", *(["wrap"] if opset >= 19 else []))
    neg = mode == "constant" and chance(rng, 0.3)

    def p(d):
        """Return a random pad of an axis of a size, as far as the mode allows it."""
        if mode in ("reflect", "wrap"):
            return int(rng.integers(0, max(d, 1)))
        return int(rng.integers(-1 if neg and d > 2 else 0, 4))

    axes = None
    if opset >= 18 and chance(rng):
        axes = [int(x) for x in rng.permutation(n)[: rng.integers(1, n + 1)]]
    use = axes or list(range(n))
    pads = [p(dims[i]) for i in use] + [p(dims[i]) for i in use]
    dt = FLOAT if opset < 11 else choice(rng, FLOAT, np.int32, np.int64, np.float64)
    x = array(rng, dims, dt, -5, 5)
    if opset < 11:
        attrs = {"mode": mode, "pads" if opset >= 2 else "paddings": pads}
        if chance(rng):
            attrs["value"] = 1.5
        return ([x], attrs, 1)
    ins = [x, np.array(pads, np.int64)]
    if axes is not None:
        ins += [
            array(rng, (), dt, -5, 5) if chance(rng) else None,
            np.array(
                [i - (n if chance(rng) else 0) for i in axes], choice(rng, np.int32, np.int64)
            ),
        ]
    elif chance(rng):
        ins.append(array(rng, (), dt, -5, 5))
    return (ins, {"mode": mode}, 1)


def slice_(rng, opset):
    """Return random inputs, attributes and the number of outputs of Slice."""
    dims = a_shape(rng, 1, 4, 6)
    n = len(dims)
    axes = [int(x) for x in rng.permutation(n)[: rng.integers(1, n + 1)]]
    st = [int(rng.integers(-dims[i] - 1, dims[i] + 2)) for i in axes]
    en = [int(rng.integers(-dims[i] - 2, dims[i] + 3)) for i in axes]
    st = [int(rng.integers(-dims[i] - 2, dims[i] + 3)) for i in axes]
    x = array(rng, dims)
    if opset == 1:
        attrs = {"starts": st, "ends": en, "axes": axes}
        return ([x], attrs, 1)
    t = choice(rng, np.int32, np.int64)
    steps = [int(choice(rng, 1, 1, 2, -1, -2)) for _ in axes]
    en = [choice(rng, e, 2**31 - 1 if k > 0 else -(2**31)) for e, k in zip(en, steps)]
    has = chance(rng)
    en = en if has else [min(max(e, -9), 9) for e in en]
    ins = [
        x,
        np.array(st, t),
        np.array(en, t),
        np.array([i - (n if chance(rng, 0.3) else 0) for i in axes], t),
    ]
    if has:
        ins.append(np.array(steps, t))
    return (ins, {}, 1)


def topk(rng, opset):
    """Return random inputs, attributes and the number of outputs of TopK."""
    dims = a_shape(rng, 1, 3, 6)
    ax = an_axis(rng, len(dims), opset >= 11)
    k = int(rng.integers(1, dims[ax] + 1))
    attrs = {"axis": ax}
    x = np.round(array(rng, dims))
    if opset == 1:
        attrs["k"] = k
        return ([x], attrs, 2)
    if opset >= 11 and chance(rng):
        attrs["largest"] = 0
    return ([x, np.array([k], np.int64)], attrs, 2)


def flatten(rng, opset):
    """Return random inputs, attributes and the number of outputs of Flatten."""
    dims = a_shape(rng, 1, 4)
    return (
        [array(rng, dims)],
        {"axis": int(rng.integers(-len(dims) if opset >= 11 else 0, len(dims) + 1))},
        1,
    )


def concat(rng, opset):
    """Return random inputs, attributes and the number of outputs of Concat."""
    dims = list(a_shape(rng, 1, 4))
    ax = an_axis(rng, len(dims), opset >= 11)
    out = []
    for _ in range(rng.integers(1, 4)):
        t = list(dims)
        t[ax] = int(rng.integers(1, 4))
        out.append(array(rng, tuple(t)))
    return (out, {"axis": ax}, 1)


def split(rng, opset):
    """Return random inputs, attributes and the number of outputs of Split."""
    dims = list(a_shape(rng, 1, 4))
    ax = an_axis(rng, len(dims), opset >= 11)
    k = int(rng.integers(1, 4))
    parts = [int(x) for x in rng.integers(1, 4, k)]
    dims[ax] = sum(parts)
    x = array(rng, tuple(dims))
    attrs = {"axis": ax}
    if chance(rng, 0.6):
        if opset >= 13:
            return ([x, np.array(parts, np.int64)], attrs, k)
        attrs["split"] = parts
        return ([x], attrs, k)
    dims[ax] = k * 2
    if opset >= 18:
        attrs["num_outputs"] = k
        dims[ax] += int(chance(rng) and k > 1)
    return ([array(rng, tuple(dims))], attrs, k)


def transpose(rng, opset):
    """Return random inputs, attributes and the number of outputs of Transpose."""
    dims = a_shape(rng, 1, 4)
    return (
        [array(rng, dims)],
        {"perm": [int(x) for x in rng.permutation(len(dims))]} if chance(rng, 0.7) else {},
        1,
    )


def gather(rng, opset):
    """Return random inputs, attributes and the number of outputs of Gather."""
    dims = a_shape(rng, 1, 3)
    ax = an_axis(rng, len(dims), opset >= 11)
    i = rng.integers(-dims[ax] if opset >= 11 else 0, dims[ax], a_shape(rng, 0, 2)).astype(
        choice(rng, np.int32, np.int64)
    )
    return ([array(rng, dims), i], {"axis": ax}, 1)


def gatherel(rng, opset):
    """Return random inputs, attributes and the number of outputs of GatherElements."""
    dims = a_shape(rng, 1, 3)
    ax = an_axis(rng, len(dims))
    t = list(dims)
    t[ax] = int(rng.integers(1, 5))
    return ([array(rng, dims), rng.integers(-dims[ax], dims[ax], t)], {"axis": ax}, 1)


def gathernd(rng, opset):
    """Return random inputs, attributes and the number of outputs of GatherND."""
    dims = a_shape(rng, 2, 4, 4)
    b = int(rng.integers(0, 2)) if opset >= 12 else 0
    q = int(rng.integers(1, len(dims) - b + 1))
    lead = dims[:b] + a_shape(rng, 1, 2, 3)
    idx = np.stack([rng.integers(-dims[b + i], dims[b + i], lead) for i in range(q)], -1)
    return ([array(rng, dims), idx.astype(np.int64)], {"batch_dims": b} if b else {}, 1)


def scatterel(rng, opset):
    """Return random inputs, attributes and the number of outputs of ScatterElements."""
    dims = a_shape(rng, 1, 3)
    ax = an_axis(rng, len(dims), opset >= 11)
    attrs = {"axis": ax}
    if opset >= 16 and chance(rng):
        attrs["reduction"] = choice(rng, "add", "mul", *(["min", "max"] if opset >= 18 else []))
    t = list(dims)
    t[ax] = int(rng.integers(1, dims[ax] + 1))
    idx = np.argsort(rng.random(dims), axis=ax)
    idx = np.take(idx, range(t[ax]), axis=ax).astype(np.int64)
    if "reduction" in attrs:
        idx = rng.integers(-dims[ax], dims[ax], t).astype(np.int64)
    return ([array(rng, dims), idx, array(rng, idx.shape)], attrs, 1)


def scatternd(rng, opset):
    """Return random inputs, attributes and the number of outputs of ScatterND."""
    dims = a_shape(rng, 1, 3)
    q = int(rng.integers(1, len(dims) + 1))
    k = int(rng.integers(1, 4))
    attrs = {}
    if opset >= 16 and chance(rng, 0.7):
        attrs["reduction"] = choice(rng, "add", "mul", *(["min", "max"] if opset >= 18 else []))
    idx = np.stack([rng.integers(0, dims[i], k) for i in range(q)], -1).astype(np.int64)
    if not attrs:
        idx = np.unique(idx, axis=0)
    return ([array(rng, dims), idx, array(rng, (len(idx), *dims[q:]))], attrs, 1)


def expand(rng, opset):
    """Return random inputs, attributes and the number of outputs of Expand."""
    dims = a_shape(rng, 1, 3)
    t = list(broadcastable(rng, dims))
    return ([array(rng, tuple(t)), np.array(dims, np.int64)], {}, 1)


def tile(rng, opset):
    """Return random inputs, attributes and the number of outputs of Tile."""
    dims = a_shape(rng, 1, 3)
    return ([array(rng, dims), rng.integers(1, 4, len(dims)).astype(np.int64)], {}, 1)


def onehot(rng, opset):
    """Return random inputs, attributes and the number of outputs of OneHot."""
    dims = a_shape(rng, 1, 3)
    d = int(rng.integers(2, 5))
    return (
        [
            rng.integers(-d if opset >= 11 else 0, d, dims).astype(np.int64),
            np.array(d, np.int64),
            np.array([2, 5], FLOAT),
        ],
        {"axis": int(rng.integers(-len(dims) - 1 if opset >= 11 else -1, len(dims) + 1))},
        1,
    )


def d2s(rng, opset):
    """Return random inputs, attributes and the number of outputs of DepthToSpace."""
    attrs = {"blocksize": 2}
    if opset >= 11 and chance(rng):
        attrs["mode"] = choice(rng, "DCR", "CRD")
    return ([array(rng, (2, 8, 2, 3))], attrs, 1)


def s2d(rng, opset):
    """Return random inputs, attributes and the number of outputs of SpaceToDepth."""
    return ([array(rng, (2, 2, 4, 6))], {"blocksize": 2}, 1)


def nms(rng, opset):
    """Return random inputs, attributes and the number of outputs of NonMaxSuppression."""
    n = int(rng.integers(1, 8))
    b = rng.uniform(0, 1, (2, n, 4)).astype(FLOAT)
    attrs = {"center_point_box": int(chance(rng))}
    ins = [b, rng.uniform(0, 1, (2, 2, n)).astype(FLOAT)]
    if chance(rng, 0.8):
        ins += [np.array([int(rng.integers(0, 4))], np.int64), np.array([0.4], FLOAT)]
    if len(ins) == 4 and chance(rng):
        ins.append(np.array([0.3], FLOAT))
    return (ins, attrs, 1)


def trilu(rng, opset):
    """Return random inputs, attributes and the number of outputs of Trilu."""
    return (
        [array(rng, a_shape(rng, 2, 4)), np.array(int(rng.integers(-4, 5)), np.int64)],
        {"upper": int(chance(rng))},
        1,
    )


def where(rng, opset):
    """Return random inputs, attributes and the number of outputs of Where."""
    dims = a_shape(rng, 1, 4)
    return (
        [
            array(rng, broadcastable(rng, dims), bool),
            array(rng, dims),
            array(rng, broadcastable(rng, dims)),
        ],
        {},
        1,
    )


def reshape(rng, opset):
    """Return random inputs, attributes and the number of outputs of Reshape."""
    dims = a_shape(rng, 2, 4)
    t = [0, -1] if chance(rng) else [-1]
    if opset == 1:
        return ([array(rng, dims)], {"shape": t}, 1)
    return ([array(rng, dims), np.array(t, np.int64)], {}, 1)


def squeeze(rng, opset):
    """Return random inputs, attributes and the number of outputs of Squeeze."""
    dims = tuple(choice(rng, 1, 3) for _ in range(4))
    ax = [
        i - (4 if chance(rng, 0.3) and opset >= 11 else 0)
        for i in range(4)
        if dims[i] == 1 and chance(rng, 0.8)
    ]
    if opset >= 13:
        return ([array(rng, dims)] + ([np.array(ax, np.int64)] if ax else []), {}, 1)
    return ([array(rng, dims)], {"axes": ax} if ax else {}, 1)


def unsqueeze(rng, opset):
    """Return random inputs, attributes and the number of outputs of Unsqueeze."""
    dims = a_shape(rng, 1, 3)
    k = int(rng.integers(1, 3))
    n = len(dims) + k
    ax = [int(x) - (n if chance(rng, 0.3) and opset >= 11 else 0) for x in rng.permutation(n)[:k]]
    if opset >= 13:
        return ([array(rng, dims), np.array(ax, np.int64)], {}, 1)
    return ([array(rng, dims)], {"axes": ax}, 1)


def cast(rng, opset):
    """Return random inputs, attributes and the number of outputs of Cast."""

    to = choice(
        rng,
        *[
            onnx.TensorProto.DataType.Value(x)
            for x in ("FLOAT", "DOUBLE", "INT32", "INT64", "BOOL", "UINT8", "FLOAT16", "INT8")
        ],
    )
    src = choice(rng, FLOAT, np.int32, np.int64, bool, np.uint8, np.float64)
    return ([array(rng, a_shape(rng), src, 0, 5)], {"to": to}, 1)


def revseq(rng, opset):
    """Return random inputs, attributes and the number of outputs of ReverseSequence."""
    b = int(chance(rng))
    return (
        [array(rng, (4, 4, 2)), rng.integers(1, 5, 4).astype(np.int64)],
        {"batch_axis": b, "time_axis": 1 - b},
        1,
    )


def eyelike(rng, opset):
    """Return random inputs, attributes and the number of outputs of EyeLike."""
    return ([array(rng, (3, 4))], {"k": int(rng.integers(-2, 3))}, 1)


def compress(rng, opset):
    """Return random inputs, attributes and the number of outputs of Compress."""
    dims = a_shape(rng, 1, 3)
    if chance(rng):
        return ([array(rng, dims), array(rng, (int(np.prod(dims)),), bool)], {}, 1)
    ax = an_axis(rng, len(dims), opset >= 11)
    return ([array(rng, dims), array(rng, (dims[ax],), bool)], {"axis": ax}, 1)


def unique(rng, opset):
    """Return random inputs, attributes and the number of outputs of Unique."""
    dims = a_shape(rng, 1, 3)
    attrs = {"sorted": int(chance(rng))}
    if chance(rng):
        attrs["axis"] = an_axis(rng, len(dims))
    return ([np.round(array(rng, dims, FLOAT, -2, 2))], attrs, 4)


def ccp(rng, opset):
    """Return random inputs, attributes and the number of outputs of CenterCropPad."""
    return ([array(rng, (4, 5, 6)), np.array([3, 8], np.int64)], {"axes": [0, 2]}, 1)


def rangeop(rng, opset):
    """Return random inputs, attributes and the number of outputs of Range."""
    dt = choice(rng, np.int32, np.int64, FLOAT)
    return ([np.array(1, dt), np.array(9, dt), np.array(choice(rng, 1, 2, 3), dt)], {}, 1)


def shp(rng, opset):
    """Return random inputs, attributes and the number of outputs of Shape."""
    return (
        [array(rng, a_shape(rng))],
        (
            {"start": int(choice(rng, 0, 1, -1)), "end": int(choice(rng, 5, 2, -1))}
            if opset >= 15 and chance(rng)
            else {}
        ),
        1,
    )


def scatter9(rng, opset):
    """Return random inputs, attributes and the number of outputs of Scatter."""
    return scatterel(rng, 9)


def dropout(rng, opset):
    """Return random inputs, attributes and the number of outputs of Dropout."""
    attrs = {}
    if opset < 7:
        attrs["is_test"] = 1
    if opset == 1:
        attrs["consumed_inputs"] = [0]
    return ([array(rng, a_shape(rng))], attrs, int(choice(rng, 1, 2)) if opset >= 10 else 1)
