"""Models with states as PyTorch modules, exported by both exporters."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

HEADS, DIM, WORDS, TABLE = 2, 8, 32, 32
SIZE = HEADS * DIM


def _initialize(module: nn.Module, seed: int = 0) -> nn.Module:
    """Return a module for inference with random parameters drawn by a seed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=generator)
                * 1.5
                / max(1, parameter.shape[-1]) ** 0.5
            )
            if "head" in name:
                parameter.mul_(4.0)
            if "emb" in name or "places" in name:
                parameter.mul_(3.0 * parameter.shape[-1] ** 0.5)
    return module.eval()


class Decoder(nn.Module):
    """A decoder with a growing cache, as a flat list of keys and values."""

    def __init__(
        self, layers: int = 2, fault: str = "", static: int = 0, has_mask: bool = False
    ) -> None:
        """Create the layers, with a fault if one is named."""
        super().__init__()
        self.emb, self.places = nn.Embedding(WORDS, SIZE), nn.Embedding(TABLE, SIZE)
        self.qkv = nn.ModuleList(nn.Linear(SIZE, 3 * SIZE) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(layers))
        self.head = nn.Linear(SIZE, WORDS)
        self.fault, self.static, self.has_mask = fault, static, has_mask
        _initialize(self)

    def forward(self, input_ids: Any, position_ids: Any, *states: Any) -> Any:
        """Return the scores, and the new states."""
        mask, past = (states[0], states[1:]) if self.has_mask else (None, states)
        x = self.emb(input_ids)
        places = position_ids
        if self.fault == "position":
            places = position_ids + (position_ids[:, :1] > 0).to(position_ids.dtype)
        if self.fault == "position restarts":
            places = position_ids - position_ids[:, :1]
        x = x + self.places(places)
        presents = []
        for at, (qkv, out) in enumerate(zip(self.qkv, self.out)):
            q, k, v = (
                chunk.reshape(chunk.shape[0], -1, HEADS, DIM).transpose(1, 2)
                for chunk in qkv(x).chunk(3, -1)
            )
            old_k, old_v = past[2 * at], past[2 * at + 1]
            if self.fault == "wrong layer" and at == 1:
                old_v = past[1]
            if self.static:
                index = position_ids[0]
                if self.fault == "wrong slot" and at == 0:
                    index = torch.clamp(index, max=6)
                k, v = old_k.index_copy(2, index, k), old_v.index_copy(2, index, v)
            else:
                k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
            columns = torch.arange(k.shape[2], device=k.device)
            seen = columns[None, :] <= position_ids[0][:, None]
            if self.fault == "frozen mask":
                seen = seen & (columns < 6)[None, :]
            seen = seen[None, None]
            if mask is not None:
                seen = seen & (mask[:, None, None, :] > 0)
            root = 1.0 if self.fault == "missing scale" and at == 0 else DIM**0.5
            scores = (q @ k.transpose(2, 3) / root).masked_fill(~seen, -1e9)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape[0], -1, SIZE)
            x = x + out(mixed)
            if self.fault == "handed on scaled" and at == 0:
                v = v * 0.5
            if self.fault == "swapped k and v" and at == 0:
                k, v = v, k
            presents += [k, v]
        return (self.head(x), *presents)


