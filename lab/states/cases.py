"""Cases: models with planted faults, and healthy ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import decoders, streams
from .specs import DIM, WORDS, Spec
from .two_files import split

PLAIN = {
    "mha": Spec(),
    "gqa": Spec(kv_heads=1, rotary=True),
    "gqa op": Spec(kv_heads=1, rotary=True, op=True),
    "merged": Spec(merged=True),
    "encoder": Spec(encoder="hidden"),
    "cached encoder": Spec(encoder="cached", merged=True),
    "scatter": Spec(cache="scatter", seed=1),
    "tensor scatter": Spec(cache="tensor", rotary=True),
    "masked": Spec(mask=True, seed=2),
    "masked slots": Spec(mask=True, cache="scatter", rotary=True),
    "window": Spec(window=7),
    "window op": Spec(window=7, op=True, rotary=True),
    "fp16 cache": Spec(cache_type="float16"),
    "nameless": Spec(nameless=True, rotary=True, seed=3),
    "nameless scatter": Spec(nameless=True, cache="scatter"),
    "deep": Spec(layers=4, rotary=True, mask=True, seed=4),
}

ALONE: dict[str, tuple[str, ...]] = {
    "swapped k and v": ("mha", "gqa", "scatter", "merged", "tensor scatter", "gqa op", "nameless"),
    "swapped layers": ("mha", "gqa op", "masked"),
    "swapped layers of values": ("deep", "tensor scatter", "nameless scatter"),
    "position": ("mha", "gqa", "masked", "scatter", "merged", "nameless", "deep"),
    "position restarts": ("mha", "gqa", "tensor scatter", "masked"),
    "mask loses padding": ("masked", "masked slots", "deep"),
    "past length frozen": ("mha", "gqa", "masked", "nameless"),
    "stale": ("scatter", "tensor scatter", "mha", "nameless scatter"),
    "wrong slot": ("scatter", "tensor scatter", "nameless scatter"),
    "slot frozen": ("scatter", "nameless scatter", "masked slots"),
    "concat order": ("mha", "gqa", "nameless"),
    "oldest dropped": ("mha", "nameless"),
    "unrotated key handed on": ("gqa", "nameless", "tensor scatter", "deep"),
    "rotated twice": ("gqa", "nameless", "deep"),
    "cache reshaped": ("mha", "scatter", "fp16 cache"),
    "cache scaled": ("mha", "merged", "nameless", "scatter"),
    "past under the wrong name": ("mha", "scatter", "gqa", "merged"),
    "branch weight": ("merged", "cached encoder"),
    "encoder of another layer": ("cached encoder",),
    "swapped encoder": ("cached encoder",),
    "length off by one": ("gqa op", "window op"),
    "cache of layer 0 twice": ("mha", "deep", "nameless"),
    "missing scale": ("merged",),
}
"""Faults that differ between all inputs at once and step by step, and decoders that get them."""

BESIDE: dict[str, tuple[str, ...]] = {
    **ALONE,
    "frozen mask": ("mha", "gqa", "scatter", "merged"),
    "table end": ("mha", "merged", "masked"),
    "rotary base": ("gqa", "gqa op", "nameless", "tensor scatter"),
    "rotary table end": ("gqa", "deep"),
    "layer weight": ("mha", "gqa op", "scatter"),
    "missing scale": ("mha", "gqa", "gqa op", "merged"),
    "mask off by one": ("mha", "gqa"),
    "window smaller": ("window", "window op"),
    "window dropped": ("window",),
    "output before last layer": ("mha", "gqa", "scatter"),
    "encoder weight": ("encoder", "cached encoder"),
}
"""The same, and what is wrong both ways, next to the correct model."""

STREAMS: dict[str, tuple[str, ...]] = {
    "h and c swapped": ("LSTM", "conv_lstm"),
    "layers swapped": ("GRU", "RNN", "LSTM"),
    "stale": ("LSTM", "GRU", "RNN", "conv", "conv_lstm"),
    "state not read": ("LSTM", "GRU", "RNN"),
    "state of another layer": ("LSTM", "GRU"),
    "state after the output": ("GRU", "RNN", "LSTM"),
    "state scaled": ("LSTM", "GRU", "conv_lstm"),
    "context from the wrong end": ("conv", "conv_lstm"),
    "context off by one": ("conv", "conv_lstm"),
    "context scaled": ("conv", "conv_lstm"),
    "context not read": ("conv",),
    "head weight": ("GRU", "conv"),
    "reverse": ("GRU",),
}
TWO_FILES: dict[str, tuple[str, ...]] = {
    "position": ("merged",),
    "branch weight": ("merged", "cached encoder"),
    "missing scale": ("merged",),
    "swapped encoder": ("cached encoder",),
    "cache scaled": ("merged",),
}
"""Faults of decoders whose prompt is another file."""
WRONG_BOTH_WAYS = ("head weight", "reverse")


@dataclass
class Case:
    """A model to diagnose.

    Attributes:
        name: what it is.
        kind: the kind of fault; empty for a healthy model.
        model: the model.
        reference: the correct model; None for a check of the model with itself.
        wrong: the nodes and tensors that may be named.
        spec: the decoder, or the kind of a stream.
        options: further words of the command line.
        data: inputs of each step; None for generated ones.
        first: the model of the first step; None for the same.
        shown_by: the same that show the fault, which the command line is not given.
    """

    name: str
    kind: str
    model: onnx.ModelProto
    reference: onnx.ModelProto | None = None
    wrong: set[str] = field(default_factory=set)
    spec: Any = None
    options: str = "--steps 10"
    data: list[dict[str, Any]] | None = None
    shown_by: list[dict[str, Any]] | None = None
    first: onnx.ModelProto | None = None


def faulty_cases() -> Iterator[Case]:
    """Yield cases with a faulty model, alone and with the correct model as reference."""
    for table, is_beside in ((ALONE, False), (BESIDE, True)):
        for fault, hosts in table.items():
            for host in hosts:
                spec = PLAIN[host]
                model, wrong = decoders.decoder(spec, fault)
                correct = decoders.decoder(spec)[0] if is_beside else None
                way = "beside" if is_beside else "alone"
                pads = pad_batch(spec) if fault == "mask loses padding" else None
                data, shown_by = (pads, None) if is_beside else (None, pads)
                yield Case(
                    f"{way}: {fault}, {host}",
                    fault,
                    model,
                    correct,
                    wrong,
                    spec,
                    data=data,
                    shown_by=shown_by,
                )
    for fault, hosts in TWO_FILES.items():
        for host in hosts:
            spec = PLAIN[host]
            model, first, wrong = split(spec, fault)
            for correct in (None, decoders.decoder(spec)[0]):
                way = "alone" if correct is None else "beside"
                yield Case(
                    f"{way}: {fault}, two files, {host}",
                    fault,
                    model,
                    correct,
                    wrong,
                    spec,
                    first=first,
                )
    for fault, kinds in STREAMS.items():
        for kind in kinds:
            for nameless in (False, True):
                model, wrong = streams.stream(kind, fault, nameless)
                correct = streams.stream(kind, nameless=nameless)[0]
                name = f"{fault}, {kind}{' nameless' if nameless else ''}"
                yield Case(f"beside: {name}", fault, model, correct, wrong, kind, "--steps 5")
                if fault not in WRONG_BOTH_WAYS:
                    yield Case(f"alone: {name}", fault, model, None, wrong, kind, "--steps 5")


def healthy() -> Iterator[Case]:
    """Yield cases with a healthy model, in which a diagnosis must not name a fault."""
    for host, spec in PLAIN.items():
        yield Case(f"alone: {host}", "", decoders.decoder(spec)[0], spec=spec)
    for kind in streams.KINDS:
        yield Case(f"alone: {kind}", "", streams.stream(kind)[0], spec=kind, options="--steps 5")
    for host in ("merged", "cached encoder"):
        model, first, _ = split(PLAIN[host])
        yield Case(f"alone: two files, {host}", "", model, spec=PLAIN[host], first=first)
    pairs = {
        "fp16 cache": (Spec(cache_type="float16"), Spec()),
        "fp16 cache, slots": (Spec(cache_type="float16", cache="scatter"), Spec()),
        "bf16 cache": (Spec(cache_type="bfloat16"), Spec()),
        "bf16 cache, rotary": (Spec(cache_type="bfloat16", rotary=True), Spec(rotary=True)),
        "slots beside growing": (Spec(cache="scatter"), Spec()),
        "growing beside slots": (Spec(rotary=True), Spec(cache="scatter", rotary=True)),
        "tensor scatter beside growing": (Spec(cache="tensor", rotary=True), Spec(rotary=True)),
        "more slots": (Spec(cache="scatter", slots=32), Spec(cache="scatter")),
        "weights rounded to fp16": (Spec(rounded="float16"), Spec()),
        "weights rounded to fp16, rotary": (
            Spec(rounded="float16", rotary=True, kv_heads=1),
            Spec(rotary=True, kv_heads=1),
        ),
        "weights rounded to fp16, deep": (replace(PLAIN["deep"], rounded="float16"), PLAIN["deep"]),
        "weights rounded to fp16, slots": (
            Spec(rounded="float16", cache="scatter"),
            Spec(cache="scatter"),
        ),
        "weights rounded to bf16": (Spec(rounded="bfloat16"), Spec()),
        "keys kept before they are turned": (
            Spec(rotary=True, keep_unrotated=True),
            Spec(rotary=True),
        ),
        "keys kept after they are turned": (
            Spec(rotary=True),
            Spec(rotary=True, keep_unrotated=True),
        ),
        "attention op beside nodes": (
            Spec(rotary=True, op=True, kv_heads=1),
            Spec(rotary=True, kv_heads=1),
        ),
        "nodes beside attention op": (
            Spec(rotary=True, window=7),
            Spec(rotary=True, op=True, window=7),
        ),
        "merged beside plain": (Spec(merged=True), Spec()),
        "nameless beside named": (Spec(nameless=True), Spec()),
    }
    for name, (faulty_spec, correct_spec) in pairs.items():
        yield Case(
            f"beside: {name}",
            "",
            decoders.decoder(faulty_spec)[0],
            decoders.decoder(correct_spec)[0],
            spec=faulty_spec,
        )
    for name, faulty_spec, correct_spec in (
        ("pads blank", Spec(mask=True, blank_pads=True), Spec(mask=True)),
        ("pads not blank", Spec(mask=True), Spec(mask=True, blank_pads=True)),
        (
            "pads blank, slots",
            Spec(mask=True, blank_pads=True, cache="scatter"),
            Spec(mask=True, cache="scatter"),
        ),
        (
            "pads blank, rotary",
            Spec(mask=True, blank_pads=True, rotary=True),
            Spec(mask=True, rotary=True),
        ),
    ):
        yield Case(
            f"beside: {name}",
            "",
            decoders.decoder(faulty_spec)[0],
            decoders.decoder(correct_spec)[0],
            spec=faulty_spec,
            data=pad_batch(faulty_spec),
        )
    for level in (4,):
        model = quantize_model(decoders.decoder(Spec())[0], level)
        yield Case(
            f"beside: accuracy_level {level}",
            "",
            model,
            quantize_model(decoders.decoder(Spec())[0], 1),
            spec=None,
        )


PADS = 3


def pad_batch(spec: Spec, steps: int = 8, prompt: int = 6) -> list[dict[str, Any]]:
    """Return the input sets of a batch of two, of which the second text is left-padded."""
    draw = np.random.default_rng(5)
    tokens = draw.integers(0, WORDS, (2, prompt + steps - 1))
    mask = np.ones((2, prompt + steps - 1), np.int64)
    mask[1, :PADS] = 0
    places = np.maximum(np.cumsum(mask, 1) - 1, 0)
    feeds, past = [], 0
    for at in range(steps):
        end = past + (prompt if at == 0 else 1)
        feed = {
            "input_ids": tokens[:, past:end],
            "attention_mask": mask[:, :end],
            "position_ids": places[:, past:end],
        }
        if spec.cache == "scatter":
            feed["cache_position"] = np.arange(past, end)
        if at == 0:
            old = spec.slots if spec.cache != "grow" else 0
            shape = (2, spec.kv_heads, old, DIM)
            for layer in range(spec.layers):
                for part in ("key", "value"):
                    feed[f"past_key_values.{layer}.{part}"] = np.zeros(shape, spec.cache_type)
        feeds.append(feed)
        past = end
    return feeds


def quantize_model(model: onnx.ModelProto, level: int) -> onnx.ModelProto:
    """Return a model with 8-bit output layers, for the precision of an accuracy level."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    for node in model.graph.node:
        name = node.input[1] if node.op_type == "MatMul" else ""
        if not name.startswith(("up", "down", "head", "wo")) or name not in weights:
            continue
        array = numpy_helper.to_array(weights[name])
        rows, columns = array.shape
        blocks = array.T.reshape(columns, -1, 16)
        scales = np.maximum(np.abs(blocks).max(-1), 1e-6) / 127
        codes = np.clip(np.round(blocks / scales[..., None]) + 128, 0, 255).astype(np.uint8)
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        node.input[1] = f"{name}_q"
        node.input.append(f"{name}_scales")
        node.attribute.extend(
            helper.make_attribute(key, value)
            for key, value in {
                "K": rows,
                "N": columns,
                "bits": 8,
                "block_size": 16,
                "accuracy_level": level,
            }.items()
        )
        if f"{name}_q" not in {weight.name for weight in model.graph.initializer}:
            model.graph.initializer.append(numpy_helper.from_array(codes, f"{name}_q"))
            model.graph.initializer.append(
                numpy_helper.from_array(scales.astype("f"), f"{name}_scales")
            )
    return model
