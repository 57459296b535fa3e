"""Decoders written node by node, with faults on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .attention import (
    add_cache,
    add_cross_attention,
    add_grouped_attention,
    add_norm,
    append_states,
    repeat_heads,
    split_heads,
    turn,
    turn_whole,
)
from .nodes import Net, value_info
from .specs import DIM, ENCODED, HEADS, KINDS, SIZE, WORDS, Spec, rotary, weights_of


def decoder(spec: Spec, fault: str = "") -> tuple[onnx.ModelProto, set[str]]:
    """Return a decoder, and the names of nodes and tensors that may be called faulty."""
    net = Net(weights_of(spec))
    _change_weights(net, fault)
    states = [f"{at}.{part}" for at in range(spec.layers) for part in ("key", "value")]
    names = {}
    for number, state in enumerate(states):
        names[f"past.{state}"] = f"arg{number}" if spec.nameless else f"past_key_values.{state}"
        names[f"present.{state}"] = f"getitem_{number}" if spec.nameless else f"present.{state}"
    cached = [f"{at}.encoder.{part}" for at in range(spec.layers) for part in ("key", "value")]
    cached = cached if spec.encoder == "cached" else []
    inputs = [value_info("input_ids", TensorProto.INT64, ["batch", "seq"])]
    if spec.mask:
        inputs.append(value_info("attention_mask", TensorProto.INT64, ["batch", "total"]))
    if not spec.op:
        inputs.append(value_info("position_ids", TensorProto.INT64, ["batch", "seq"]))
    else:
        inputs.append(value_info("seqlens_k", TensorProto.INT32, ["batch"]))
        inputs.append(value_info("total_sequence_length", TensorProto.INT32, [1]))
    if spec.cache == "scatter":
        inputs.append(value_info("cache_position", TensorProto.INT64, ["seq"]))
    if spec.cache == "tensor":
        inputs.append(value_info("write_indices", TensorProto.INT64, [1]))
    if spec.merged:
        inputs.append(value_info("use_cache_branch", TensorProto.BOOL, [1]))
    if spec.encoder != "none":
        shape = ["batch", ENCODED, SIZE]
        inputs.append(value_info("encoder_hidden_states", TensorProto.FLOAT, shape))
    kind = KINDS[spec.cache_type]
    old, new = (spec.slots, spec.slots) if spec.cache != "grow" else ("past", "all")
    outputs = [value_info("logits", TensorProto.FLOAT, ["batch", "seq", WORDS])]
    for state in states:
        inputs.append(value_info(names[f"past.{state}"], kind, ["batch", spec.kv_heads, old, DIM]))
        outputs.append(
            value_info(names[f"present.{state}"], kind, ["batch", spec.kv_heads, new, DIM])
        )
    for state in cached:
        for side, into in (("past", inputs), ("present", outputs)):
            name = f"{side}_key_values.{state}" if side == "past" else f"{side}.{state}"
            into.append(value_info(name, TensorProto.FLOAT, ["batch", HEADS, f"enc_{side}", DIM]))
    output_names = [output.name for output in outputs]
    if spec.merged:
        branches = []
        for prefix, has_past in (("d_", True), ("p_", False)):
            inner = Net(net.weights, prefix=prefix, wrong=net.wrong)
            results = _body(inner, spec, fault, names, has_past)
            values = [
                value_info(name, kind_of.type.tensor_type.elem_type, None)
                for name, kind_of in zip(results, outputs)
            ]
            branches.append(helper.make_graph(inner.nodes, f"{prefix}branch", [], values))
        flag = net.op("Squeeze", ["use_cache_branch"], "use_past")
        net.nodes.append(
            helper.make_node(
                "If",
                [flag],
                output_names,
                name="n_if",
                then_branch=branches[0],
                else_branch=branches[1],
            )
        )
        if fault and net.wrong:
            net.blame("n_if")
    else:
        for source, name in zip(_body(net, spec, fault, names, True), output_names):
            net.op("Identity", [source], name)
    tensors = [numpy_helper.from_array(array, name) for name, array in net.weights.items()]
    graph = helper.make_graph(net.nodes, "decoder", inputs, outputs, tensors)
    opset = 24 if spec.cache == "tensor" else 18
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    _without_idle_weights(model)
    return model, net.wrong | _fault_nodes(spec, fault, model)


def _fault_nodes(spec: Spec, fault: str, model: onnx.ModelProto) -> set[str]:
    """Return the names of the nodes that a fault adds."""
    if not fault:
        return set()
    correct_names = {node.name for graph in _graphs(decoder(spec)[0].graph) for node in graph.node}
    return {node.name for graph in _graphs(model.graph) for node in graph.node} - correct_names


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and all subgraphs in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _change_weights(net: Net, fault: str) -> None:
    """Change weights of a network for a fault, and record the nodes that read them."""
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


def _body(net: Net, spec: Spec, fault: str, names: Mapping[str, str], has_past: bool) -> list[str]:
    """Add the nodes of one decoder, and return the names of its outputs."""
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
        past_length = past
        later = op("Greater", [past_length, const(0)], "is_later")
        past = op("Where", [later, const(4), past_length], "frozen_past")
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
    if spec.blank_pads:  # Clear padded positions, so that their values have no effect.
        own_mask = op(
            "Slice",
            [
                "attention_mask",
                op("Unsqueeze", [op("Neg", [length], "minus"), const([0])], "from"),
                const([2**60]),
                const([1]),
            ],
            "own_mask",
        )
        own_mask = op("Unsqueeze", [op("Cast", [own_mask], "own_cast", to=1), const([2])], "own_1")
        x = op("Mul", [x, own_mask], "x_blank")
    shape = const([0, -1, HEADS, DIM])
    kv_shape = const([0, -1, spec.kv_heads, DIM])
    flat = const([0, -1, SIZE])
    root = const(DIM**0.5, np.float32)
    seen = ""
    presents: dict[str, str] = {}
    total = ""
    if not spec.op:
        counted_past = past_length if fault == "past length frozen" else past
        total = (
            const(spec.slots)
            if is_slots and has_past
            else op("Add", [counted_past, length], "total")
        )
        rows = op("Range", [past, op("Add", [past, length], "end"), const(1)], "rows")
        rows = op("Unsqueeze", [rows, const([1])], "rows_1")
        columns = op("Range", [const(0), total, const(1)], "columns")
        compare = "Less" if fault == "mask off by one" else "LessOrEqual"
        if compare == "Less" and not has_past:
            compare = "LessOrEqual"
        seen = op(compare, [columns, rows], "causal")
        if fault == "mask off by one" and in_decoding:
            # Hides the last slot in a step with one token, but the first token still sees itself.
            own_mask = op("Equal", [op("Add", [columns, past], "shift"), rows], "first_only")
            seen = op("Or", [seen, own_mask], "causal_off")
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
            if is_slots and has_past:  # The model does not read slots after the text.
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
        h = add_norm(net, x, f"norm{at}", f"h{at}")
        q, k, v = (
            op("MatMul", [h, f"w{part}{at}"], f"{name}{at}")
            for part, name in (("q", "query"), ("k", "new_key"), ("v", "new_value"))
        )
        if spec.op:
            x = add_grouped_attention(net, spec, fault, names, at, x, (q, k, v), presents)
        else:
            q = split_heads(net, q, shape, f"q{at}")
            k, v = split_heads(net, k, kv_shape, f"k{at}"), split_heads(net, v, kv_shape, f"v{at}")
            if spec.rotary:
                q = turn(net, q, cos, sin, f"q_rot{at}")
                unturned = k
                k = turn(net, k, cos, sin, f"k_rot{at}")
            if spec.keep_unrotated:
                k = unturned
            keys, values = add_cache(
                net, spec, fault, names, at, (k, v), has_past, past, in_decoding
            )
            presents[f"{at}.key"], presents[f"{at}.value"] = keys, values
            if spec.rotary and fault == "unrotated key handed on" and at == 0:
                presents["0.key"] = append_states(
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
                keys = turn_whole(net, keys, total, f"keys_again{at}")
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
                keys = turn_whole(net, keys, total, f"keys_turned{at}")
            if spec.cache_type != "float32":
                keys, values = (
                    op("Cast", [tensor], f"{name}_wide{at}", to=1)
                    for tensor, name in ((keys, "keys"), (values, "values"))
                )
            keys, values = (
                repeat_heads(net, spec, fault, tensor, f"{name}{at}")
                for tensor, name in ((keys, "keys_r"), (values, "values_r"))
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
            x = add_cross_attention(
                net, spec, fault, at, x, has_past, in_decoding, presents, shape, flat
            )
        up = op("Relu", [op("MatMul", [x, f"up{at}"], f"up_{at}")], f"relu{at}")
        before = x
        x = op("Add", [x, op("MatMul", [up, f"down{at}"], f"down_{at}")], f"x{at + 1}")
        if fault == "output before last layer" and at == spec.layers - 1:
            net.blame("logits", "n_logits", "n_logits_of", "n_last", f"n_x{at + 1}")
            x = before
    last = add_norm(net, x, "", "last")
    logits = op("MatMul", [last, "head"], "logits_of")
    if fault == "logits of first" and in_decoding:
        net.blame(f"n_{net.prefix}logits_of", "logits", "n_logits")
    results = _wires(net, spec, fault, names, presents, has_past)
    return [logits, *results]


def _wires(
    net: Net,
    spec: Spec,
    fault: str,
    names: Mapping[str, str],
    presents: dict[str, str],
    has_past: bool,
) -> list[str]:
    """Return the tensor that each state output is connected to."""
    wires = dict(presents)
    swaps = {
        "swapped k and v": ("0.key", "0.value"),
        "swapped layers": ("0.key", "1.key"),
        "swapped layers of values": ("0.value", "1.value"),
        "swapped encoder": ("0.encoder.key", "1.encoder.key"),
    }
    if fault in swaps:
        first, second = swaps[fault]
        wires[first], wires[second] = presents[second], presents[first]
        for name in (first, second):
            net.blame(
                f"present.{name}",
                names.get(f"present.{name}", ""),
                "n_" + names.get(f"present.{name}", ""),
            )
            net.blame(presents[name], f"n_{presents[name]}")
            net.blame(f"past_key_values.{name}")
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


def _without_idle_weights(model: onnx.ModelProto) -> None:
    """Remove the weights of a model that no node reads."""
    used: set[str] = set()

    def walk(graph: onnx.GraphProto) -> None:
        """Collect the names that the nodes of a graph read."""
        for node in graph.node:
            used.update(node.input)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    walk(attribute.g)

    walk(model.graph)
    used_weights = [weight for weight in model.graph.initializer if weight.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(used_weights)
