"""What becomes of a TensorRT engine: saved, run, or built for a diagnosis."""

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
    """TensorRT Engine Saving: the engine as it is run."""

    save_engine: str | None = option(
        "--save-engine", writes=True, help="Save the engine that is built."
    )


@option_group
class TrtLoadOptions(Options):
    """TensorRT Engine Loading: with what engines are loaded."""

    load_runtime: str | None = option(
        "--load-runtime",
        feeds=("EngineFromNetwork.runtime", "EngineFromPath.runtime"),
        reads="Library",
        kind=RuntimeLibrary("PATH"),
        help="Library of the lean runtime that loads a --version-compatible engine.",
    )
    dla_workspace_allocation_strategy: str | None = option(
        "--dla-workspace-allocation-strategy",
        feeds=(
            "EngineFromNetwork.dla_workspace_allocation_strategy",
            "EngineFromPath.dla_workspace_allocation_strategy",
        ),
        kind=Member("DLAWorkspaceAllocationStrategy", "STRATEGY"),
        help="How DLA workspaces are allocated: default or shared_static.",
    )


@option_group
class TrtRunnerOptions(Options):
    """TensorRT Inference: how an engine is run."""

    optimization_profile: int | None = option(
        "--optimization-profile",
        feeds="TrtRunner.optimization_profile",
        kind=Integer(minimum=0),
        help="Index of the profile to run with.",
        otherwise="0",
    )
    allocation_strategy: str | None = option(
        "--allocation-strategy",
        feeds="TrtRunner.allocation_strategy",
        kind=Choice("static", "profile", "runtime"),
        help="How much memory for activations: for all profiles (static), for the one in use, or"
        " for the shapes at hand (runtime).",
    )
    weight_streaming_budget: Union[int, float, None] = option(
        "--weight-streaming-budget",
        feeds="TrtRunner.weight_streaming_budget",
        kind=Budget(),
        help="GPU memory for weights of a --weight-streaming engine, as in 1G or 50% of them; -1"
        " is what TensorRT thinks best, -2 all.",
    )
    cuda_graph: str | None = option(
        "--cuda-graph",
        feeds="TrtRunner.cuda_graph",
        kind=Choice("auto", "on", "off"),
        help="Whether repeated shapes are replayed from a CUDA graph.",
    )
    device: int | None = option(
        "--device",
        feeds="TrtRunner.device",
        kind=Integer(minimum=0),
        help="Index of the GPU to build, load and run on.",
        otherwise="0",
    )
    device_times: bool = option(
        "--device-times",
        feeds="TrtRunner.device_times",
        help="Have the GPU measure copies and computation of each inference, and report their"
        " percentiles.",
    )


@option_group
class TrtGpuOptions(Options):
    """TensorRT GPU: where an engine that is only saved is built."""

    device: int | None = option(
        "--device",
        feeds="EngineBytesFromNetwork.device",
        kind=Integer(minimum=0),
        help="Index of the GPU to build on, and for.",
        otherwise="0",
    )


@option_group
class TrtPoolOptions(Options):
    """TensorRT Outputs: memory at run time."""

    pooled_outputs: bool = option(
        "--pooled-outputs",
        help="Let runners keep one growing allocation per output. They always do here, so that the"
        " engine is the same with and without it.",
    )


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
    tf32: bool = TF32
    pool_limit: Mapping[str, int] | None = POOL_LIMIT
    builder_optimization_level: int | None = OPTIMIZATION_LEVEL