class Recurrent(nn.Module):
    """Two recurrent layers, whose states are inputs and outputs."""

    def __init__(self, kind: str, fault: str = "") -> None:
        """Create the layers of a kind, with a fault if one is named."""
        super().__init__()
        self.kind, self.fault = kind, fault
        cells = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
        if kind in cells:
            self.net: nn.Module = cells[kind](6, 8, num_layers=2, batch_first=True)
        else:
            self.net = {"grucell": nn.GRUCell, "lstmcell": nn.LSTMCell, "rnncell": nn.RNNCell}[
                kind
            ](6, 8)
        self.head = nn.Linear(8, 5)
        _initialize(self)

    def forward(self, x: Any, *states: Any) -> Any:
        """Return the scores, and the new states."""
        if self.kind in ("grucell", "rnncell"):
            h = self.net(x[:, 0], states[0])
            return self.head(h), h * 0.7 if self.fault == "scaled" else h
        if self.kind == "lstmcell":
            h, c = self.net(x[:, 0], (states[0], states[1]))
            return self.head(h), h, states[1] if self.fault == "stale" else c
        if self.kind == "lstm":
            y, (h, c) = self.net(x, (states[0], states[1]))
            if self.fault == "h and c swapped":
                h, c = c, h
            return self.head(y), h, c
        y, h = self.net(x, states[0])
        if self.fault == "layers swapped":
            h = h.flip(0)
        return self.head(y), h


class Conv(nn.Module):
    """A causal convolution with the end of the last chunk as context."""

    def __init__(self, fault: str = "") -> None:
        """Create the layers, with a fault if one is named."""
        super().__init__()
        self.fault = fault
        self.conv, self.second = nn.Conv1d(6, 8, 5), nn.Conv1d(8, 4, 3)
        _initialize(self)

    def forward(self, chunk: Any, first: Any, second: Any) -> Any:
        """Return the outputs, and the two new states."""
        joined = torch.cat([first, chunk], 2)
        h = torch.tanh(self.conv(joined))
        again = torch.cat([second, h], 2)
        new = joined[:, :, :4] if self.fault == "wrong end" else joined[:, :, -4:]
        return self.second(again), new, again[:, :, -2:]


