"""Random nodes of operators with channels: normalization, convolution, pooling, interpolation, recurrent
layers and attention.

Each function takes a random number generator and the version of the operator, and returns inputs
(None: left out), attributes and the number of outputs.
"""

import numpy as np

from tests.support.random_nodes.values import FLOAT, a_shape, an_axis, array, chance, choice


def bn(rng, opset):
    """Return random inputs, attributes and the number of outputs of BatchNormalization."""
    dims = a_shape(rng, 2, 5)
    c = dims[1]
    attrs = {}
    if chance(rng):
        attrs["epsilon"] = float(choice(rng, 1e-05, 0.001, 0.1))
    if chance(rng):
        attrs["momentum"] = float(choice(rng, 0.9, 0.5))
    if opset < 7:
        attrs["is_test"] = 1
    if opset == 1:
        attrs["consumed_inputs"] = [0, 0, 0, 1, 1]
    n = 1
    if opset >= 14 and chance(rng, 0.3):
        attrs["training_mode"] = 1
        n = int(choice(rng, 1, 3))
    dt = FLOAT if opset < 9 or chance(rng, 0.7) else np.float64
    return (
        [
            array(rng, dims, dt),
            array(rng, (c,), dt),
            array(rng, (c,), dt),
            array(rng, (c,), dt),
            array(rng, (c,), dt, 0.1, 2),
        ],
        attrs,
        n,
    )


def globalpool(rng, opset):
    """Return random inputs, attributes and the number of outputs of a global pool."""
    return ([array(rng, a_shape(rng, 3, 5))], {}, 1)


def globallp(rng, opset):
    """Return random inputs, attributes and the number of outputs of GlobalLpPool."""
    return (
        [array(rng, a_shape(rng, 3, 5))],
        {"p": int(choice(rng, 1, 2, 3))} if chance(rng) else {},
        1,
    )


def softmaxlike(rng, opset):
    """Return random inputs, attributes and the number of outputs of Softmax and the like."""
    dims = a_shape(rng, 1, 4)
    n = len(dims)
    attrs = {"axis": an_axis(rng, n, opset >= 11)} if chance(rng, 0.7) else {}
    if "axis" not in attrs and n == 1 and (opset < 13):
        attrs = {"axis": 0}
    return ([array(rng, dims)], attrs, 1)


def lrn(rng, opset):
    """Return random inputs, attributes and the number of outputs of LRN."""
    dims = a_shape(rng, 4, 4, 7)
    attrs = {"size": int(choice(rng, 1, 2, 3, 4, 5, 7))}
    if chance(rng):
        attrs.update(alpha=0.3, beta=float(choice(rng, 0.5, 0.75)), bias=float(choice(rng, 1, 2)))
    return ([array(rng, dims)], attrs, 1)


