"""Decoders written node by node, with faults on request, and the same without a cache in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, DIM, WORDS, TABLE = 2, 16, 40, 40
SIZE = HEADS * DIM
ENCODED = 5
"""Positions of an encoder."""

_KINDS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Spec:
    """A decoder.

    Attributes:
        layers: how many.
        kv_heads: heads of keys and values.
        rotary: whether positions turn queries and keys; else they are rows of a table.
        cache: ``grow``, ``scatter`` (ScatterND) or ``tensor`` (TensorScatter).
        op: whether attention is a GroupQueryAttention of ONNX Runtime.
        merged: whether prompt and decoding are two branches of an `If`.
        encoder: whether it attends to the states of an encoder: ``none``, ``hidden`` or ``cached``.
        mask: whether it has an attention mask.
        window: how many positions a token sees; 0 for all.
        cache_type: the data type of the cache.
        slots: how many slots a fixed cache has.
        nameless: whether names of states say nothing.
        rounded: the type that weights are rounded to.
        keep_unrotated: whether keys are cached before they are turned.
        blank_pads: whether pads are zeros from the first layer on.
        seed: of the weights.
    """

    layers: int = 2
    kv_heads: int = HEADS
    rotary: bool = False
    cache: str = "grow"
    op: bool = False
    merged: bool = False
    encoder: str = "none"
    mask: bool = False
    window: int = 0
    cache_type: str = "float32"
    slots: int = 24
    nameless: bool = False
    rounded: str = ""
    keep_unrotated: bool = False
    blank_pads: bool = False
    seed: int = 0


def weights_of(spec: Spec) -> dict[str, Array]:
    """Return the weights: scores of tokens are far apart, so that rounding changes none."""
    draw = np.random.default_rng(spec.seed)

    def matrix(*shape: int, times: float = 1.0) -> Array:
        return (draw.standard_normal(shape) * times / shape[0] ** 0.5).astype("f")

    kept = {"emb": matrix(WORDS, SIZE, times=6.0), "pos_table": matrix(TABLE, SIZE, times=5.0)}
    for at in range(spec.layers):
        kept[f"wq{at}"] = matrix(SIZE, SIZE, times=1.5)
        for part in "kv":
            kept[f"w{part}{at}"] = matrix(SIZE, spec.kv_heads * DIM, times=1.5)
            kept[f"we{part}{at}"] = matrix(SIZE, SIZE, times=1.5)
        kept[f"wo{at}"] = matrix(SIZE, SIZE)
        kept[f"weq{at}"] = matrix(SIZE, SIZE, times=1.5)
        kept[f"weo{at}"] = matrix(SIZE, SIZE)
        kept[f"up{at}"] = matrix(SIZE, 2 * SIZE)
        kept[f"down{at}"] = matrix(2 * SIZE, SIZE)
        kept[f"norm{at}"] = (1 + 0.1 * draw.standard_normal(SIZE)).astype("f")
    kept["head"] = matrix(SIZE, WORDS, times=5.0)
    kept["cos"], kept["sin"] = rotary(10000.0)
    if spec.rounded:
        import ml_dtypes

        kind = np.dtype(getattr(ml_dtypes, spec.rounded, spec.rounded))
        kept = {name: each.astype(kind).astype("f") for name, each in kept.items()}
    return kept


def rotary(base: float) -> tuple[Array, Array]:
    """Return the tables of a rotary embedding."""
    angles = np.arange(TABLE)[:, None] * base ** (-np.arange(0, DIM, 2) / DIM)[None]
    return np.cos(angles).astype("f"), np.sin(angles).astype("f")


# The truth: no cache, all positions at once, in float64.


def truth(
    spec: Spec,
    tokens: Sequence[int],
    encoded: Array | None = None,
    pads: int = 0,
    weights: Mapping[str, Array] | None = None,
) -> Array:
    """Return the scores of every position of a text, of which the first are pads."""
    w = {name: each.astype(float) for name, each in (weights or weights_of(spec)).items()}
    count = len(tokens)
    places = np.maximum(np.arange(count) - pads, 0)
    x = w["emb"][list(tokens)]
    if not spec.rotary:
        x = x + w["pos_table"][places]
    index = np.arange(count)
    seen = (index[None] <= index[:, None]) & (index[None] >= pads)
    if spec.window:
        seen &= index[None] > index[:, None] - spec.window
    for at in range(spec.layers):
        h = _normed(x, w[f"norm{at}"])
        q, k, v = (_heads(h @ w[f"w{part}{at}"]) for part in "qkv")
        if spec.rotary:
            q, k = (_turned(each, w["cos"][places], w["sin"][places]) for each in (q, k))
        k, v = (np.repeat(each, HEADS // spec.kv_heads, 0) for each in (k, v))
        x = x + _attended(q, k, v, seen) @ w[f"wo{at}"]
        if spec.encoder != "none":
            assert encoded is not None
            q = _heads(_normed(x, w[f"norm{at}"]) @ w[f"weq{at}"])
            k, v = (_heads(encoded.astype(float) @ w[f"we{part}{at}"]) for part in "kv")
            x = x + _attended(q, k, v, np.ones((count, len(encoded)), bool)) @ w[f"weo{at}"]
        x = x + np.maximum(x @ w[f"up{at}"], 0) @ w[f"down{at}"]
    scores: Array = _normed(x, np.ones(SIZE)) @ w["head"]
    return scores


def _normed(x: Array, scale: Array) -> Array:
    result: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale
    return result


def _heads(x: Array) -> Array:
    return x.reshape(len(x), -1, DIM).transpose(1, 0, 2)


def _turned(x: Array, cos: Array, sin: Array) -> Array:
    a, b = x[..., : DIM // 2], x[..., DIM // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def _attended(q: Array, k: Array, v: Array, seen: Array) -> Array:
    scores = np.where(seen, q @ k.transpose(0, 2, 1) / DIM**0.5, -1e9)
    share = np.exp(scores - scores.max(-1, keepdims=True))
    mixed: Array = (share / share.sum(-1, keepdims=True)) @ v
    return mixed.transpose(1, 0, 2).reshape(len(seen), -1)


# The same as a graph.


@dataclass
class _Net:
    weights: dict[str, Array]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    prefix: str = ""
    wrong: set[str] = field(default_factory=set)

    def op(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        output = self.prefix + output
        self.nodes.append(
            helper.make_node(kind, inputs, [output], name=f"n_{output}", **attributes)
        )
        return output

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        array = np.array(value, dtype)
        name = (
            f"c_{array.dtype}_{'x'.join(map(str, array.shape))}_{'_'.join(map(str, array.ravel()))}"
        )
        self.weights[name] = array
        return name

    def blame(self, *names: str) -> None:
        self.wrong.update(names)


def decoder(spec: Spec, fault: str = "") -> tuple[onnx.ModelProto, set[str]]:
    """Return a decoder, and the nodes and tensors that may be named for a fault."""
    net = _Net(weights_of(spec))
    _change_weights(net, fault)
    states = [f"{at}.{part}" for at in range(spec.layers) for part in ("key", "value")]
    names = {}
    for number, state in enumerate(states):
        names[f"past.{state}"] = f"arg{number}" if spec.nameless else f"past_key_values.{state}"
        names[f"present.{state}"] = f"getitem_{number}" if spec.nameless else f"present.{state}"
    cached = [f"{at}.encoder.{part}" for at in range(spec.layers) for part in ("key", "value")]
    cached = cached if spec.encoder == "cached" else []
    inputs = [_value("input_ids", TensorProto.INT64, ["batch", "seq"])]
    if spec.mask:
        inputs.append(_value("attention_mask", TensorProto.INT64, ["batch", "total"]))
    if not spec.op:
        inputs.append(_value("position_ids", TensorProto.INT64, ["batch", "seq"]))
    else:
        inputs.append(_value("seqlens_k", TensorProto.INT32, ["batch"]))
        inputs.append(_value("total_sequence_length", TensorProto.INT32, [1]))
    if spec.cache == "scatter":
        inputs.append(_value("cache_position", TensorProto.INT64, ["seq"]))
    if spec.cache == "tensor":
        inputs.append(_value("write_indices", TensorProto.INT64, [1]))
    if spec.merged:
        inputs.append(_value("use_cache_branch", TensorProto.BOOL, [1]))
    if spec.encoder != "none":
        shape = ["batch", ENCODED, SIZE]
        inputs.append(_value("encoder_hidden_states", TensorProto.FLOAT, shape))
    kind = _KINDS[spec.cache_type]
    old, new = (spec.slots, spec.slots) if spec.cache != "grow" else ("past", "all")
    outputs = [_value("logits", TensorProto.FLOAT, ["batch", "seq", WORDS])]
    for state in states:
        inputs.append(_value(names[f"past.{state}"], kind, ["batch", spec.kv_heads, old, DIM]))
        outputs.append(_value(names[f"present.{state}"], kind, ["batch", spec.kv_heads, new, DIM]))
    for state in cached:
        for side, into in (("past", inputs), ("present", outputs)):
            name = f"{side}_key_values.{state}" if side == "past" else f"{side}.{state}"
            into.append(_value(name, TensorProto.FLOAT, ["batch", HEADS, f"enc_{side}", DIM]))
    made = [each.name for each in outputs]
    if spec.merged:
        branches = []
        for prefix, has_past in (("d_", True), ("p_", False)):
            inner = _Net(net.weights, prefix=prefix, wrong=net.wrong)
            results = _body(inner, spec, fault, names, has_past)
            values = [
                _value(name, kind_of.type.tensor_type.elem_type, None)
                for name, kind_of in zip(results, outputs)
            ]
            branches.append(helper.make_graph(inner.nodes, f"{prefix}branch", [], values))
        flag = net.op("Squeeze", ["use_cache_branch"], "use_past")
        net.nodes.append(
            helper.make_node(
                "If", [flag], made, name="n_if", then_branch=branches[0], else_branch=branches[1]
            )
        )
        if fault and net.wrong:
            net.blame("n_if")
    else:
        for source, name in zip(_body(net, spec, fault, names, True), made):
            net.op("Identity", [source], name)
    tensors = [numpy_helper.from_array(each, name) for name, each in net.weights.items()]
    graph = helper.make_graph(net.nodes, "decoder", inputs, outputs, tensors)
    opset = 24 if spec.cache == "tensor" else 18
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    _without_idle_weights(model)
    return model, net.wrong | _added(spec, fault, model)


def _added(spec: Spec, fault: str, model: onnx.ModelProto) -> set[str]:
    """Return the nodes that a fault adds."""
    if not fault:
        return set()
    right = {node.name for graph in _graphs(decoder(spec)[0].graph) for node in graph.node}
    return {node.name for graph in _graphs(model.graph) for node in graph.node} - right


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _change_weights(net: _Net, fault: str) -> None:
    if fault == "table end":
        net.weights["pos_table"][9:] *= -1.2
        net.blame("n_places", "n_p_places", "n_d_places")
    if fault == "rotary base":
        net.weights["cos"], net.weights["sin"] = rotary(500.0)
    if fault == "rotary table end":
        net.weights["cos"][8:], net.weights["sin"][8:] = (
            net.weights["cos"][:-8],
            net.weights["sin"][:-8],
        )
    if fault == "layer weight":
        net.weights["wv1"] = net.weights["wv1"] * np.float32(1.3)
        net.blame("n_new_value1", "n_d_new_value1", "n_p_new_value1")


def _value(name: str, kind: int, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _body(net: _Net, spec: Spec, fault: str, names: Mapping[str, str], has_past: bool) -> list[str]:
    """Write one decoder; return the names of its results."""
    op, const = net.op, net.const
    is_slots = spec.cache != "grow"
    in_decoding = has_past if spec.merged else True
    past0 = names["past.0.key"]
    length = op("Gather", [op("Shape", ["input_ids"], "ids_shape"), const(1)], "length")
    if spec.op or not has_past:
        past = const(0)
    elif spec.cache == "scatter":
        past = op("Gather", ["cache_position", const(0)], "past_length")
    elif spec.cache == "tensor":
        past = op("Squeeze", ["write_indices"], "past_length")
    else:
        past = op("Gather", [op("Shape", [past0], "past_shape"), const(2)], "past_length")
    if fault == "past length frozen":
        given = past
        later = op("Greater", [given, const(0)], "is_later")
        past = op("Where", [later, const(4), given], "frozen_past")
        net.blame(
            "n_frozen_past", "n_rows", "n_rows_1", "n_total", "n_causal", "n_columns", "n_end"
        )
    x = op("Gather", ["emb", "input_ids"], "words")
    positions = "" if spec.op else "position_ids"
    if fault == "position" and in_decoding:
        more = op("Cast", [op("Greater", [past, const(0)], "has_past")], "one_more", to=7)
        positions = op("Add", [positions, more], "positions")
        net.blame("n_positions", "n_one_more", "n_has_past", "n_d_positions", "n_d_one_more")
    if fault == "position restarts" and in_decoding:
        positions = op("Sub", [positions, past], "positions")
        net.blame("n_positions", "n_d_positions")
    cos = sin = ""
    if spec.rotary and not spec.op:
        cos, sin = (
            op(
                "Unsqueeze",
                [op("Gather", [part, positions], f"{part}_rows"), const([1])],
                f"{part}_of",
            )
            for part in ("cos", "sin")
        )
        if fault.startswith("rotary"):
            net.blame(*(f"n_{net.prefix}{part}_rows" for part in ("cos", "sin")))
            net.blame(*(f"n_{net.prefix}{part}_of" for part in ("cos", "sin")))
    elif not spec.rotary:
        places = op("Gather", ["pos_table", positions], "places")
        if fault.startswith("position"):
            net.blame(f"n_{places}")
        x = op("Add", [x, places], "x0")
    if spec.blank_pads:  # What pads hold reaches nobody.
        own = op(
            "Slice",
            [
                "attention_mask",
                op("Unsqueeze", [op("Neg", [length], "minus"), const([0])], "from"),
                const([2**60]),
                const([1]),
            ],
            "own_mask",
        )
        own = op("Unsqueeze", [op("Cast", [own], "own_cast", to=1), const([2])], "own_1")
        x = op("Mul", [x, own], "x_blank")
    shape = const([0, -1, HEADS, DIM])
    kv_shape = const([0, -1, spec.kv_heads, DIM])
    flat = const([0, -1, SIZE])
    root = const(DIM**0.5, np.float32)
    seen = ""
    presents: dict[str, str] = {}
    total = ""
    if not spec.op:
        whole = given if fault == "past length frozen" else past
        total = const(spec.slots) if is_slots and has_past else op("Add", [whole, length], "total")
        rows = op("Range", [past, op("Add", [past, length], "end"), const(1)], "rows")
        rows = op("Unsqueeze", [rows, const([1])], "rows_1")
        columns = op("Range", [const(0), total, const(1)], "columns")
        compare = "Less" if fault == "mask off by one" else "LessOrEqual"
        if compare == "Less" and not has_past:
            compare = "LessOrEqual"
        seen = op(compare, [columns, rows], "causal")
        if fault == "mask off by one" and in_decoding:
            # In a step of one token, the last slot; the first token still sees itself.
            own = op("Equal", [op("Add", [columns, past], "shift"), rows], "first_only")
            seen = op("Or", [seen, own], "causal_off")
            net.blame("n_causal", "n_d_causal", "n_causal_off", "n_first_only", "n_seen")
            net.blame("n_d_causal_off", "n_d_first_only")
        if fault == "frozen mask":
            near = op("Less", [columns, const(7)], "near")
            seen = op("And", [seen, near], "seen_near")
            net.blame(f"n_{near}", f"n_{seen}")
        window = {"window smaller": spec.window - 2}.get(fault, spec.window)
        if fault == "window dropped":
            window = 0
        if fault.startswith("window"):
            net.blame(
                *(f"n_{net.prefix}{part}" for part in ("edge", "far", "seen_window", "causal"))
            )
            net.blame(*(f"n_{net.prefix}masked{at}" for at in range(spec.layers)))
        if window > 0:
            far = op("Greater", [columns, op("Sub", [rows, const(window)], "edge")], "far")
            seen = op("And", [seen, far], "seen_window")
        if spec.mask:
            mask = op("Cast", ["attention_mask"], "mask_bool", to=9)
            if is_slots and has_past:  # Slots behind the text are not read.
                room = op(
                    "Sub",
                    [
                        total,
                        op(
                            "Gather",
                            [op("Shape", ["attention_mask"], "mask_shape"), const(1)],
                            "mask_length",
                        ),
                    ],
                    "room",
                )
                pads = op(
                    "Concat",
                    [const([0, 0, 0]), op("Unsqueeze", [room, const([0])], "room_1")],
                    "pads",
                    axis=0,
                )
                mask = op(
                    "Cast",
                    [op("Pad", [op("Cast", [mask], "mask_int", to=7), pads], "mask_padded")],
                    "mask_slots",
                    to=9,
                )
            if fault == "mask loses padding" and in_decoding:
                every = op("GreaterOrEqual", [columns, const(0)], "every")
                is_one = op("Greater", [past, const(0)], "is_decoding")
                every = op(
                    "And", [op("Unsqueeze", [every, const([0])], "every_1"), is_one], "every_later"
                )
                mask = op("Or", [every, mask], "mask_lost")
                net.blame(
                    f"n_{net.prefix}mask_lost",
                    f"n_{net.prefix}mask_4d",
                    f"n_{net.prefix}seen_mask",
                    f"n_{net.prefix}is_decoding",
                )
            mask = op("Unsqueeze", [mask, const([1, 2])], "mask_4d")
            seen = op("And", [op("Unsqueeze", [seen, const([0, 1])], "seen_4d"), mask], "seen_mask")
    for at in range(spec.layers):
        h = _norm(net, x, f"norm{at}", f"h{at}")
        q, k, v = (
            op("MatMul", [h, f"w{part}{at}"], f"{name}{at}")
            for part, name in (("q", "query"), ("k", "new_key"), ("v", "new_value"))
        )
        if spec.op:
            x = _grouped(net, spec, fault, names, at, x, (q, k, v), presents)
        else:
            q = _split(net, q, shape, f"q{at}")
            k, v = _split(net, k, kv_shape, f"k{at}"), _split(net, v, kv_shape, f"v{at}")
            if spec.rotary:
                q = _turn(net, q, cos, sin, f"q_rot{at}")
                unturned = k
                k = _turn(net, k, cos, sin, f"k_rot{at}")
            if spec.keep_unrotated:
                k = unturned
            keys, values = _cached(net, spec, fault, names, at, (k, v), has_past, past, in_decoding)
            presents[f"{at}.key"], presents[f"{at}.value"] = keys, values
            if spec.rotary and fault == "unrotated key handed on" and at == 0:
                presents["0.key"] = _append(
                    net, spec, names["past.0.key"], unturned, past, "present_unrotated", has_past
                )
                net.blame(
                    "present.0.key",
                    names["present.0.key"],
                    "n_present_unrotated",
                    f"n_{net.prefix}present_unrotated",
                    "n_" + names["present.0.key"],
                )
            if spec.rotary and fault == "rotated twice" and at == 0 and has_past:
                keys = _turn_whole(net, keys, total, f"keys_again{at}")
                presents["0.key"], keys = keys, presents["0.key"]
                net.blame(
                    f"n_{net.prefix}keys_again0",
                    f"n_{net.prefix}keys_again0_a",
                    f"n_{net.prefix}keys_again0_b",
                    "n_" + names["present.0.key"],
                    names["present.0.key"],
                    keys,
                    *(
                        f"n_{net.prefix}keys_again0_{p}"
                        for p in ("cos", "sin", "lo", "hi", "ac", "bs", "bc", "as")
                    ),
                )
            if spec.keep_unrotated:
                keys = _turn_whole(net, keys, total, f"keys_turned{at}")
            if spec.cache_type != "float32":
                keys, values = (
                    op("Cast", [each], f"{name}_wide{at}", to=1)
                    for each, name in ((keys, "keys"), (values, "values"))
                )
            keys, values = (
                _repeated(net, spec, fault, each, f"{name}{at}")
                for each, name in ((keys, "keys_r"), (values, "values_r"))
            )
            scores = op(
                "MatMul", [q, op("Transpose", [keys], f"kt{at}", perm=[0, 1, 3, 2])], f"qk{at}"
            )
            is_unscaled = fault == "missing scale" and at == 0 and in_decoding
            if is_unscaled and not spec.merged:
                net.blame(f"n_qk{at}", f"n_masked{at}", f"n_scores{at}", f"n_share{at}")
            if is_unscaled:
                net.blame(
                    f"n_{net.prefix}qk{at}",
                    f"n_{net.prefix}masked{at}",
                    f"n_{net.prefix}scores{at}",
                )
            scores = scores if is_unscaled else op("Div", [scores, root], f"scores{at}")
            masked = op("Where", [seen, scores, const(-1e9, np.float32)], f"masked{at}")
            share = op("Softmax", [masked], f"share{at}", axis=-1)
            mixed = op(
                "Transpose",
                [op("MatMul", [share, values], f"mix{at}")],
                f"mixed{at}",
                perm=[0, 2, 1, 3],
            )
            weight = f"wo{at}"
            if fault == "branch weight" and in_decoding and at == 0:
                weight = "wo1"
                net.blame(f"n_{net.prefix}out0")
            x = op(
                "Add",
                [
                    x,
                    op("MatMul", [op("Reshape", [mixed, flat], f"joined{at}"), weight], f"out{at}"),
                ],
                f"attended{at}",
            )
        if spec.encoder != "none":
            x = _cross(net, spec, fault, at, x, has_past, in_decoding, presents, shape, flat)
        up = op("Relu", [op("MatMul", [x, f"up{at}"], f"up_{at}")], f"relu{at}")
        before = x
        x = op("Add", [x, op("MatMul", [up, f"down{at}"], f"down_{at}")], f"x{at + 1}")
        if fault == "output before last layer" and at == spec.layers - 1:
            net.blame("logits", "n_logits", "n_logits_of", "n_last", f"n_x{at + 1}")
            x = before
    last = _norm(net, x, "", "last")
    logits = op("MatMul", [last, "head"], "logits_of")
    if fault == "logits of first" and in_decoding:
        net.blame(f"n_{net.prefix}logits_of", "logits", "n_logits")
    results = _wires(net, spec, fault, names, presents, has_past)
    return [logits, *results]


def _wires(
    net: _Net,
    spec: Spec,
    fault: str,
    names: Mapping[str, str],
    presents: dict[str, str],
    has_past: bool,
) -> list[str]:
    """Return what each output that is a state is wired to."""
    wires = dict(presents)
    swaps = {
        "swapped k and v": ("0.key", "0.value"),
        "swapped layers": ("0.key", "1.key"),
        "swapped layers of values": ("0.value", "1.value"),
        "swapped encoder": ("0.encoder.key", "1.encoder.key"),
    }
    if fault in swaps:
        one, other = swaps[fault]
        wires[one], wires[other] = presents[other], presents[one]
        for each in (one, other):
            net.blame(
                f"present.{each}",
                names.get(f"present.{each}", ""),
                "n_" + names.get(f"present.{each}", ""),
            )
            net.blame(presents[each], f"n_{presents[each]}")
            net.blame(f"past_key_values.{each}")
    if fault == "stale" and has_past:
        wires["1.value"] = names["past.1.value"]
        net.blame("present.1.value", names["present.1.value"], "n_" + names["present.1.value"])
    if fault == "cache of layer 0 twice":
        wires["1.key"] = presents["0.key"]
        net.blame(
            "present.1.key",
            names["present.1.key"],
            "n_" + names["present.1.key"],
            presents["0.key"],
            f"n_{presents['0.key']}",
        )
    if fault == "cache reshaped":
        heads, slots = spec.kv_heads, presents["0.value"]
        turned = net.op("Transpose", [slots], "turned_away", perm=[0, 2, 1, 3])
        back = net.op("Shape", [slots], "shape_of_value")
        wires["0.value"] = net.op("Reshape", [turned, back], "wrong_layout")
        assert heads > 1
        net.blame(
            "present.0.value",
            names["present.0.value"],
            "n_" + names["present.0.value"],
            f"n_{net.prefix}wrong_layout",
            f"n_{net.prefix}turned_away",
        )
    if fault == "cache scaled":
        wires["0.key"] = net.op(
            "Mul", [presents["0.key"], net.const(DIM**-0.5, np.float32)], "scaled_key"
        )
        net.blame(
            "present.0.key",
            names["present.0.key"],
            "n_" + names["present.0.key"],
            f"n_{net.prefix}scaled_key",
        )
    return [
        net.op("Identity", [wire], f"res_{state}") if spec.merged else wire
        for state, wire in wires.items()
        if "encoder" not in state
    ] + [
        net.op("Identity", [wire], f"res_{state}") if spec.merged else wire
        for state, wire in wires.items()
        if "encoder" in state
    ]


def _norm(net: _Net, x: str, scale: str, name: str) -> str:
    square = net.op("Mul", [x, x], f"{name}_square")
    mean = net.op("ReduceMean", [square, net.const([-1])], f"{name}_mean")
    root = net.op(
        "Sqrt", [net.op("Add", [mean, net.const(1e-5, np.float32)], f"{name}_eps")], f"{name}_root"
    )
    result = net.op("Div", [x, root], f"{name}_normed" if scale else name)
    return net.op("Mul", [result, scale], name) if scale else result


def _split(net: _Net, x: str, shape: str, name: str) -> str:
    return net.op(
        "Transpose", [net.op("Reshape", [x, shape], f"{name}_rows")], name, perm=[0, 2, 1, 3]
    )


def _turn(net: _Net, x: str, cos: str, sin: str, name: str) -> str:
    a = net.op("Slice", [x, net.const([0]), net.const([DIM // 2]), net.const([3])], f"{name}_lo")
    b = net.op("Slice", [x, net.const([DIM // 2]), net.const([DIM]), net.const([3])], f"{name}_hi")
    left = net.op(
        "Sub",
        [net.op("Mul", [a, cos], f"{name}_ac"), net.op("Mul", [b, sin], f"{name}_bs")],
        f"{name}_a",
    )
    right = net.op(
        "Add",
        [net.op("Mul", [b, cos], f"{name}_bc"), net.op("Mul", [a, sin], f"{name}_as")],
        f"{name}_b",
    )
    return net.op("Concat", [left, right], name, axis=3)


def _turn_whole(net: _Net, x: str, total: str, name: str) -> str:
    every = net.op("Range", [net.const(0), total, net.const(1)], f"{name}_every")
    cos, sin = (net.op("Gather", [part, every], f"{name}_{part}") for part in ("cos", "sin"))
    return _turn(net, x, cos, sin, name)


def _append(net: _Net, spec: Spec, old: str, new: str, past: str, name: str, has_past: bool) -> str:
    if spec.cache_type != "float32":
        new = net.op("Cast", [new], f"{name}_narrow", to=_KINDS[spec.cache_type])
    if not has_past:
        return new
    if spec.cache == "grow":
        return net.op("Concat", [old, new], name, axis=2)
    if spec.cache == "tensor":
        return net.op("TensorScatter", [old, new, "write_indices"], name, axis=2)
    index = net.op("Unsqueeze", ["cache_position", net.const([1])], f"{name}_index")
    turned = net.op("Transpose", [old], f"{name}_old", perm=[2, 0, 1, 3])
    rows = net.op("Transpose", [new], f"{name}_new", perm=[2, 0, 1, 3])
    written = net.op("ScatterND", [turned, index, rows], f"{name}_written")
    return net.op("Transpose", [written], name, perm=[1, 2, 0, 3])


def _cached(
    net: _Net,
    spec: Spec,
    fault: str,
    names: Mapping[str, str],
    at: int,
    new: tuple[str, str],
    has_past: bool,
    past: str,
    in_decoding: bool,
) -> tuple[str, str]:
    results = []
    for part, fresh in zip(("key", "value"), new):
        old, name = names[f"past.{at}.{part}"], f"cache_{part}{at}"
        is_here = at == 0 and part == "key" and has_past
        if fault == "past under the wrong name" and at == 1 and part == "value" and has_past:
            old = names["past.0.value"]
            net.blame(
                f"n_{net.prefix}{name}",
                old,
                names["past.1.value"],
                names["present.1.value"],
                names["present.0.value"],
                "n_" + names["present.1.value"],
                "n_" + names["present.0.value"],
                f"n_{net.prefix}{name}_old",
                f"n_{net.prefix}cache_value0",
                "present.1.value",
                f"n_{net.prefix}{name}_written",
            )
        if fault == "concat order" and is_here and spec.cache == "grow":
            results.append(net.op("Concat", [fresh, old], name, axis=2))
            net.blame(
                f"n_{net.prefix}{name}",
                "present.0.key",
                names["present.0.key"],
                "n_" + names["present.0.key"],
            )
            continue
        if fault == "oldest dropped" and is_here and spec.cache == "grow":
            size = net.op(
                "Gather", [net.op("Shape", [old], "old_shape"), net.const(2)], "old_length"
            )
            is_long = net.op("Greater", [size, net.const(6)], "is_long")
            start = net.op(
                "Unsqueeze", [net.op("Cast", [is_long], "dropped", to=7), net.const([0])], "start"
            )
            kept = net.op("Slice", [old, start, net.const([9999]), net.const([2])], "kept")
            zero = net.op("Slice", [old, net.const([0]), start, net.const([2])], "doubled")
            old = net.op("Concat", [kept, zero], "rolled", axis=2)
            net.blame(
                *(
                    f"n_{net.prefix}{each}"
                    for each in ("kept", "doubled", "rolled", "start", "dropped", "is_long", name)
                )
            )
            net.blame("present.0.key", names["present.0.key"], "n_" + names["present.0.key"])
        if fault == "wrong slot" and is_here and spec.cache == "scatter":
            off = net.op(
                "Cast", [net.op("Greater", [past, net.const(0)], "later")], "slot_off", to=7
            )
            index = net.op(
                "Unsqueeze",
                [net.op("Add", ["cache_position", off], "slot"), net.const([1])],
                "slot_index",
            )
            turned = net.op("Transpose", [old], f"{name}_old", perm=[2, 0, 1, 3])
            rows = net.op("Transpose", [fresh], f"{name}_new", perm=[2, 0, 1, 3])
            written = net.op("ScatterND", [turned, index, rows], f"{name}_written")
            results.append(net.op("Transpose", [written], name, perm=[1, 2, 0, 3]))
            net.blame(
                "n_slot",
                "n_slot_index",
                f"n_{name}_written",
                f"n_{name}",
                "present.0.key",
                "n_slot_off",
                names["present.0.key"],
                "n_" + names["present.0.key"],
            )
            continue
        if fault == "slot frozen" and is_here and spec.cache == "scatter":
            slot = net.op("Min", ["cache_position", net.const(6)], "slot")
            index = net.op("Unsqueeze", [slot, net.const([1])], "slot_index")
            turned = net.op("Transpose", [old], f"{name}_old", perm=[2, 0, 1, 3])
            rows = net.op("Transpose", [fresh], f"{name}_new", perm=[2, 0, 1, 3])
            written = net.op("ScatterND", [turned, index, rows], f"{name}_written")
            results.append(net.op("Transpose", [written], name, perm=[1, 2, 0, 3]))
            net.blame(
                "n_slot",
                "n_slot_index",
                f"n_{name}_written",
                f"n_{name}",
                "present.0.key",
                names["present.0.key"],
                "n_" + names["present.0.key"],
            )
            continue
        if fault == "wrong slot" and is_here and spec.cache == "tensor":
            off = net.op(
                "Cast",
                [net.op("Greater", ["write_indices", net.const([0])], "later")],
                "slot_off",
                to=7,
            )
            slot = net.op("Add", ["write_indices", off], "slot")
            results.append(net.op("TensorScatter", [old, fresh, slot], name, axis=2))
            net.blame(
                "n_slot",
                f"n_{name}",
                "present.0.key",
                names["present.0.key"],
                "n_" + names["present.0.key"],
                "n_slot_off",
            )
            continue
        results.append(_append(net, spec, old, fresh, past, name, has_past))
        if fault == "written before the read" and at == 0 and part == "value" and has_past:
            pass
    return results[0], results[1]


def _repeated(net: _Net, spec: Spec, fault: str, x: str, name: str) -> str:
    """Repeat heads of keys and values: each of them stands for several queries."""
    if spec.kv_heads == HEADS:
        return x
    return net.op("Concat", [x] * HEADS, name, axis=1)


def _grouped(
    net: _Net,
    spec: Spec,
    fault: str,
    names: Mapping[str, str],
    at: int,
    x: str,
    qkv: tuple[str, str, str],
    presents: dict[str, str],
) -> str:
    seqlens = "seqlens_k"
    if fault == "length off by one" and at == 0:
        has_past = net.op(
            "Cast",
            [net.op("Greater", [seqlens, net.const([5], np.int32)], "is_later")],
            "later",
            to=6,
        )
        seqlens = net.op("Sub", [seqlens, has_past], "seqlens_off")
        net.blame(
            "n_seqlens_off",
            "n_later",
            "n_is_later",
            "n_attention0",
            "present.0.key",
            "n_present.0.key",
            "n_present.0.value",
            "present.0.value",
        )
    output = f"attention{at}"
    attributes: dict[str, Any] = {
        "num_heads": HEADS,
        "kv_num_heads": spec.kv_heads,
        "do_rotary": int(spec.rotary),
    }
    window = spec.window
    if fault == "window smaller" and at == 0:
        window -= 2
        net.blame("n_attention0")
    if window:
        attributes["local_window_size"] = window
    if fault == "missing scale" and at == 0:
        attributes["scale"] = 1.0
        net.blame("n_attention0")
    if fault.startswith("rotary"):
        net.blame(*(f"n_attention{layer}" for layer in range(spec.layers)))
    results = [output, f"cache_key{at}", f"cache_value{at}"]
    tables = ["cos", "sin"] if spec.rotary else []
    net.nodes.append(
        helper.make_node(
            "GroupQueryAttention",
            [
                *qkv,
                names[f"past.{at}.key"],
                names[f"past.{at}.value"],
                seqlens,
                "total_sequence_length",
                *tables,
            ],
            results,
            name=f"n_{output}",
            domain="com.microsoft",
            **attributes,
        )
    )
    presents[f"{at}.key"], presents[f"{at}.value"] = results[1:]
    return net.op("Add", [x, net.op("MatMul", [output, f"wo{at}"], f"out{at}")], f"attended{at}")


def _cross(
    net: _Net,
    spec: Spec,
    fault: str,
    at: int,
    x: str,
    has_past: bool,
    in_decoding: bool,
    presents: dict[str, str],
    shape: str,
    flat: str,
) -> str:
    op = net.op
    q = _split(
        net,
        op("MatMul", [_norm(net, x, f"norm{at}", f"hc{at}"), f"weq{at}"], f"cq{at}"),
        shape,
        f"cqh{at}",
    )
    sides = []
    for part, name in (("k", "key"), ("v", "value")):
        if spec.encoder == "cached" and has_past:
            side = f"past_key_values.{at}.encoder.{name}"
            if fault == "encoder of another layer" and at == 1 and part == "v":
                side = "past_key_values.0.encoder.value"
                net.blame(
                    f"n_{net.prefix}cmix1",
                    f"n_{net.prefix}cout1",
                    "present.1.encoder.value",
                    side,
                    "n_if",
                )
        else:
            side = _split(
                net,
                op("MatMul", ["encoder_hidden_states", f"we{part}{at}"], f"e{part}{at}"),
                shape,
                f"enc_{name}{at}",
            )
            if fault == "encoder weight" and at == 0 and part == "v":
                side = op("Mul", [side, net.const(1.4, np.float32)], "enc_scaled")
                net.blame(f"n_{net.prefix}enc_scaled", f"n_{net.prefix}cmix0")
        if spec.encoder == "cached":
            presents[f"{at}.encoder.{name}"] = side
        sides.append(side)
    scores = op(
        "Div",
        [
            op(
                "MatMul",
                [q, op("Transpose", [sides[0]], f"ckt{at}", perm=[0, 1, 3, 2])],
                f"cqk{at}",
            ),
            net.const(DIM**0.5, np.float32),
        ],
        f"cscores{at}",
    )
    mixed = op("MatMul", [op("Softmax", [scores], f"cshare{at}", axis=-1), sides[1]], f"cmix{at}")
    mixed = op(
        "Reshape",
        [op("Transpose", [mixed], f"cmixed{at}", perm=[0, 2, 1, 3]), flat],
        f"cjoined{at}",
    )
    return op("Add", [x, op("MatMul", [mixed, f"weo{at}"], f"cout{at}")], f"crossed{at}")


def _without_idle_weights(model: onnx.ModelProto) -> None:
    used: set[str] = set()

    def walk(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            used.update(node.input)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    walk(attribute.g)

    walk(model.graph)
    kept = [each for each in model.graph.initializer if each.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
