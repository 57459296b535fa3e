"""Networks of several kinds, each changed before it is exported, or exported with another example.

The file is an export of another program (checkpoint, statistics, layers, scaling, `forward`), as in
training, or the example decided a size in it. Both exporters write each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .drawn import Drawn, diagnosed_words, export, is_seen, write

_HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
"""
_MIDDLE = """
    def forward(self, data):
        x = data
"""
_TAIL = """        return x

def load_model():
    torch.manual_seed(1)
    net = Net().eval()
    for part in net.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)) and part.running_mean is not None:
            part.running_mean.uniform_(-0.4, 0.4)
            part.running_var.uniform_(0.6, 1.4)
    return net
"""


class Host(NamedTuple):
    """A network: its layers, its statements, the shape of its data, and axes of any size."""

    layers: tuple[str, ...]
    forward: tuple[str, ...]
    shape: tuple[int, ...]
    axes: tuple[int, ...]


_BLOCK = (
    "x = F.relu(self.bn1(self.conv1(x)))",
    "x = self.drop(F.silu(self.bn2(self.conv2(x)))) + x",
)
HOSTS = {
    "cnn": Host(
        (
            "self.conv1 = nn.Conv2d(3, 8, 3, padding=1)",
            "self.bn1 = nn.BatchNorm2d(8)",
            "self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)",
            "self.bn2 = nn.BatchNorm2d(8)",
            "self.drop = nn.Dropout(0.3)",
            "self.head = nn.Linear(8, 5)",
        ),
        (*_BLOCK, "x = x.mean((2, 3))", "x = self.head(x)"),
        (2, 3, 12, 12),
        (2, 3),
    ),
    "unet": Host(
        (
            "self.conv1 = nn.Conv2d(3, 8, 3, padding=1, stride=2)",
            "self.bn1 = nn.BatchNorm2d(8)",
            "self.conv2 = nn.Conv2d(8, 8, 3, padding=1)",
            "self.bn2 = nn.BatchNorm2d(8)",
            "self.drop = nn.Dropout2d(0.2)",
            "self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)",
            "self.head = nn.Conv2d(4, 2, 1)",
        ),
        (*_BLOCK, "x = F.gelu(self.up(x))", "x = self.head(x)"),
        (1, 3, 16, 16),
        (2, 3),
    ),
    "recurrent": Host(
        (
            "self.conv1 = nn.Linear(6, 10)",
            "self.rnn = nn.GRU(10, 12, batch_first=True, bidirectional=True)",
            "self.drop = nn.Dropout(0.2)",
            "self.conv2 = nn.Linear(24, 10)",
            "self.head = nn.Linear(10, 4)",
        ),
        (
            "x = torch.tanh(self.conv1(x))",
            "x = self.rnn(x)[0]",
            "x = self.drop(F.elu(self.conv2(x)))",
            "x = self.head(x)",
        ),
        (2, 7, 6),
        (1,),
    ),
    "attention": Host(
        (
            "self.conv1 = nn.Linear(8, 16)",
            "part = nn.TransformerEncoderLayer",
            "self.conv2 = part(16, 4, 32, 0.1, batch_first=True, norm_first=True)",
            "self.norm = nn.LayerNorm(16)",
            "self.head = nn.Linear(16, 4)",
        ),
        (
            "x = self.conv1(x)",
            "x = self.conv2(x)",
            "x = self.norm(x)",
            "x = self.head(x)",
        ),
        (2, 6, 8),
        (1,),
    ),
    "depthwise": Host(
        (
            "self.conv1 = nn.Conv1d(4, 12, 3, padding=1)",
            "self.bn1 = nn.BatchNorm1d(12)",
            "self.conv2 = nn.Conv1d(12, 12, 5, padding=2, groups=12)",
            "self.bn2 = nn.BatchNorm1d(12)",
            "self.drop = nn.Dropout(0.3)",
            "self.prelu = nn.PReLU(12)",
            "self.head = nn.Conv1d(12, 6, 1)",
        ),
        (*_BLOCK, "x = self.prelu(x)", "x = self.head(x)", "x = F.log_softmax(x, 1)"),
        (2, 4, 20),
        (2,),
    ),
}


def _parameters(net: Any) -> list[Any]:
    """Return the parameters of a network that have several axes."""
    return [parameter for parameter in net.parameters() if parameter.dim() > 1]


def _checkpoint(net: Any, rng: np.random.Generator) -> None:
    """Change all parameters of a network, as another checkpoint does."""
    for parameter in net.parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape)