def window(rng, n, opset, dil=True, size=None):
    """Return random attributes of a window over a number of axes, such as strides and pads."""
    attrs = {}
    k = [int(x) for x in rng.integers(1, 4, n)]
    attrs["kernel_shape"] = k
    if chance(rng, 0.7):
        attrs["strides"] = [int(x) for x in rng.integers(1, 4, n)]
    if dil and chance(rng, 0.4):
        attrs["dilations"] = [int(x) for x in rng.integers(1, 3, n)]
    how = choice(rng, "pads", "pads", "none", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    attrs.get("dilations", [1] * n)
    if how == "pads":
        attrs["pads"] = [int(rng.integers(0, k[i % n])) for i in range(2 * n)]
    elif how != "none":
        attrs["auto_pad"] = how
    return attrs


def conv(rng, opset):
    """Return random inputs, attributes and the number of outputs of Conv."""
    n = int(rng.integers(1, 4))
    g = int(choice(rng, 1, 1, 2, 3))
    ci = int(rng.integers(1, 3))
    co = int(rng.integers(1, 3))
    attrs = window(rng, n, opset)
    if attrs.get("auto_pad", "").startswith("SAME"):
        attrs.pop("dilations", None)
    attrs["group"] = g
    k = attrs["kernel_shape"]
    if chance(rng):
        attrs.pop("kernel_shape")
    dims = tuple(int(x) for x in rng.integers(5, 9, n))
    x = [array(rng, (int(rng.integers(1, 3)), g * ci, *dims)), array(rng, (g * co, ci, *k))]
    if chance(rng):
        x.append(array(rng, (g * co,)))
    return (x, attrs, 1)


def convt(rng, opset):
    """Return random inputs, attributes and the number of outputs of ConvTranspose."""
    n = int(rng.integers(1, 4))
    g = int(choice(rng, 1, 1, 2, 3))
    ci = int(rng.integers(1, 3))
    co = int(rng.integers(1, 3))
    attrs = window(rng, n, opset)
    attrs["group"] = g
    k = attrs["kernel_shape"]
    st = attrs.get("strides", [1] * n)
    if chance(rng, 0.4):
        attrs["output_padding"] = [int(rng.integers(0, st[i])) for i in range(n)]
    dims = tuple(int(x) for x in rng.integers(2, 5, n))
    if chance(rng, 0.25):
        attrs.pop("pads", None)
        d = attrs.get("dilations", [1] * n)
        op = attrs.get("output_padding", [0] * n)
        attrs["output_shape"] = [
            max(
                1,
                st[i] * (dims[i] - 1) + op[i] + (k[i] - 1) * d[i] + 1 - int(rng.integers(0, k[i])),
            )
            for i in range(n)
        ]
    if chance(rng):
        attrs.pop("kernel_shape")
    x = [array(rng, (int(rng.integers(1, 3)), g * ci, *dims)), array(rng, (g * ci, co, *k))]
    if chance(rng):
        x.append(array(rng, (g * co,)))
    return (x, attrs, 1)


def maxpool(rng, opset):
    """Return random inputs, attributes and the number of outputs of MaxPool."""
    n = int(rng.integers(1, 4))
    attrs = window(rng, n, opset, dil=opset >= 10)
    if attrs.get("auto_pad", "").startswith("SAME"):
        attrs.pop("dilations", None)
    if opset >= 10 and chance(rng):
        attrs["ceil_mode"] = 1
    if opset >= 8 and chance(rng, 0.3):
        attrs["storage_order"] = int(choice(rng, 0, 1))
    dims = tuple(int(x) for x in rng.integers(5, 10, n))
    dt = FLOAT
    if opset >= 12 and chance(rng, 0.2):
        dt = choice(rng, np.int8, np.uint8)
    lo = 0 if dt == np.uint8 else -9
    return (
        [array(rng, (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *dims), dt, lo, 9)],
        attrs,
        2 if opset >= 8 and chance(rng) else 1,
    )


def avgpool(rng, opset):
    """Return random inputs, attributes and the number of outputs of AveragePool."""
    n = int(rng.integers(1, 4))
    attrs = window(rng, n, opset, dil=opset >= 19)
    if attrs.get("auto_pad", "").startswith("SAME"):
        attrs.pop("dilations", None)
    if opset >= 10 and chance(rng):
        attrs["ceil_mode"] = 1
    if opset >= 7 and chance(rng):
        attrs["count_include_pad"] = 1
    dims = tuple(int(x) for x in rng.integers(5, 10, n))
    return ([array(rng, (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *dims))], attrs, 1)


def lppool(rng, opset):
    """Return random inputs, attributes and the number of outputs of LpPool."""
    n = int(rng.integers(1, 4))
    attrs = window(rng, n, opset, dil=opset >= 18)
    if attrs.get("auto_pad", "").startswith("SAME"):
        attrs.pop("dilations", None)
    if opset >= 18 and chance(rng):
        attrs["ceil_mode"] = 1
    if chance(rng):
        attrs["p"] = int(choice(rng, 1, 2, 3))
    dims = tuple(int(x) for x in rng.integers(5, 10, n))
    return ([array(rng, (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *dims))], attrs, 1)


def resize(rng, opset):
    """Return random inputs, attributes and the number of outputs of Resize."""
    dims = (1, int(rng.integers(1, 3)), int(rng.integers(2, 7)), int(rng.integers(2, 7)))
    mode = choice(rng, "nearest", "linear", *(["cubic"] if opset >= 11 else []))
    attrs = {"mode": mode}
    sc = [
        1.0,
        1.0,
        float(choice(rng, 0.5, 0.6, 1, 1.5, 2, 2.7, 3)),
        float(choice(rng, 0.5, 0.7, 1, 1.25, 2, 3)),
    ]
    if opset == 10:
        return ([array(rng, dims), np.array(sc, FLOAT)], attrs, 1)
    ct = choice(
        rng,
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        *(["tf_half_pixel_for_nn"] if opset == 11 and mode == "nearest" else []),
        *(["half_pixel_symmetric"] if opset >= 19 else []),
        "tf_crop_and_resize",
    )
    if chance(rng, 0.8):
        attrs["coordinate_transformation_mode"] = ct
    else:
        ct = "half_pixel"
    if mode == "nearest" and chance(rng, 0.8):
        attrs["nearest_mode"] = choice(
            rng, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"
        )
    if mode == "cubic":
        if chance(rng):
            attrs["cubic_coeff_a"] = -0.5
        if chance(rng) and ct != "tf_crop_and_resize":
            attrs["exclude_outside"] = 1
    if opset >= 18 and mode != "nearest" and chance(rng, 0.4) and (ct != "tf_crop_and_resize"):
        attrs["antialias"] = 1
    roi = np.zeros(0, FLOAT)
    if ct == "tf_crop_and_resize":
        roi = np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1], FLOAT)
        attrs["extrapolation_value"] = float(choice(rng, 0, 7))
    if chance(rng, 0.5):
        sizes = np.array(
            [1, dims[1], max(1, int(dims[2] * sc[2])), max(1, int(dims[3] * sc[3]))], np.int64
        )
        if opset >= 18 and chance(rng, 0.4) and (ct != "tf_crop_and_resize"):
            attrs["axes"] = [2, 3]
            attrs["keep_aspect_ratio_policy"] = choice(rng, "stretch", "not_larger", "not_smaller")
            return ([array(rng, dims), None, None, sizes[2:]], attrs, 1)
        return (
            [
                array(rng, dims),
                roi if opset < 13 or roi.size else None,
                np.zeros(0, FLOAT) if opset < 13 else None,
                sizes,
            ],
            attrs,
            1,
        )
    if opset >= 18 and chance(rng, 0.3) and (ct != "tf_crop_and_resize"):
        attrs["axes"] = [2, 3]
        return ([array(rng, dims), None, np.array(sc[2:], FLOAT)], attrs, 1)
    return ([array(rng, dims), roi, np.array(sc, FLOAT)], attrs, 1)


