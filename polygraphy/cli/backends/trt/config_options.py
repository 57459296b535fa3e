"""Options for the build of an engine."""

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
    help="Size limits of memory pools, as in --pool-limit workspace:4G dla_local_dram:1G.",
)


OPTIMIZATION_LEVEL: Any = option(
    "--builder-optimization-level",
    feeds=("CreateConfig.builder_optimization_level", "TrtParty.builder_optimization_level"),
    kind=Integer(minimum=0),
    help="Builder optimization level, from 0 (fast build) to 5 (fast engine).",
    otherwise="3",
)


@option_group
class TrtConfigOptions(Options):
    """TensorRT Build: effort and resources of the builder."""

    workspace: int | None = option(
        "--workspace",
        feeds=("CreateConfig.memory_pool_limits", "UseTfTrt.max_workspace_size"),
        kind=ByteSize(),
        help="Memory for intermediate results of a layer, as in 512M; an alias of --pool-limit"
        " workspace:SIZE.",
    )
    pool_limit: Mapping[str, int] | None = POOL_LIMIT
    builder_optimization_level: int | None = OPTIMIZATION_LEVEL
    tiling_optimization_level: str | None = option(
        "--tiling-optimization-level",
        feeds="CreateConfig.tiling_optimization_level",
        kind=Member("TilingOptimizationLevel", "LEVEL"),
        help="Effort to find better tiles: none, fast, moderate or full.",
    )
    max_aux_streams: int | None = option(
        "--max-aux-streams",
        feeds="CreateConfig.max_aux_streams",
        kind=Integer(minimum=0),
        help="Maximum number of additional streams for inference.",
    )
    sparse_weights: bool = option(
        "--sparse-weights",
        feeds="CreateConfig.sparse_weights",
        help="Allow kernels that exploit 2:4 sparse weights.",
    )
    preview_features: tuple[str, ...] | None = option(
        "--preview-features",
        feeds="CreateConfig.preview_features",
        kind=Members("PreviewFeature", "FEATURE"),
        help="Preview features to enable; all others are disabled.",
    )
    profiling_verbosity: str | None = option(
        "--profiling-verbosity",
        feeds="CreateConfig.profiling_verbosity",
        kind=Member("ProfilingVerbosity", "LEVEL"),
        help="Level of detail about layers in the engine: none, layer_names_only or detailed.",
    )
    direct_io: bool = option(
        "--direct-io",
        feeds="CreateConfig.direct_io",
        help="Forbid reformatting of inputs and outputs.",
    )


@option_group
class TrtPlanOptions(Options):
    """TensorRT Plan: contents and targets of the engine."""

    refittable: bool = option(
        "--refittable",
        feeds="CreateConfig.refittable",
        help="Allow weights to be replaced in the built engine.",
    )
    strip_plan: bool = option(
        "--strip-plan",
        feeds="CreateConfig.strip_plan",
        help="Strip weights that can be refitted later from the engine.",
    )
    weight_streaming: bool = option(
        "--weight-streaming",
        feeds="CreateConfig.weight_streaming",
        help="Allow weights to stay in host memory; requires --strongly-typed.",
    )
    version_compatible: bool = option(
        "--version-compatible",
        feeds="CreateConfig.version_compatible",
        help="Build an engine that later versions of TensorRT can load.",
    )
    exclude_lean_runtime: bool = option(
        "--exclude-lean-runtime",
        feeds="CreateConfig.exclude_lean_runtime",
        help="Exclude the lean runtime from a --version-compatible engine.",
    )
    hardware_compatibility_level: str | None = option(
        "--hardware-compatibility-level",
        feeds="CreateConfig.hardware_compatibility_level",
        kind=Member("HardwareCompatibilityLevel", "LEVEL"),
        help="GPUs on which the engine runs: none, ampere_plus or same_compute_capability.",
    )
    runtime_platform: str | None = option(
        "--runtime-platform",
        feeds="CreateConfig.runtime_platform",
        kind=Member("RuntimePlatform", "PLATFORM"),
        help="Platform on which the engine runs: same_as_build or windows_amd64.",
    )


@option_group
class TrtCapabilityOptions(Options):
    """TensorRT Capability: subset of TensorRT for the engine."""

    engine_capability: str | None = option(
        "--engine-capability",
        feeds="CreateConfig.engine_capability",
        kind=Member("EngineCapability", "CAPABILITY"),
        help="Target of the engine: standard, safety or dla_standalone.",
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
        help="Allow the GPU to run layers that DLA cannot run, and all layers on machines"
        " without DLA.",
    )
    trt_safety_restricted: bool = option(
        "--trt-safety-restricted",
        feeds="CreateConfig.restricted",
        help="Restrict the network to the scope of safety engines.",
    )


@option_group
class TrtScriptOptions(Options):
    """TensorRT Configuration Scripts: a builder configuration in Python."""

    trt_config_script: tuple[str, str] | None = option(
        "--trt-config-script",
        reads="Script",
        kind=Script("load_config"),
        help="Python script that creates the builder configuration. Its function load_config (or"
        " the one that --trt-config-func-name names) receives (builder, network).",
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
        help="Python script with a function that changes the builder configuration. The"
        " function receives (builder, network, config).",
        otherwise="postprocess_config",
    )


@option_group
class TrtRtxOptions(Options):
    """TensorRT-RTX: target GPUs of the engine, with POLYGRAPHY_USE_TENSORRT_RTX=1."""

    use_gpu: bool = option(
        "--use-gpu",
        feeds="CreateConfigRTX.use_gpu",
        excludes="--compute-capabilities",
        help="Build for the GPU of this machine only.",
    )
    compute_capabilities: tuple[tuple[int, int], ...] = option(
        "--compute-capabilities",
        feeds="CreateConfigRTX.compute_capabilities",
        kind=ComputeCapabilities(),
        help="Build for GPUs of these compute capabilities, as in 8.9 12.0.",
    )