def _biases(net: Any, rng: np.random.Generator) -> None:
    """Add 0.2 to each bias and norm parameter of a network."""
    for parameter in net.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.2


def _one(net: Any, rng: np.random.Generator) -> None:
    """Scale one random weight of a network by 1.2."""
    chosen = _parameters(net)
    chosen[int(rng.integers(len(chosen)))].data.mul_(1.2)


def _head(net: Any, rng: np.random.Generator) -> None:
    """Draw the weights of the head of a network again."""
    net.head.reset_parameters()


def _norms(net: Any) -> list[Any]:
    """Return the batch norms of a network."""
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)
    return [module for module in net.modules() if isinstance(module, kinds)]


def _statistics(net: Any, rng: np.random.Generator) -> None:
    """Change the running statistics of each batch norm of a network."""
    for norm in _norms(net):
        norm.running_mean += 0.5
        norm.running_var *= 1.7


def _reset(net: Any, rng: np.random.Generator) -> None:
    """Reset the running statistics of each batch norm of a network."""
    for norm in _norms(net):
        norm.reset_running_stats()


def _epsilon(net: Any, rng: np.random.Generator) -> None:
    """Set the epsilon of each norm of a network to 0.1."""
    for norm in [
        *_norms(net),
        *(module for module in net.modules() if isinstance(module, torch.nn.LayerNorm)),
    ]:
        norm.eps = 0.1


def _quantize(net: Any, rng: np.random.Generator) -> None:
    """Round the weights of a network to 4 bits, as quantization-aware training does."""
    for parameter in _parameters(net):
        step = parameter.data.abs().max() / 7
        parameter.data = (parameter.data / step).round() * step


FOREIGN: dict[str, Callable[[Any, np.random.Generator], None]] = {
    "checkpoint": _checkpoint,
    "biases": _biases,
    "one weight": _one,
    "new head": _head,
    "statistics": _statistics,
    "reset statistics": _reset,
    "epsilon": _epsilon,
    "quantized weights": _quantize,
}
"""Changes of the state of a module, by kind."""

EDITED: dict[str, Callable[[list[str]], list[str]]] = {
    "scaled inside": lambda lines: ["x = (x - 0.4) / 0.2", *lines],
    "scaled by 255": lambda lines: ["x = x / 255", *lines],
    "output scaled": lambda lines: [*lines, "x = x * 3"],
    "output activation": lambda lines: [*lines, "x = torch.sigmoid(x)"],
    "missing statement": lambda lines: [line for line in lines if "conv2" not in line],
    "missing normalization": lambda lines: [
        line.replace("self.bn1(self.conv1(x))", "self.conv1(x)").replace("self.norm(x)", "x * 1.0")
        for line in lines
    ],
    "other activation": lambda lines: [
        line.replace("F.silu", "F.relu").replace("F.elu", "F.gelu").replace("F.gelu", "F.relu")
        for line in lines
    ],
    "flipped": lambda lines: ["x = x.flip(-1)", *lines],
    "clamped": lambda lines: [lines[0], "x = x.clamp(-0.1, 0.3)", *lines[1:]],
    "features": lambda lines: lines[:-1],
    "another layer twice": lambda lines: [*lines[:-1], *lines[-1:], "x = x + x.tanh()"],
}
"""Changes of `forward`, by kind."""

SIZED: dict[str, tuple[str, ...]] = {
    "kernel of its size": (
        "x = x - F.avg_pool1d(x.flatten(2) if x.dim() > 2 else x[:, None],"
        " int(x.shape[-1])).mean()",
    ),
    "number of its size": ("x = x * (int(x.shape[-1]) / 10)",),
    "reshape of its size": (
        "x = x.reshape(int(x.shape[0]), -1, int(x.shape[-1])).reshape(x.shape)",
    ),
    "numpy": ("import numpy", "x = x * float(numpy.sqrt(data.shape[-1]) / 3)"),
    "positions": ("x = x + torch.linspace(0, 1, int(data.shape[-2])).sum()",),
    "value": ("x = x / data.abs().max().item()",),
    "two values": (
        "low, high = data.min().item(), data.max().item()",
        "x = x + torch.linspace(low, high, 4).square().mean()",
    ),
    "rest of its size": (
        "extra = (-int(x.shape[-1])) % 5",
        "x = x * (1 + extra / 10)",
    ),
    "count": ("x = x * (int((data > 0.2).sum()) / 100)",),
    "tolist": ("x = x + torch.tensor(data.mean((1,)).flatten()[:1].tolist()).sum()",),
}
"""What an example decides, by kind: statements before the last one."""