def upsample(rng, opset):
    """Return random inputs, attributes and the number of outputs of Upsample."""
    dims = (1, 2, int(rng.integers(2, 6)), int(rng.integers(2, 6)))
    sc = [1.0, 1.0, float(choice(rng, 1, 1.5, 2, 3)), float(choice(rng, 1, 2, 2.5))]
    attrs = {"mode": choice(rng, "nearest", "linear" if opset > 1 else "bilinear")}
    if opset == 1:
        attrs.update(height_scale=sc[2], width_scale=sc[3])
        return ([array(rng, dims)], attrs, 1)
    if opset == 7:
        attrs["scales"] = sc
        return ([array(rng, dims)], attrs, 1)
    return ([array(rng, dims), np.array(sc, FLOAT)], attrs, 1)


def rnnlike(kind):
    """Return a generator of recurrent nodes of a kind."""

    def gen(rng, opset):
        """Return random inputs, attributes and the number of outputs of the node."""
        T, B, width, H = (int(x) for x in rng.integers(1, 5, 4))
        d = choice(rng, "forward", "reverse", "bidirectional")
        D = 2 if d == "bidirectional" else 1
        G = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
        attrs = {"hidden_size": H, "direction": d}
        int(opset >= 14 and chance(rng, 0.2))
        X = array(rng, (T, B, width))
        W = array(rng, (D, G * H, width), lo=-1, hi=1)
        R = array(rng, (D, G * H, H), lo=-1, hi=1)
        ins = [X, W, R, array(rng, (D, 2 * G * H), lo=-1, hi=1) if chance(rng) else None]
        seq = None
        if chance(rng, 0.5):
            seq = rng.integers(1 if True else 0, T + 1, B).astype(np.int32)
        ins.append(seq)
        ins.append(array(rng, (D, B, H), lo=-1, hi=1) if chance(rng) else None)
        if kind == "LSTM":
            ins.append(array(rng, (D, B, H), lo=-1, hi=1) if chance(rng) else None)
            ins.append(array(rng, (D, 3 * H), lo=-1, hi=1) if chance(rng) else None)
            if chance(rng, 0.2):
                attrs["input_forget"] = 1
        if kind == "GRU" and chance(rng) and (opset >= 3):
            attrs["linear_before_reset"] = 1
        if chance(rng, 0.3):
            attrs["clip"] = 0.4
        per = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[
            kind
        ]
        if chance(rng, 0.3):
            acts = [
                choice(
                    rng,
                    "Relu",
                    "Tanh",
                    "Sigmoid",
                    "Softsign",
                    "Softplus",
                    "HardSigmoid",
                    "LeakyRelu",
                    "Elu",
                    "ThresholdedRelu",
                    "Affine",
                    "ScaledTanh",
                )
                for _ in per
            ] * D
            attrs["activations"] = acts
            al = {
                "HardSigmoid": 0.3,
                "LeakyRelu": 0.1,
                "Elu": 0.7,
                "ThresholdedRelu": 0.2,
                "Affine": 0.5,
                "ScaledTanh": 0.9,
            }
            be = {"HardSigmoid": 0.4, "Affine": 0.2, "ScaledTanh": 1.1}
            attrs["activation_alpha"] = [al.get(x, 0.0) for x in acts if x in al]
            attrs["activation_beta"] = [be[x] for x in acts if x in be]
            if not attrs["activation_alpha"]:
                attrs.pop("activation_alpha")
            if not attrs["activation_beta"]:
                attrs.pop("activation_beta")
        if opset < 7:
            attrs["output_sequence"] = 1
        while ins[-1] is None:
            ins.pop()
        return (ins, attrs, 3 if kind == "LSTM" else 2)

    return gen


