"""A request to quantize a model again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from polygraphy.domain.quantization.sites import Site


@frozen(eq=False)
class Requantization:
    """A request to quantize a model again with its quantizer and parameters, without some nodes.

    Attributes:
        producer: the quantizer, as in `QuantizedModel`.
        reference: the ``onnx.ModelProto`` in floating point; it is not changed.
        model: the quantized model, whose ranges are used.
        sites: the sites of that model.
        feeds: inputs, for quantizers that need them.
        excluded: the nodes that stay in floating point, for each requested model.
        keeps_full_range: whether the quantizer must not halve the range of weights, by model.
        seconds: after this time, the quantizer is stopped.
    """

    producer: str
    reference: Any = field(repr=False)
    model: Any = field(repr=False)
    sites: Sequence[Site] = field(repr=False)
    feeds: Sequence[Mapping[str, Any]] = field(repr=False)
    excluded: Sequence[Sequence[str]]
    keeps_full_range: Sequence[bool]
    seconds: float
