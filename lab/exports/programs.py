"""Programs that are exported: networks, single operators, networks of libraries, and operators that
a released exporter is known to translate wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...]]
DIM, HEADS, VOCABULARY = 32, 4, 50


@dataclass(frozen=True)
class Program:
    """A module with an example, and which operator of it is known to come out wrong."""

    name: str
    make: Callable[[], Made]
    kinds: tuple[str, ...] = ("dynamo", "older")
    wrong: str = ""
    data: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def block(before: int, after: int) -> nn.Module:
    """Return two convolutions with different norms."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU(),
        nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
    )  # fmt: skip


class Cnn(nn.Module):
    """Residual blocks, a resize, a pool and classes."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 8, 3, 2), nn.ModuleList(block(8, 8) for _ in range(2))
        self.head = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        """Return the probability of each class."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x) + x
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear")
        return torch.softmax(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), -1)


class Encoder(nn.Module):
    """Token embeddings, PyTorch's transformer layers, and a head."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, DIM)
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCABULARY)

    def forward(self, tokens: Any) -> Any:
        """Return the scores for each token."""
        return self.head(F.gelu(self.norm(self.layers(self.embedding(tokens)))))


class Decoder(nn.Module):
    """Root-mean-square norms, rotary positions, causal attention and gates."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, DIM), nn.Linear(DIM, VOCABULARY)
        self.attend = nn.ModuleList(nn.Linear(DIM, 3 * DIM, bias=False) for _ in range(2))
        self.join = nn.ModuleList(nn.Linear(DIM, DIM) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(DIM, 4 * DIM) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(2 * DIM, DIM) for _ in range(2))

    @staticmethod
    def norm(x: Any) -> Any:
        """Return a tensor divided by the RMS of its last axis."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    @staticmethod
    def rotate(x: Any) -> Any:
        """Return queries or keys with rotary position embeddings."""
        half = x.shape[-1] // 2
        steps = torch.pow(100.0, -torch.arange(half, dtype=torch.float32) / half)
        angle = torch.arange(x.shape[2], dtype=torch.float32)[:, None] * steps
        first_half, second_half = x.chunk(2, -1)
        sin, cos = angle.sin(), angle.cos()
        return torch.cat(
            [first_half * cos - second_half * sin, first_half * sin + second_half * cos], -1
        )

    def forward(self, tokens: Any) -> Any:
        """Return the scores for each token."""
        x = self.embedding(tokens)
        batch, length, _ = x.shape
        for attend, join, up, down in zip(self.attend, self.join, self.up, self.down):
            parts = attend(self.norm(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(
                self.rotate(parts[0]), self.rotate(parts[1]), parts[2], is_causal=True
            )
            x = x + join(attended.transpose(1, 2).reshape(batch, length, DIM))
            gate, value = up(self.norm(x)).chunk(2, -1)
            x = x + down(F.silu(gate) * value)
        return self.head(x)


class Recurrent(nn.Module):
    """An LSTM and a GRU of both directions, with a state that is handed out."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.gru = nn.GRU(16, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        """Return the scores for each step, and the last state of the LSTM."""
        hidden, (state, _) = self.lstm(x)
        return self.head(self.gru(hidden)[0]), state


class Vit(nn.Module):
    """Patches, a token of the class, positions, and transformer layers with their norms first."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.patches = nn.Conv2d(3, DIM, 8, 8)
        self.first = nn.Parameter(torch.randn(1, 1, DIM))
        self.places = nn.Parameter(torch.randn(1, 17, DIM))
        layer = nn.TransformerEncoderLayer(
            DIM, HEADS, 64, batch_first=True, norm_first=True, activation="gelu"
        )
        self.layers, self.head = nn.TransformerEncoder(layer, 3), nn.Linear(DIM, 10)

    def forward(self, x: Any) -> Any:
        """Return the scores of the image."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


class Unet(nn.Module):
    """Blocks down and up again, with what is passed across."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.a, self.b, self.middle, self.c = block(3, 8), block(8, 16), block(16, 16), block(32, 8)
        self.up, self.last = nn.ConvTranspose2d(16, 16, 2, 2), nn.Conv2d(16, 2, 1)

    def forward(self, x: Any) -> Any:
        """Return an image of the same size."""
        first = self.a(x)
        second = self.b(F.max_pool2d(first, 2))
        below = self.up(self.middle(F.avg_pool2d(second, 2)))
        x = self.c(torch.cat([below, second], 1))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        return self.last(torch.cat([x, first], 1))


