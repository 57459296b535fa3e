"""Options for saving and running engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from polygraphy.cli.backends.trt.config_options import OPTIMIZATION_LEVEL, POOL_LIMIT
from polygraphy.cli.backends.trt.kinds import Budget, Member, RuntimeLibrary
from polygraphy.cli.backends.trt.precision_options import TF32
from polygraphy.cli.declare.kinds import Choice, Integer
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class TrtSaveOptions(Options):
    """TensorRT Engine Saving: the engine that runs."""

    save_engine: str | None = option("--save-engine", writes=True, help="Save the built engine.")


@option_group
class TrtLoadOptions(Options):
    """TensorRT Engine Loading: how to load engines."""

    load_runtime: str | None = option(
        "--load-runtime",
        feeds=("EngineFromNetwork.runtime", "EngineFromPath.runtime"),
        reads="Library",
        kind=RuntimeLibrary("PATH"),
        help="Path to the library of the lean runtime that loads a --version-compatible engine.",
    )
    dla_workspace_allocation_strategy: str | None = option(
        "--dla-workspace-allocation-strategy",
        feeds=(
            "EngineFromNetwork.dla_workspace_allocation_strategy",
            "EngineFromPath.dla_workspace_allocation_strategy",
        ),
        kind=Member("DLAWorkspaceAllocationStrategy", "STRATEGY"),
        help="Allocation of DLA workspaces: default or shared_static.",
    )


@option_group
class TrtRunnerOptions(Options):
    """TensorRT Inference: how to run an engine."""

    optimization_profile: int | None = option(
        "--optimization-profile",
        feeds="TrtRunner.optimization_profile",
        kind=Integer(minimum=0),
        help="Index of the optimization profile to use.",
        otherwise="0",
    )
    allocation_strategy: str | None = option(
        "--allocation-strategy",
        feeds="TrtRunner.allocation_strategy",
        kind=Choice("static", "profile", "runtime"),
        help="Memory for activations: for all profiles (static), for the active one (profile),"
        " or for the actual shapes (runtime).",
    )
    weight_streaming_budget: Union[int, float, None] = option(
        "--weight-streaming-budget",
        feeds="TrtRunner.weight_streaming_budget",
        kind=Budget(),
        help="GPU memory for the weights of a --weight-streaming engine, as in 1G or 50%; -1"
        " lets TensorRT choose, -2 uses all memory that is needed.",
    )
    cuda_graph: str | None = option(
        "--cuda-graph",
        feeds="TrtRunner.cuda_graph",
        kind=Choice("auto", "on", "off"),
        help="Replay repeated shapes from a CUDA graph.",
    )
    device: int | None = option(
        "--device",
        feeds="TrtRunner.device",
        kind=Integer(minimum=0),
        help="Index of the GPU that builds, loads and runs the engine.",
        otherwise="0",
    )
    device_times: bool = option(
        "--device-times",
        feeds="TrtRunner.device_times",
        help="Measure copies and computation of each inference on the GPU, and report percentiles.",
    )


@option_group
class TrtGpuOptions(Options):
    """TensorRT GPU: where to build an engine that is only saved."""

    device: int | None = option(
        "--device",
        feeds="EngineBytesFromNetwork.device",
        kind=Integer(minimum=0),
        help="Index of the GPU to build on.",
        otherwise="0",
    )


@option_group
class TrtPoolOptions(Options):
    """TensorRT Outputs: memory at run time."""

    pooled_outputs: bool = option(
        "--pooled-outputs",
        help="Keep one growing allocation per output. No effect (runners always do this);"
        " accepted so that scripts and engines stay valid.",
    )


@option_group
class TrtPartyOptions(Options):
    """TensorRT Build: how to build engines."""

    fp16: bool = option(
        "--fp16",
        feeds="TrtParty.fp16",
        help="Compute in fp16 if that is faster, and find the nodes that must stay in fp32.",
    )
    bf16: bool = option(
        "--bf16",
        feeds="TrtParty.bf16",
        help="Compute in bf16 if that is faster, and find the nodes that must stay in fp32.",
    )
    tf32: bool = TF32
    int8: bool = option(
        "--int8",
        feeds="TrtParty.int8",
        help="Compute a model with Q/DQ nodes in int8, which TensorRT 10 and older require.",
    )
    pool_limit: Mapping[str, int] | None = POOL_LIMIT
    builder_optimization_level: int | None = OPTIMIZATION_LEVEL