def inorm(rng, opset):
    """Return random inputs, attributes and the number of outputs of InstanceNormalization."""
    dims = a_shape(rng, 3, 5)
    c = dims[1]
    attrs = {"epsilon": 0.01} if chance(rng) else {}
    if opset < 6:
        attrs["consumed_inputs"] = [0, 0, 0]
    return ([array(rng, dims), array(rng, (c,)), array(rng, (c,))], attrs, 1)


def lnorm(rng, opset):
    """Return random inputs, attributes and the number of outputs of LayerNormalization."""
    dims = a_shape(rng, 2, 4)
    ax = an_axis(rng, len(dims))
    t = dims[ax:]
    ins = [array(rng, dims), array(rng, t)]
    if chance(rng):
        ins.append(array(rng, t))
    return (ins, {"axis": ax, **({"epsilon": 0.1} if chance(rng) else {})}, int(choice(rng, 1, 3)))


def gnorm(rng, opset):
    """Return random inputs, attributes and the number of outputs of GroupNormalization."""
    g = int(choice(rng, 1, 2, 3))
    c = g * int(rng.integers(1, 3))
    dims = (2, c, *a_shape(rng, 1, 3))
    k = g if opset < 21 else c
    return ([array(rng, dims), array(rng, (k,)), array(rng, (k,))], {"num_groups": g}, 1)