class Crossed(nn.Module):
    """A decoder layer that attends to the states of an encoder, whose keys and values are states."""

    def __init__(self, fault: str = "") -> None:
        """Create the layers, with a fault if one is named."""
        super().__init__()
        self.fault = fault
        self.emb, self.qkv, self.q, self.head = (
            nn.Embedding(WORDS, SIZE),
            nn.Linear(SIZE, 3 * SIZE),
            nn.Linear(SIZE, SIZE),
            nn.Linear(SIZE, WORDS),
        )
        _initialize(self)

    def forward(self, input_ids: Any, encoder_hidden_states: Any, key: Any, value: Any) -> Any:
        """Return the scores, and the new keys and values."""
        x = self.emb(input_ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        k, v = torch.cat([key, k], 1), torch.cat([value, v], 1)
        rows = torch.arange(q.shape[1])[:, None] + key.shape[1]
        seen = torch.arange(k.shape[1])[None] <= rows
        x = x + ((q @ k.transpose(1, 2) / 4).masked_fill(~seen, -1e9).softmax(-1) @ v)
        x = (
            x
            + (self.q(x) @ encoder_hidden_states.transpose(1, 2) / 4).softmax(-1)
            @ encoder_hidden_states
        )
        if self.fault == "before":
            v = torch.cat([value, x], 1)
        return self.head(x), k, v


@dataclass(frozen=True)
class Exported:
    """A module with what its export takes.

    Attributes:
        name: of the module.
        module: the module.
        args: an example.
        inputs: names of inputs.
        outputs: names of outputs; None for those of the exporter.
        dynamic: the dynamic axes of each input.
        states: the inputs that are states, in the order of the last outputs.
    """

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    inputs: list[str]
    outputs: list[str] | None
    dynamic: dict[str, dict[int, str]]
    states: list[str]

    def export(self, dynamo: bool, path: Path) -> onnx.ModelProto:
        """Write the exported model to a path, and return it."""
        options: dict[str, Any] = {"dynamo": dynamo, "input_names": self.inputs}
        if self.outputs:
            options["output_names"] = self.outputs
        if dynamo:
            shapes = tuple(
                dict.fromkeys(self.dynamic.get(name, {}), torch.export.Dim.DYNAMIC) or None
                for name in self.inputs
            )
            if any(kind.name == "states" for kind in _variadic(self.module)):
                fixed = len(self.inputs) - sum(1 for _ in self.args[_first(self.module) :])
                shapes = (*shapes[:fixed], tuple(shapes[fixed:]))
            options |= {"dynamic_shapes": shapes, "external_data": False, "verbose": False}
        else:
            options["dynamic_axes"] = self.dynamic
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with torch.no_grad():
                torch.onnx.export(self.module, self.args, str(path), **options)
        return onnx.load(str(path))


def _variadic(module: nn.Module) -> list[Any]:
    """Return the variadic parameters of `forward`, of which there is at most one."""
    import inspect

    return [
        p
        for p in inspect.signature(module.forward).parameters.values()
        if p.kind is p.VAR_POSITIONAL
    ]


def _first(module: nn.Module) -> int:
    """Return the number of other parameters of `forward`."""
    import inspect

    return len(
        [
            p
            for p in inspect.signature(module.forward).parameters.values()
            if p.kind is not p.VAR_POSITIONAL
        ]
    )


def exports(fault: str = "") -> list[Exported]:
    """Return the modules to export, with a fault if they can have it."""
    candidates = []
    ids, places = torch.randint(0, WORDS, (1, 3)), torch.arange(4, 7)[None]
    tokens = {"input_ids": {1: "seq"}, "position_ids": {1: "seq"}}
    for name, static, has_mask, named in (
        ("decoder", 0, False, True),
        ("decoder_nameless", 0, False, False),
        ("decoder_masked", 0, True, True),
        ("static", 16, False, False),
    ):
        states = [f"past_{at}_{part}" for at in range(2) for part in ("key", "value")]
        outputs = ["logits", *(f"present_{state[5:]}" for state in states)] if named else None
        inputs = ["input_ids", "position_ids", *(["attention_mask"] if has_mask else []), *states]
        past = [torch.randn(1, HEADS, static or 4, DIM) for _ in states]
        extra = [torch.ones(1, 7, dtype=torch.int64)] if has_mask else []
        dynamic: dict[str, dict[int, str]] = dict(tokens)
        if has_mask:
            dynamic["attention_mask"] = {1: "total"}
        dynamic |= {} if static else {state: {2: "past"} for state in states}
        module = Decoder(fault=fault, static=static, has_mask=has_mask)
        candidates.append(
            Exported(name, module, (ids, places, *extra, *past), inputs, outputs, dynamic, states)
        )
    for kind in ("lstm", "gru", "rnn"):
        states = ["h0", "c0"] if kind == "lstm" else ["h0"]
        args = (torch.randn(1, 5, 6), *(torch.randn(2, 1, 8) for _ in states))
        outputs = ["y", *(state.replace("0", "n") for state in states)] if kind == "lstm" else None
        candidates.append(
            Exported(kind, Recurrent(kind, fault), args, ["x", *states], outputs, {}, states)
        )
    for kind in ("grucell", "lstmcell", "rnncell"):
        states = ["a", "b"] if kind == "lstmcell" else ["a"]
        args = (torch.randn(1, 1, 6), *(torch.randn(1, 8) for _ in states))
        candidates.append(
            Exported(kind, Recurrent(kind, fault), args, ["x", *states], None, {}, states)
        )
    args = (torch.randn(1, 6, 16), torch.randn(1, 6, 4), torch.randn(1, 8, 2))
    candidates.append(
        Exported(
            "conv", Conv(fault), args, ["chunk", "u", "v"], None, {"chunk": {2: "n"}}, ["u", "v"]
        )
    )
    args = (ids, torch.randn(1, 5, SIZE), torch.randn(1, 4, SIZE), torch.randn(1, 4, SIZE))
    dynamic = {"input_ids": {1: "seq"}, "key": {1: "past"}, "value": {1: "past"}}
    names = ["input_ids", "encoder_hidden_states", "key", "value"]
    candidates.append(
        Exported("crossed", Crossed(fault), args, names, None, dynamic, ["key", "value"])
    )
    return candidates
