"""The options about TensorRT's networks, which more commands have than those about engines."""

from __future__ import annotations

from polygraphy.cli.backends.trt.network_options import TrtNetworkOptions, TrtParserOptions
from polygraphy.cli.backends.trt.precision_options import TrtTensorOptions
from polygraphy.cli.declare.option import Options

NETWORK_GROUPS: tuple[type[Options], ...] = (
    TrtParserOptions,
    TrtNetworkOptions,
    TrtTensorOptions,
)
"""What an engine is built from."""