class FunctionModule(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Create a module that calls a function."""
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        """Return the result of the function."""
        return self.function(*args)


class DataDependent(nn.Module):
    """Two branches between which a Python `if` decides by the data."""

    def forward(self, x: Any) -> Any:
        """Return the result of the branch that the sum of the data selects."""
        x = torch.tanh(x)
        if x.sum() > 0:
            return x * 2 + 1
        return x - 3


def normal(*shape: int) -> Any:
    """Return normal numbers of a shape, the same on each call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def settle(module: nn.Module) -> nn.Module:
    """Return a module in inference mode, whose norms have statistics."""
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            part.running_mean.normal_(0, 0.2)
            part.running_var.uniform_(0.5, 2)
    return module.eval()


def module_maker(make: Callable[[], nn.Module], *args: Any) -> Callable[[], Made]:
    """Return a function that creates a module with fixed random weights, and its example."""

    def create() -> Made:
        """Return the module for inference, and its example."""
        torch.manual_seed(0)
        return settle(make()), args

    return create


def operator(function: Callable[..., Any], *args: Any) -> Callable[[], Made]:
    """Return a function that creates a module of a function, and its example."""
    return lambda: (FunctionModule(function).eval(), args)


IMAGE, TOKENS = normal(1, 3, 32, 32), torch.arange(1, 10)[None]
NETWORKS = [
    Program("cnn", module_maker(Cnn, normal(1, 3, 16, 16))),
    Program("encoder", module_maker(Encoder, TOKENS)),
    Program("decoder", module_maker(Decoder, TOKENS)),
    Program("recurrent", module_maker(Recurrent, normal(2, 5, 8))),
    Program("vit", module_maker(Vit, IMAGE)),
    Program("unet", module_maker(Unet, IMAGE)),
]
MASK = torch.tensor([True, False, True, False, True])


def _put(x: Any, mask: Any) -> Any:
    """Return a copy of a tensor with other values in the columns of a mask."""
    changed = x.clone()
    changed[:, mask] = changed[:, mask] * 2 + 1
    return changed


OPERATORS = [
    Program("put", operator(_put, normal(2, 5), MASK)),
    Program("remainder", operator(lambda x: torch.remainder(x, -0.7) + x, normal(3, 5))),
    Program("moments", operator(lambda x: torch.var(x, 1) + torch.std(x, 1, False), normal(3, 6))),
    Program("running", operator(lambda x: x.logcumsumexp(1) + x.cumsum(0), normal(3, 6))),
    Program("unfold", operator(lambda x: F.unfold(x, 3, stride=2, padding=1), normal(1, 2, 6, 6))),
    Program(
        "grid",
        operator(
            lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
            normal(1, 2, 5, 5), normal(1, 4, 4, 2),
        ),
    ),
    Program(
        "scatter",
        operator(
            lambda x, i: torch.zeros(4, 8).scatter_add(0, i, x),
            normal(4, 8), torch.arange(32).reshape(4, 8) % 4,
        ),
    ),
    Program("roll", operator(lambda x: x.roll((1, -2), (0, 1)).flip(0), normal(4, 5))),
    Program("sorted", operator(lambda x: x.topk(3, 1)[0] * x.argsort(1)[:, :3], normal(4, 6))),
    Program("pad", operator(lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), normal(1, 2, 5, 5))),
    Program("shuffle", operator(lambda x: F.pixel_shuffle(x, 2).amax(1), normal(1, 8, 3, 3))),
    Program("einsum", operator(lambda x, y: torch.einsum("bij,bkj->bik", x, y), normal(2, 3, 4),
                               normal(2, 5, 4))),
]  # fmt: skip

