"""How TensorRT builds a model that is diagnosed."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.backends.trt.kinds import Member, PerNameOnly
from polygraphy.cli.declare.kinds import Integer
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.declare.size import ByteSize


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
    tf32: bool = option(
        "--tf32",
        feeds="TrtParty.tf32",
        help="Round the factors of fp32 products to TF32, where that helps.",
    )
    pool_limit: Mapping[str, int] | None = option(
        "--pool-limit",
        "--memory-pool-limit",
        feeds="TrtParty.memory_pool_limits",
        kind=PerNameOnly(ByteSize(), "POOL", Member("MemoryPoolType", "POOL")),
        help="Limits of memory pools, as in --pool-limit workspace:4G dla_local_dram:1G.",
    )
    builder_optimization_level: int | None = option(
        "--builder-optimization-level",
        feeds="TrtParty.builder_optimization_level",
        kind=Integer(minimum=0),
        help="From 0, quick build, to 5, quick engine.",
        otherwise="3",
    )
