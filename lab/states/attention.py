"""Parts of a decoder: norms, rotary embeddings, attention over a cache or an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper

from .nodes import Net
from .specs import DIM, HEADS, KINDS, Spec


def add_norm(net: Net, x: str, scale: str, name: str) -> str:
    """Add an RMS normalization, and return the name of its output."""
    square = net.op("Mul", [x, x], f"{name}_square")
    mean = net.op("ReduceMean", [square, net.const([-1])], f"{name}_mean")
    root = net.op(
        "Sqrt", [net.op("Add", [mean, net.const(1e-5, np.float32)], f"{name}_eps")], f"{name}_root"
    )
    result = net.op("Div", [x, root], f"{name}_normed" if scale else name)
    return net.op("Mul", [result, scale], name) if scale else result


def split_heads(net: Net, x: str, shape: str, name: str) -> str:
    """Split [batch, length, size] into heads, and return the name of the result."""
    return net.op(
        "Transpose", [net.op("Reshape", [x, shape], f"{name}_rows")], name, perm=[0, 2, 1, 3]
    )


def turn(net: Net, x: str, cos: str, sin: str, name: str) -> str:
    """Add a rotary embedding with given cosines and sines; return the name of its output."""
    a = net.op("Slice", [x, net.const([0]), net.const([DIM // 2]), net.const([3])], f"{name}_lo")
    b = net.op("Slice", [x, net.const([DIM // 2]), net.const([DIM]), net.const([3])], f"{name}_hi")
    left = net.op(
        "Sub",
        [net.op("Mul", [a, cos], f"{name}_ac"), net.op("Mul", [b, sin], f"{name}_bs")],
        f"{name}_a",
    )
    turned_half = net.op(
        "Add",
        [net.op("Mul", [b, cos], f"{name}_bc"), net.op("Mul", [a, sin], f"{name}_as")],
        f"{name}_b",
    )
    return net.op("Concat", [left, turned_half], name, axis=3)


def turn_whole(net: Net, x: str, total: str, name: str) -> str:
    """Add a rotary embedding for positions 0 to `total`; return the name of its output."""
    every = net.op("Range", [net.const(0), total, net.const(1)], f"{name}_every")
    cos, sin = (net.op("Gather", [part, every], f"{name}_{part}") for part in ("cos", "sin"))
    return turn(net, x, cos, sin, name)


def append_states(
    net: Net, spec: Spec, old: str, new: str, past: str, name: str, has_past: bool
) -> str:
    """Append new keys or values to a cache, and return the name of the result."""
    if spec.cache_type != "float32":
        new = net.op("Cast", [new], f"{name}_narrow", to=KINDS[spec.cache_type])
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


def add_cache(
    net: Net,
    spec: Spec,
    fault: str,
    names: Mapping[str, str],
    at: int,
    new: tuple[str, str],
    has_past: bool,
    past: str,
    in_decoding: bool,
) -> tuple[str, str]:
    """Add the cache of a layer, or a faulty one; return the names of its keys and values."""
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
            kept_part = net.op("Slice", [old, start, net.const([9999]), net.const([2])], "kept")
            zero = net.op("Slice", [old, net.const([0]), start, net.const([2])], "doubled")
            old = net.op("Concat", [kept_part, zero], "rolled", axis=2)
            net.blame(
                *(
                    f"n_{net.prefix}{suffix}"
                    for suffix in ("kept", "doubled", "rolled", "start", "dropped", "is_long", name)
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
        results.append(append_states(net, spec, old, fresh, past, name, has_past))
        if fault == "written before the read" and at == 0 and part == "value" and has_past:
            pass
    return results[0], results[1]


def repeat_heads(net: Net, spec: Spec, fault: str, x: str, name: str) -> str:
    """Repeat the heads of keys or values for several queries; return the result's name."""
    if spec.kv_heads == HEADS:
        return x
    return net.op("Concat", [x] * HEADS, name, axis=1)


def add_grouped_attention(
    net: Net,
    spec: Spec,
    fault: str,
    names: Mapping[str, str],
    at: int,
    x: str,
    qkv: tuple[str, str, str],
    presents: dict[str, str],
) -> str:
    """Add GroupQueryAttention to a layer; return the name of its output."""
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


def add_cross_attention(
    net: Net,
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
    """Add cross attention to a layer; return the name of its output."""
    op = net.op
    q = split_heads(
        net,
        op("MatMul", [add_norm(net, x, f"norm{at}", f"hc{at}"), f"weq{at}"], f"cq{at}"),
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
            side = split_heads(
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