WINDOW = torch.arange(1, 17, dtype=torch.float32).reshape(1, 1, 4, 4)
CHOSEN = torch.tensor([[True] * 4 + [False] * 4])
PUBLIC = [
    Program(
        "pytorch#186146",
        operator(lambda x, m, y: x.masked_scatter(m.unsqueeze(-1), y) * 2, normal(1, 8, 6), CHOSEN,
                 normal(4, 6)),
        wrong="aten.masked_scatter",
    ),
    Program(
        "pytorch#183528",
        operator(
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=True) + 1, WINDOW
        ),
        wrong="aten.avg_pool2d",
    ),
    Program(
        "pytorch#191014",
        operator(lambda x: (x >> 1) * 3, torch.arange(-7, 8)[None]),
        wrong="aten.__rshift__",
    ),
    Program(
        "pytorch#183523",
        operator(lambda x: F.interpolate(x, size=(1, 1), mode="bilinear") * 2,
                 normal(1, 3, 10, 10)),
        wrong="aten.upsample_bilinear2d",
    ),
    Program(
        "pytorch#183546",
        operator(
            lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", antialias=True) * 2,
            normal(1, 2, 12, 16),
        ),
        wrong="aten._upsample_bilinear2d_aa",
    ),
    Program(
        "floor_divide", operator(lambda x: torch.tanh(x) // 0.3, normal(3, 5)), ("older",),
        "aten.floor_divide",
    ),
    Program(
        "if",
        module_maker(DataDependent, normal(3, 4).abs()),
        ("older",),
        "aten.sub",
        (-normal(3, 4).abs(),),
    ),
]  # fmt: skip


def libraries() -> Iterator[Program]:
    """Yield networks of other installed libraries, with random weights."""
    try:
        import torchvision.models as vision

        picture = normal(1, 3, 64, 64)
        for name in ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1"):
            yield Program(f"torchvision.{name}", module_maker(getattr(vision, name), picture))
        build = module_maker(
            lambda: vision.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None), picture
        )
        yield Program("torchvision.lraspp", build)
    except ImportError:
        pass
    try:
        import timm

        for name, size in (("vit_tiny_patch16_224", 224), ("convnext_atto", 64),
                           ("mobilevit_xxs", 64), ("efficientnet_lite0", 64),
                           ("mixer_s32_224", 224), ("repvgg_a0", 64)):  # fmt: skip
            make = module_maker(lambda name=name: timm.create_model(name), normal(1, 3, size, size))
            yield Program(f"timm.{name}", make)
    except ImportError:
        pass
    try:
        import transformers as library
    except ImportError:
        return
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 64, "vocab_size": VOCABULARY}  # fmt: skip

    class Outputs(nn.Module):
        """Returns what is no cache."""

        def __init__(self, inner: nn.Module) -> None:
            """Create a module that returns the first output of a model."""
            super().__init__()
            self.inner = inner

        def forward(self, tokens: Any) -> Any:
            """Return the first output of the model."""
            return self.inner(tokens, use_cache=False)[0]

    def causal(kind: str, **more: Any) -> Callable[[], nn.Module]:
        """Return a function that creates a small language model of a kind."""
        config = getattr(library, f"{kind}Config")(**{**small, **more})
        model = {"Bert": "BertForMaskedLM", "GPT2": "GPT2LMHeadModel"}.get(kind)
        model_class = getattr(library, model or f"{kind}ForCausalLM")
        return lambda: Outputs(model_class(config))

    gpt = {"n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
    yield Program("transformers.gpt2", module_maker(causal("GPT2", **gpt), TOKENS))
    yield Program("transformers.llama", module_maker(causal("Llama"), TOKENS))
    yield Program("transformers.bert", module_maker(causal("Bert"), TOKENS))


def apart() -> nn.Module:
    """Return the module with a Python `if`, for `--torch`."""
    return module_maker(DataDependent)()[0]