def rmsnorm(rng, opset):
    """Return random inputs, attributes and the number of outputs of RMSNormalization."""
    dims = a_shape(rng, 2, 4)
    ax = an_axis(rng, len(dims))
    return ([array(rng, dims), array(rng, dims[ax:])], {"axis": ax}, 1)


def lpnorm(rng, opset):
    """Return random inputs, attributes and the number of outputs of LpNormalization."""
    dims = a_shape(rng, 1, 4)
    return ([array(rng, dims)], {"axis": an_axis(rng, len(dims)), "p": int(choice(rng, 1, 2))}, 1)


def mvn(rng, opset):
    """Return random inputs, attributes and the number of outputs of MeanVarianceNormalization."""
    dims = a_shape(rng, 4, 4)
    return (
        [array(rng, dims)],
        ({"axes": [0, 2, 3]} if chance(rng) else {}) if opset >= 9 else {},
        1,
    )


def roialign(rng, opset):
    """Return random inputs, attributes and the number of outputs of RoiAlign."""
    attrs = {
        "output_height": int(rng.integers(1, 4)),
        "output_width": int(rng.integers(1, 4)),
        "sampling_ratio": int(choice(rng, 0, 1, 2)),
        "spatial_scale": float(choice(rng, 1, 0.5)),
    }
    if chance(rng):
        attrs["mode"] = choice(rng, "avg", "max")
    if opset >= 16 and chance(rng):
        attrs["coordinate_transformation_mode"] = choice(rng, "half_pixel", "output_half_pixel")
    k = int(rng.integers(1, 4))
    lo = rng.uniform(0, 5, (k, 2))
    hi = lo + rng.uniform(0.5, 6, (k, 2))
    return (
        [
            array(rng, (2, 2, 8, 9)),
            np.concatenate([lo, hi], 1).astype(FLOAT),
            rng.integers(0, 2, k).astype(np.int64),
        ],
        attrs,
        1,
    )


def maxroipool(rng, opset):
    """Return random inputs, attributes and the number of outputs of MaxRoiPool."""
    k = int(rng.integers(1, 4))
    lo = rng.integers(0, 4, (k, 2))
    hi = lo + rng.integers(0, 5, (k, 2))
    return (
        [
            array(rng, (2, 2, 8, 9)),
            np.concatenate([rng.integers(0, 2, (k, 1)), lo, hi], 1).astype(FLOAT),
        ],
        {
            "pooled_shape": [int(x) for x in rng.integers(1, 4, 2)],
            "spatial_scale": float(choice(rng, 1, 0.5)),
        },
        1,
    )


def gridsample(rng, opset):
    """Return random inputs, attributes and the number of outputs of GridSample."""
    three = opset >= 20 and chance(rng, 0.3)
    sp = (3, 4, 5) if three else (4, 5)
    attrs = {
        "padding_mode": choice(rng, "zeros", "border", "reflection"),
        "align_corners": int(chance(rng)),
        "mode": (
            choice(rng, "nearest", "bilinear", *["bicubic"])
            if opset < 20
            else choice(rng, "nearest", "linear", *([] if three else ["cubic"]))
        ),
    }
    out = (2, 3, 4) if three else (3, 4)
    return ([array(rng, (2, 2, *sp)), array(rng, (2, *out, len(sp)), FLOAT, -1.3, 1.3)], attrs, 1)


def qlinconv(rng, opset):
    """Return random inputs, attributes and the number of outputs of QLinearConv."""
    x, attrs, _ = conv(rng, opset)
    X = rng.integers(0, 255, x[0].shape).astype(np.uint8)
    wt = choice(rng, np.uint8, np.int8)
    W = rng.integers(0 if wt == np.uint8 else -100, 100, x[1].shape).astype(wt)
    return (
        [
            X,
            np.array(0.02, FLOAT),
            np.array(3, np.uint8),
            W,
            np.array(0.03, FLOAT),
            np.array(2, wt),
            np.array(0.5, FLOAT),
            np.array(5, np.uint8),
        ],
        attrs,
        1,
    )


