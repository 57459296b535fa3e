"""The options about TensorRT's networks, which more commands have than those about engines."""

from __future__ import annotations

from polygraphy.cli.option import Options
from polygraphy.cli.options.trt_network import TrtNetworkOptions, TrtParserOptions
from polygraphy.cli.options.trt_precision import TrtTensorOptions

__all__ = ["NETWORK_GROUPS"]

NETWORK_GROUPS: tuple[type[Options], ...] = (
    TrtParserOptions,
    TrtNetworkOptions,
    TrtTensorOptions,
)
"""What an engine is built from."""