def _text(host: Host, lines: list[str]) -> str:
    """Return the source of a network."""
    layer_lines = [f"        {line}" for line in host.layers]
    body = [f"        {line}" for line in lines]
    return "\n".join([_HEAD.rstrip("\n"), *layer_lines, _MIDDLE.rstrip("\n"), *body, _TAIL])


def write_cases(
    place: Path, host_name: str, kind: str, rng: np.random.Generator
) -> Iterator[Drawn]:
    """Yield a file that differs from its program by a kind of fault, and a healthy file."""
    host = HOSTS[host_name]
    lines = [*host.forward]
    data = torch.from_numpy(rng.random(host.shape).astype(np.float32))
    is_dynamo = bool(rng.random() < 0.5)
    if kind in SIZED:
        yield from _sized(place, host, kind, rng)
        return
    program = _text(host, lines)
    foreign = _text(host, EDITED[kind](lines)) if kind in EDITED else program
    if kind in EDITED and rng.random() < 0.5:
        # Exchange both, so that the file lacks the edit, not the program.
        program, foreign = foreign, program
    for name in ("healthy", "other"):
        net = write(place, foreign if name == "other" else program)
        if name == "other":
            torch.manual_seed(int(rng.integers(1 << 30)))
            if kind in FOREIGN:
                FOREIGN[kind](net, rng)
        options: dict[str, Any] = {"dynamo": is_dynamo}
        if kind == "training" and name == "other":
            net.train()
            options["training"] = torch.onnx.TrainingMode.PRESERVE
            if is_dynamo:
                del options["training"]
        try:
            export(net, data, place / f"{name}.onnx", **options)
        except Exception:  # Exporters can raise anything.
            return
        original = write(place, program)
        words = diagnosed_words(place, name, data)
        title = f"{host_name}, {kind}: {name}, dynamo={is_dynamo}"
        if name == "healthy":
            yield Drawn(title, words, "")
        elif is_seen(place / "other.onnx", original, data):
            causes = ("training",) if kind == "training" else ()
            yield Drawn(title, words, "model file", causes)


def _sized(place: Path, host: Host, kind: str, rng: np.random.Generator) -> Iterator[Drawn]:
    """Yield an export in which a size of the example is a constant, if it has an effect."""
    at = int(rng.integers(1, len(host.forward)))
    lines = [*host.forward[:at], *SIZED[kind], *host.forward[at:]]
    text = _text(host, lines)
    rows = text.splitlines()
    first = rows.index(f"        {SIZED[kind][0]}") + 1
    own_lines = range(first, first + len(SIZED[kind]))
    shape = list(host.shape)
    is_value = kind in ("value", "count", "tolist")
    if not is_value:
        for axis in host.axes:
            shape[axis] += 4
    data = torch.from_numpy(rng.random(host.shape).astype(np.float32))
    example = torch.from_numpy((0.3 + 2 * rng.random(shape)).astype(np.float32))
    if rng.random() < 0.5:
        data, example = example, data
    sizes = {"data": {axis: f"size{axis}" for axis in host.axes}}
    for name, example_data in (("frozen", example), ("healthy", data)):
        net = write(place, text)
        try:
            export(net, example_data, place / f"{name}.onnx", dynamo=False, dynamic_axes=sizes)
        except Exception:  # Exporters can raise anything.
            return
        words = diagnosed_words(place, name, data)
        if name == "healthy":
            yield Drawn(f"{kind}: healthy", words, "")
        elif is_seen(place / "frozen.onnx", write(place, text), data):
            yield Drawn(f"{kind}, {at}", words, "exporter", ("constant",), own_lines)


def draw_host(kind: str, rng: np.random.Generator) -> str:
    """Return the name of a random network; fixed sizes exclude the attention network."""
    return str(rng.choice([name for name in HOSTS if kind not in SIZED or name != "attention"]))


def varied_cases(folder: Path, seed: int, per_kind: int) -> Iterator[Drawn]:
    """Write and yield cases: a number of each kind, each in a random network."""
    for number, kind in enumerate([*FOREIGN, *EDITED, "training", *SIZED] * per_kind, 1):
        rng = np.random.default_rng([seed, number])
        host = draw_host(kind, rng)
        place = folder / f"{seed}-{number}-{kind.replace(' ', '-')}"
        place.mkdir(parents=True)
        yield from write_cases(place, host, kind, rng)
