"""How TensorRT builds an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.backends.trt.kinds import ComputeCapabilities, Member, Members, PerNameOnly
from polygraphy.cli.declare.kinds import Integer, Script, Text
from polygraphy.cli.declare.kinds.base import ByteSize
from polygraphy.cli.declare.option import Options, option, option_group

POOL_LIMIT: Any = option(
    "--pool-limit",
    "--memory-pool-limit",
    feeds=("CreateConfig.memory_pool_limits", "TrtParty.memory_pool_limits"),
    kind=PerNameOnly(ByteSize(), "POOL", Member("MemoryPoolType", "POOL")),
    help="Limits of memory pools, as in --pool-limit workspace:4G dla_local_dram:1G.",
)


OPTIMIZATION_LEVEL: Any = option(
    "--builder-optimization-level",
    feeds=("CreateConfig.builder_optimization_level", "TrtParty.builder_optimization_level"),
    kind=Integer(minimum=0),
    help="From 0, quick build, to 5, quick engine.",
    otherwise="3",
)


@option_group
class TrtConfigOptions(Options):
    """TensorRT Build: how hard the builder tries, and what it may use."""

    workspace: int | None = option(
        "--workspace",
        feeds=("CreateConfig.memory_pool_limits", "UseTfTrt.max_workspace_size"),
        kind=ByteSize(),
        help="Memory for intermediate results of a layer, as in 512M; as --pool-limit workspace:.",
    )
    pool_limit: Mapping[str, int] | None = POOL_LIMIT
    builder_optimization_level: int | None = OPTIMIZATION_LEVEL
    tiling_optimization_level: str | None = option(
        "--tiling-optimization-level",
        feeds="CreateConfig.tiling_optimization_level",
        kind=Member("TilingOptimizationLevel", "LEVEL"),
        help="How hard to look for better tiles: none, fast, moderate or full.",
    )
    max_aux_streams: int | None = option(
        "--max-aux-streams",
        feeds="CreateConfig.max_aux_streams",
        kind=Integer(minimum=0),
        help="How many streams inference may use besides its own.",
    )
    sparse_weights: bool = option(
        "--sparse-weights",
        feeds="CreateConfig.sparse_weights",
        help="Make use of weights that are 2:4 sparse.",
    )
    preview_features: tuple[str, ...] | None = option(
        "--preview-features",
        feeds="CreateConfig.preview_features",
        kind=Members("PreviewFeature", "FEATURE"),
        help="Preview features that are on; all others are off.",
    )
    profiling_verbosity: str | None = option(
        "--profiling-verbosity",
        feeds="CreateConfig.profiling_verbosity",
        kind=Member("ProfilingVerbosity", "LEVEL"),
        help="What the engine tells about its layers: none, layer_names_only or detailed.",
    )
    direct_io: bool = option(
        "--direct-io",
        feeds="CreateConfig.direct_io",
        help="Insert no reformatting at inputs and outputs.",
    )


@option_group
class TrtPlanOptions(Options):
    """TensorRT Plan: what the engine holds, and where it runs."""

    refittable: bool = option(
        "--refittable",
        feeds="CreateConfig.refittable",
        help="Let weights be exchanged in the built engine.",
    )
    strip_plan: bool = option(
        "--strip-plan",
        feeds="CreateConfig.strip_plan",
        help="Leave out weights that can be put in again later.",
    )
    weight_streaming: bool = option(
        "--weight-streaming",
        feeds="CreateConfig.weight_streaming",
        help="Let weights stay in host memory; needs --strongly-typed.",
    )
    version_compatible: bool = option(
        "--version-compatible",
        feeds="CreateConfig.version_compatible",
        help="Let later versions of TensorRT load the engine.",
    )
    exclude_lean_runtime: bool = option(
        "--exclude-lean-runtime",
        feeds="CreateConfig.exclude_lean_runtime",
        help="Leave the lean runtime out of a --version-compatible engine.",
    )
    hardware_compatibility_level: str | None = option(
        "--hardware-compatibility-level",
        feeds="CreateConfig.hardware_compatibility_level",
        kind=Member("HardwareCompatibilityLevel", "LEVEL"),
        help="On which GPUs the engine runs: none, ampere_plus or same_compute_capability.",
    )
    runtime_platform: str | None = option(
        "--runtime-platform",
        feeds="CreateConfig.runtime_platform",
        kind=Member("RuntimePlatform", "PLATFORM"),
        help="Where the engine is to run: same_as_build or windows_amd64.",
    )


@option_group
class TrtCapabilityOptions(Options):
    """TensorRT Capability: the subset of TensorRT that the engine keeps to."""

    engine_capability: str | None = option(
        "--engine-capability",
        feeds="CreateConfig.engine_capability",
        kind=Member("EngineCapability", "CAPABILITY"),
        help="standard, safety or dla_standalone.",
    )


@option_group
class TrtDeviceOptions(Options):
    """TensorRT Devices: DLA and safety."""

    use_dla: bool = option(
        "--use-dla", feeds="CreateConfig.use_dla", help="Run layers on DLA core 0."
    )
    allow_gpu_fallback: bool = option(
        "--allow-gpu-fallback",
        needs="--use-dla",
        feeds="CreateConfig.allow_gpu_fallback",
        help="Let layers that DLA cannot run, or all where there is no DLA, run on the GPU.",
    )
    trt_safety_restricted: bool = option(
        "--trt-safety-restricted",
        feeds="CreateConfig.restricted",
        help="Keep to what is allowed in safety engines.",
    )


@option_group
class TrtScriptOptions(Options):
    """TensorRT Configuration Scripts: a builder configuration in Python."""

    trt_config_script: tuple[str, str] | None = option(
        "--trt-config-script",
        reads="Script",
        kind=Script("load_config"),
        help="Take the builder configuration from a Python script: what its function load_config,"
        " or the one that is named, returns for (builder, network).",
    )
    trt_config_func_name: str | None = option(
        "--trt-config-func-name",
        kind=Text("NAME"),
        help="Name of the function in --trt-config-script.",
    )
    trt_config_postprocess_script: tuple[str, str] | None = option(
        "--trt-config-postprocess-script",
        "--trt-cpps",
        feeds="PostprocessConfig.func",
        reads="Script",
        kind=Script("postprocess_config"),
        help="Change the builder configuration with a function of a Python script, by default"
        " postprocess_config: it takes (builder, network, config).",
    )


@option_group
class TrtRtxOptions(Options):
    """TensorRT-RTX: for which GPUs the engine is built, with POLYGRAPHY_USE_TENSORRT_RTX=1."""

    use_gpu: bool = option(
        "--use-gpu",
        feeds="CreateConfigRTX.use_gpu",
        excludes="--compute-capabilities",
        help="Build for the GPU of this machine rather than for any.",
    )
    compute_capabilities: tuple[tuple[int, int], ...] = option(
        "--compute-capabilities",
        feeds="CreateConfigRTX.compute_capabilities",
        kind=ComputeCapabilities(),
        help="Build for GPUs of these compute capabilities, as in 8.9 12.0.",
    )