def convint(rng, opset):
    """Return random inputs, attributes and the number of outputs of ConvInteger."""
    x, attrs, _ = conv(rng, opset)
    return (
        [
            rng.integers(0, 255, x[0].shape).astype(np.uint8),
            rng.integers(0, 255, x[1].shape).astype(np.uint8),
            np.array(3, np.uint8),
        ],
        attrs,
        1,
    )


def rotary(rng, opset):
    """Return random inputs, attributes and the number of outputs of RotaryEmbedding."""
    B, H, S, D = (2, 2, 3, 4)
    x = array(rng, (B, H, S, D))
    attrs = {}
    if chance(rng):
        attrs["interleaved"] = 1
    rd = D
    if chance(rng, 0.4):
        attrs["rotary_embedding_dim"] = rd = 2
    if chance(rng):
        x = array(rng, (B, S, H * D))
        attrs["num_heads"] = H
    if chance(rng):
        return (
            [
                x,
                array(rng, (8, rd // 2)),
                array(rng, (8, rd // 2)),
                rng.integers(0, 8, (B, S)).astype(np.int64),
            ],
            attrs,
            1,
        )
    return ([x, array(rng, (B, S, rd // 2)), array(rng, (B, S, rd // 2))], attrs, 1)


def attention(rng, opset):
    """Return random inputs, attributes and the number of outputs of Attention."""
    B, H, Sq, Sk, D, Dv = (
        2,
        int(choice(rng, 2, 4)),
        int(rng.integers(1, 4)),
        int(rng.integers(1, 5)),
        4,
        int(choice(rng, 4, 3)),
    )
    KV = int(choice(rng, H, 2))
    attrs = {}
    q, k, vv = (array(rng, (B, H, Sq, D)), array(rng, (B, KV, Sk, D)), array(rng, (B, KV, Sk, Dv)))
    if chance(rng):
        attrs.update(q_num_heads=H, kv_num_heads=KV)
        q = q.transpose(0, 2, 1, 3).reshape(B, Sq, -1).copy()
        k = k.transpose(0, 2, 1, 3).reshape(B, Sk, -1).copy()
        vv = vv.transpose(0, 2, 1, 3).reshape(B, Sk, -1).copy()
    if chance(rng, 0.3):
        attrs["is_causal"] = 1
    if chance(rng, 0.3):
        attrs["scale"] = 0.3
    if chance(rng, 0.3):
        attrs["softcap"] = 2.0
    ins = [q, k, vv]
    if chance(rng):
        ins.append(
            array(rng, (Sq, Sk), bool) | True
            if chance(rng, 0.3)
            else array(rng, choice(rng, (Sq, Sk), (B, 1, Sq, Sk), (B, H, Sq, Sk)))
        )
    return (ins, attrs, 1)


def col2im(rng, opset):
    """Return random inputs, attributes and the number of outputs of Col2Im."""
    k = (2, 2)
    h, w = (5, 6)
    d = int(choice(rng, 1, 2))
    p = int(choice(rng, 0, 1))
    st = int(choice(rng, 1, 2))
    L = ((h + 2 * p - d * (k[0] - 1) - 1) // st + 1) * ((w + 2 * p - d * (k[1] - 1) - 1) // st + 1)
    return (
        [array(rng, (2, 3 * 4, L)), np.array([h, w], np.int64), np.array(k, np.int64)],
        {"dilations": [d, d], "pads": [p] * 4, "strides": [st, st]},
        1,
    )


def affine(rng, opset):
    """Return random inputs, attributes and the number of outputs of AffineGrid."""
    return (
        [array(rng, (2, 2, 3)), np.array([2, 3, 4, 5], np.int64)],
        {"align_corners": int(chance(rng))},
        1,
    )


def deform(rng, opset):
    """Return random inputs, attributes and the number of outputs of DeformConv."""
    return (
        [array(rng, (1, 2, 5, 5)), array(rng, (3, 2, 2, 2)), array(rng, (1, 8, 4, 4))]
        + ([array(rng, (3,))] if chance(rng) else []),
        {"kernel_shape": [2, 2]},
        1,
    )
