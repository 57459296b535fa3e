"""Drawn programs: files that are exports of other programs, and files in which the example input
decided a number, a size or a branch.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .command import run_diagnose

WIDTH = 8
_HEAD = f"""\
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear({WIDTH}, {WIDTH}) for _ in range(6))
        self.norm = nn.BatchNorm1d({WIDTH})
        self.norm.running_mean.uniform_(-0.5, 0.5)
        self.extra = nn.ModuleList(nn.Linear({WIDTH}, {WIDTH}) for _ in range(2))
        self.table = nn.Parameter(torch.randn(1, 64, {WIDTH}))

    def forward(self, data):
        x = data
"""
_TAIL = """
def load_model():
    torch.manual_seed(1)
    return Net().eval()
"""
_ACTIVATIONS = ("torch.tanh", "torch.sigmoid", "F.silu", "F.gelu", "F.elu")
FROZEN: dict[str, tuple[str, ...]] = {
    "branch": ("if data.abs().max() > 2:", "    x = x * 0.5 + 1"),
    "branch of floats": ("if float(data.std()) > 1.0 and len(data) > 0:", "    x = -x"),
    "two branches": ("if data.mean() > 0.3:", "    x = x.neg()", "else:", "    x = x.exp() * 0.3"),
    "branch of weights": (
        "if data.abs().sum() > 30:",
        "    x = self.extra[0](x)",
        "else:",
        "    x = self.extra[1](x)",
    ),
    "return": ("if data.abs().max() < 1:", "    return x"),
    "expression": ("x = torch.tanh(x * 2) if float(data.max()) > 2 else torch.sigmoid(x) + 1",),
    "while": (
        "count = 0",
        "while float(data.abs().max()) > 2**count and count < 5:",
        "    x = torch.sin(x + 0.5)",
        "    count += 1",
    ),
    "loop": ("for step in range(data.shape[1]):", "    x = torch.cos(x + 0.3) * 1.1"),
    "item": ("x = x / (data.abs().max().item() + 0.1)",),
    "own mean": ("x = x * (float(x.abs().mean()) + 0.1)",),
    "length": ("x = x * len(data[0]) / 5",),
    "positions": ("x = x[:, :3].mean(1, keepdim=True) * torch.arange(len(data[0])).sum() / 9",),
    "count": ("x = x * int((data > 0.5).sum()) / 7",),
    "largest": ("k = max(1, int(x.shape[1]) // 2)", "x = x.topk(k, 1)[0].mean(1, keepdim=True)"),
    "table": ("x = x + self.table[:, : int(x.shape[1])]",),
    "pooled": ("x = x - F.avg_pool1d(x.transpose(1, 2), int(x.shape[1])).transpose(1, 2)",),
}
"""What the example decides, by kind."""
_OF_SIZES = {"loop", "length", "positions", "largest", "table", "pooled"}


def _checkpoint(net: Any) -> None:
    """Change all weights of a network, as another checkpoint does."""
    for parameter in net.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)


def _one_weight(net: Any) -> None:
    """Change one row of the weight of the third layer of a network."""
    net.layers[2].weight.data[3] += 1


def _statistics(net: Any) -> None:
    """Change the running mean and variance of the norm of a network."""
    net.norm.running_mean += 1
    net.norm.running_var *= 2


def _missing(net: Any) -> None:
    """Replace the fourth layer of a network by an identity."""
    net.layers[3] = torch.nn.Identity()


def _added(net: Any) -> None:
    """Add a Tanh after the fourth layer of a network."""
    net.layers[3] = torch.nn.Sequential(net.layers[3], torch.nn.Tanh())


def _scaled(net: Any) -> None:
    """Scale the data that a network reads to -1 to 1."""
    forward = net.forward
    net.forward = lambda data: forward(data * 2 - 1)


def _after(net: Any) -> None:
    """Add a softmax after a network."""
    forward = net.forward
    net.forward = lambda data: torch.softmax(forward(data), -1)


OTHERS: dict[str, Callable[[Any], None]] = {
    "checkpoint": _checkpoint,
    "one weight": _one_weight,
    "statistics": _statistics,
    "missing layer": _missing,
    "added layer": _added,
    "scaled input": _scaled,
    "other forward": _after,
}
"""Changes of the program that is exported, by kind."""


@dataclass(frozen=True)
class Drawn:
    """A case: a file, its program, and who is at fault."""

    name: str
    words: str
    party: str
    causes: tuple[str, ...] = ()
    lines: range = range(0)

    def judge(self) -> str:
        """Return the mistake of a diagnosis as text; empty if there is none."""
        code, document, err = run_diagnose(self.words)
        culprits = document.get("culprits", [])
        name = f"code {code} {[(c['party'], c['cause'], c.get('origin')) for c in culprits]} {err}"
        if not self.party:
            return "" if code == 0 and not culprits else name
        if code != 1 or len(culprits) != 1 or culprits[0]["party"] != self.party:
            return name
        [culprit] = culprits
        line = str(culprit.get("origin")).partition(":")[2].partition(" ")[0]
        is_there = not self.lines or (line.isdigit() and int(line) in self.lines)
        is_right = not self.causes or culprit["cause"] in self.causes
        return (
            ""
            if is_there and is_right and "dynamo=" not in str(culprit["remedy"]["note"])
            else name
        )


def drawn_cases(folder: Path, seed: int, per_kind: int) -> Iterator[Drawn]:
    """Write and yield cases: a number of each kind, and a healthy file for each."""
    rng = np.random.default_rng(seed)
    for kind in [*FROZEN, *OTHERS] * per_kind:
        place = folder / f"{seed}-{kind.replace(' ', '-')}-{rng.integers(1 << 30)}"
        place.mkdir(parents=True)
        yield from (frozen if kind in FROZEN else other)(place, kind, rng)


def _source(rng: np.random.Generator, kind: str) -> tuple[str, range]:
    """Return the source of a random program, and the lines that its example decides."""
    lines, own_lines = _HEAD.splitlines(), range(0)
    at = int(rng.integers(1, 5))
    for number in range(int(rng.integers(at + 1, 7))):
        if number == at and kind in FROZEN:
            lines += [f"        {line}" for line in FROZEN[kind]]
            own_lines = range(len(lines) - len(FROZEN[kind]) + 1, len(lines) + 1)
        activation = rng.choice(_ACTIVATIONS)
        if (
            own_lines and kind == "return"
        ):  # The next two lines are the other branch of this condition.
            own_lines = range(own_lines.start, own_lines.stop + 2)
        lines.append(f"        x = {activation}(self.layers[{number}](x))")
        if number == 0:
            lines.append("        x = self.norm(x.transpose(1, 2)).transpose(1, 2)")
    return "\n".join([*lines, "        return x", _TAIL]), own_lines


def frozen(place: Path, kind: str, rng: np.random.Generator) -> Iterator[Drawn]:
    """Yield an export whose example fixed a size or a branch, and a healthy export."""
    text, lines = _source(rng, kind)
    size = int(rng.integers(3, 6))
    small, large = 0.2 * _array(rng, size), 6 + 4 * _array(rng, size)
    if kind in _OF_SIZES:
        small, large = _array(rng, size), _array(rng, size + int(rng.integers(1, 5)))
    example, data = (small, large) if rng.random() < 0.5 else (large, small)
    sizes = {"data": {1: "length"}} if kind in _OF_SIZES else None
    for name, example_data in (("frozen", example), ("healthy", data)):
        net = write(place, text)
        export(net, example_data, place / f"{name}.onnx", dynamo=False, dynamic_axes=sizes)
        words = diagnosed_words(place, name, data)
        if name == "healthy":
            yield Drawn(f"{kind}: healthy", words, "")
        elif is_seen(place / f"{name}.onnx", net, data):
            yield Drawn(kind, words, "exporter", ("constant",), lines)


def other(place: Path, kind: str, rng: np.random.Generator) -> Iterator[Drawn]:
    """Yield a healthy export, and an export of a program with different weights or layers."""
    text, _ = _source(rng, kind)
    data = _array(rng, 4)
    for name in ("healthy", "other"):
        net = write(place, text)
        is_dynamo = bool(rng.random() < 0.5)
        if name == "other":
            torch.manual_seed(int(rng.integers(1 << 30)))
            OTHERS[kind](net)
        export(net, data, place / f"{name}.onnx", dynamo=is_dynamo)
        party = "" if name == "healthy" else "model file"
        original = write(place, text)
        if party and not is_seen(place / f"{name}.onnx", original, data):
            continue  # The generated program does not use the changed part.
        yield Drawn(
            f"{kind}: {name}, dynamo={is_dynamo}", diagnosed_words(place, name, data), party
        )


def _array(rng: np.random.Generator, length: int) -> Any:
    """Return two random sequences of a length, as a tensor."""
    return torch.from_numpy(rng.random((2, length, WIDTH)).astype(np.float32))


def write(place: Path, text: str) -> Any:
    """Write a program, and return its module."""
    path, names = place / "net.py", dict[str, Any]()
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    return names["load_model"]()


def export(net: Any, example: Any, path: Path, **options: Any) -> None:
    """Export a module for an example input, without messages."""
    if options["dynamo"]:
        options |= {"external_data": False, "verbose": False}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (example,), str(path), input_names=["data"], **options)


def is_seen(path: Path, net: Any, data: Any) -> bool:
    """Return whether the outputs of a file differ from those of its program."""
    import onnxruntime

    try:
        [computed] = onnxruntime.InferenceSession(str(path)).run(None, {"data": data.numpy()})
    except Exception:  # The model was exported for a different size.
        return True
    expected = net(data).detach().numpy()
    return bool(computed.shape != expected.shape or np.abs(computed - expected).max() > 1e-3)


def diagnosed_words(place: Path, name: str, data: Any) -> str:
    """Save the data, and return the arguments of `diagnose` for a file and its program."""

    from polygraphy.json import save_json

    save_json([{"data": data.numpy()}], str(place / "data.json"))
    return f"{place}/{name}.onnx --torch {place}/net.py:load_model --load-inputs {place}/data.json"
