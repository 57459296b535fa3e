"""The places at which a model is quantized."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np
from attrs import field, frozen

from polygraphy.domain.quantization.schemes import Scheme
from polygraphy.domain.tensors.aliases import Array

RAW = "//raw"
"""Suffix of the input of an activation that quantizers remove, because the range of the integers
has the same effect."""
DEQUANTIZED = "//float"
"""Suffix of the floating-point form of a stored tensor, if another tensor has its name."""
CORRECTED = "//corrected"
"""Suffix of a floating-point bias that the quantizer changed."""
QUANTIZED_OPERATORS = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantize", "QLinear", "ConvInteger",
    "MatMulInteger", "MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "GatherBlockQuantized", "QMoE",
    "QGemm", "QAttention", "QEmbedLayerNorm",
)  # fmt: skip
"""Prefixes of operators that compute in a quantized type."""

Kind = Literal["activation", "weight", "bias", "operator"]


@frozen(eq=False)
class Site:
    """A point at which a model is quantized and that can be switched off separately.

    Attributes:
        name: the tensor in floating point, or its name in the reference; of an operator that
            computes in few bits itself, the tensor that it computes.
        kind: an activation, a weight, a bias, or an operator that reads few bits itself, as
            MatMulNBits.
        scheme: its storage scheme; None if that is decided at run time.
        read: its scheme when read, if that differs.
        values: the numbers that are read of a weight or bias; None of an activation.
        exact: a weight as the reference has it; None if it is not known.
        codes: the stored codes of a weight or bias; None of an activation.
        format: the quantization of the model, in words.
        packing: other attributes that decide how the codes of an operator are read.
        channel_axis: of a weight, the axis of the channels that may have a scale each; None if its
            node is not known to have one.
        is_missing: of an activation, whether its pair is missing, so that nodes read what the Relu
            or Clip that the pair replaces would change; the scheme is that of another pair.
    """

    name: str
    kind: Kind
    scheme: Scheme | None
    read: Scheme | None = None
    values: Array | None = field(default=None, repr=False)
    exact: Array | None = field(default=None, repr=False)
    codes: Array | None = field(default=None, repr=False)
    format: str = ""
    packing: Any = field(default=None, repr=False)
    channel_axis: int | None = None
    is_missing: bool = False

    @property
    def axis(self) -> int | None:
        """Return the channel axis of an activation with per-channel scales; else None."""
        scheme = self.scheme
        is_split = scheme is not None and not scheme.is_per_tensor and not scheme.block
        return scheme.axis if scheme is not None and is_split else None

    def round_trip(self, array: Any) -> Array:
        """Return an activation after quantization and dequantization."""
        assert self.scheme is not None
        if self.is_missing:
            return np.asarray(array, np.float64)
        return (self.read or self.scheme).values(self.scheme.codes(array))


@frozen
class FloatNode:
    """A computing node of the model before quantization.

    Attributes:
        name: its name, or its first output if it has none.
        op: its operator.
        reads: the tensors in floating point that it reads, weights among them.
        makes: the tensors that it computes.
        quantizer_name: the name by which its quantizer knows it; empty if the node has none.
    """

    name: str
    op: str
    reads: Sequence[str]
    makes: Sequence[str]
    quantizer_name: str | None = None


def is_coarse(op: str) -> bool:
    """Return whether an operator of any domain computes in a quantized type."""
    return op.rpartition(".")[2].startswith(QUANTIZED_OPERATORS)


def nearest_before(name: str, nodes: Sequence[FloatNode], choices: Collection[str]) -> str:
    """Return the choice that is nearest before a node, or the node itself if it is one, or if none
    is before it."""
    makers = {name: node for node in nodes for name in node.makes}
    pending = [node for node in nodes if node.name == name]
    seen: set[str] = set()
    while pending:
        node = pending.pop(0)
        if node.name in choices:
            return node.name
        seen.add(node.name)
        makes = (makers[read] for read in node.reads if read in makers)
        pending += [maker for maker in makes if maker.name not in seen]
    return name
