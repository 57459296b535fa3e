"""How TensorRT builds a model that is diagnosed."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.backends.trt.config_options import optimization_level_option, pool_limit_option
from polygraphy.cli.backends.trt.precision_options import tf32_option
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class TrtPartyOptions(Options):
    """TensorRT Build: how engines are built."""

    fp16: bool = option(
        "--fp16",
        feeds="TrtParty.fp16",
        help="Compute in fp16 where that is faster, and find the nodes that must not.",
    )
    bf16: bool = option(
        "--bf16",
        feeds="TrtParty.bf16",
        help="Compute in bf16 where that is faster, and find the nodes that must not.",
    )
    tf32: bool = tf32_option()
    pool_limit: Mapping[str, int] | None = pool_limit_option()
    builder_optimization_level: int | None = optimization_level_option()
