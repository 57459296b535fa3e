"""From options to the context of a program: how it builds, loads and runs TensorRT engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.backends.trt.checks import BUILD_GROUPS, is_calibrated, warn_about_unused
from polygraphy.cli.backends.trt.config_options import (
    TrtConfigOptions,
    TrtDeviceOptions,
    TrtPlanOptions,
    TrtScriptOptions,
)
from polygraphy.cli.backends.trt.engine_options import TrtLoadOptions, TrtRunnerOptions
from polygraphy.cli.backends.trt.network_options import (
    TrtNetworkOptions,
    TrtParserOptions,
    TrtPluginOptions,
)
from polygraphy.cli.backends.trt.precision_options import (
    TrtCalibrationOptions,
    TrtPrecisionOptions,
    TrtTensorOptions,
)
from polygraphy.cli.backends.trt.profiles import profiles_of
from polygraphy.cli.backends.trt.profiles_options import TrtProfileOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.shared.model import ModelOptions, split_symbol
from polygraphy.cli.shared.onnx import EVERY_TENSOR, OutputOptions
from polygraphy.codegen.parts.trt_model import TrtCalibration, TrtConfig, TrtNetwork, TrtTactics

_LAYER_FLAGS = {"float16": "fp16", "bfloat16": "bf16", "int8": "int8", "float8": "fp8"}
"""The precision that TensorRT must be allowed, for a layer to compute in a data type."""

_NATIVE_INSTANCENORM = "native_instancenorm"
_REPORT_DLA = "report_capability_dla"


def with_build_defaults(values: Values) -> Values:
    """Return the options of a command, with all groups about builds that it lacks as if they had
    been left out.
    """
    groups: dict[Any, Any] = {
        group: group() for group in (*BUILD_GROUPS, TrtPluginOptions, OutputOptions)
    }
    groups.update({type(group): group for group in values})
    return Values(groups)


def config_of(values: Values, usage: str, **more: Any) -> TrtConfig:
    """Return how an engine is built.

    Args:
        values: the options of all groups about builds.
        usage: the command, for messages.
        more: further arguments of the configuration, of options that only some commands have.

    Raises:
        CommandLineError: options do not fit together.
    """
    scripts = values[TrtScriptOptions]
    script = _named(
        scripts.trt_config_script,
        scripts.trt_config_func_name,
        ("--trt-config-script", "--trt-config-func-name"),
        usage,
    )
    warn_about_unused(values)
    if script is not None:
        return TrtConfig(script=script, postprocess_script=scripts.trt_config_postprocess_script)
    precisions = _precisions(values[TrtPrecisionOptions])
    options = {**_options(values, usage), **more}
    return TrtConfig(
        precisions=precisions,
        options={name: value for name, value in options.items() if value is not None},
        profiles=profiles_of(values[TrtProfileOptions], values[ModelOptions].input_shapes, usage),
        calibration=(
            _calibration(values[TrtCalibrationOptions])
            if is_calibrated(values[TrtPrecisionOptions])
            else None
        ),
        tactics=_tactics(values[TrtTacticOptions], usage),
        postprocess_script=scripts.trt_config_postprocess_script,
    )


def _precisions(options: TrtPrecisionOptions) -> dict[str, bool]:
    """Return the precisions that are allowed."""
    constraints = options.precision_constraints
    per_layer = constraints if isinstance(constraints, Mapping) else {}
    needed = {_LAYER_FLAGS[dtype] for dtype in per_layer.values() if dtype in _LAYER_FLAGS}
    names = ("tf32", "fp16", "bf16", "fp8", "int8")
    return {name: True for name in names if getattr(options, name) or name in needed}


def _constraints(options: TrtPrecisionOptions) -> str | None:
    if isinstance(options.precision_constraints, Mapping):
        return "obey"
    return None if options.precision_constraints == "none" else options.precision_constraints


def _options(values: Values, usage: str) -> dict[str, Any]:
    """Return the other arguments, in the order in which they are documented; None for those that
    were not given.
    """
    build, plan, device = values[TrtConfigOptions], values[TrtPlanOptions], values[TrtDeviceOptions]
    tactics, calibration = values[TrtTacticOptions], values[TrtCalibrationOptions]
    if plan.exclude_lean_runtime and not plan.version_compatible:
        raise CommandLineError(
            "--exclude-lean-runtime needs --version-compatible: no other engine holds one.", usage
        )
    return {
        "precision_constraints": _constraints(values[TrtPrecisionOptions]),
        "use_dla": device.use_dla or None,
        "allow_gpu_fallback": device.allow_gpu_fallback or None,
        "load_timing_cache": tactics.load_timing_cache or tactics.timing_cache,
        "sparse_weights": build.sparse_weights or None,
        "tactic_sources": _listed(tactics.tactic_sources),
        "restricted": device.trt_safety_restricted or None,
        "profiling_verbosity": build.profiling_verbosity,
        "memory_pool_limits": _pools(build),
        "refittable": plan.refittable or None,
        "strip_plan": plan.strip_plan or None,
        "preview_features": _listed(build.preview_features),
        "direct_io": build.direct_io or None,
        "builder_optimization_level": build.builder_optimization_level,
        "hardware_compatibility_level": plan.hardware_compatibility_level,
        "max_aux_streams": build.max_aux_streams,
        "version_compatible": plan.version_compatible or None,
        "exclude_lean_runtime": plan.exclude_lean_runtime or None,
        "quantization_flags": _listed(calibration.quantization_flags),
        "error_on_timing_cache_miss": tactics.error_on_timing_cache_miss or None,
        "disable_compilation_cache": tactics.disable_compilation_cache or None,
        "weight_streaming": plan.weight_streaming or None,
        "runtime_platform": plan.runtime_platform,
        "tiling_optimization_level": build.tiling_optimization_level,
    }


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _pools(options: TrtConfigOptions) -> dict[str, int] | None:
    pools = dict(options.pool_limit or {})
    if options.workspace is not None:
        pools.setdefault("workspace", options.workspace)
    return pools or None


def _calibration(options: TrtCalibrationOptions) -> TrtCalibration:
    return TrtCalibration(
        cache=options.calibration_cache,
        base_class=options.calib_base_cls,
        quantile=options.quantile,
        regression_cutoff=options.regression_cutoff,
    )


def _tactics(options: TrtTacticOptions, usage: str) -> TrtTactics | None:
    if options.save_tactics is not None and options.load_tactics is not None:
        raise CommandLineError(
            "--save-tactics and --load-tactics exclude each other. Choose one.", usage
        )
    made = TrtTactics(
        save=options.save_tactics, load=options.load_tactics, exclude=options.exclude_tactics
    )
    return None if made == TrtTactics() else made


def network_of(values: Values, usage: str, *, is_script: bool) -> TrtNetwork:
    """Return where the network comes from, and what is changed in it.

    Args:
        values: the options of all groups about networks.
        usage: the command, for messages.
        is_script: whether the model is a script that makes the network.

    Raises:
        CommandLineError: options do not fit together.
    """
    options, every = values[TrtNetworkOptions], values[OutputOptions]
    precision, tensors = values[TrtPrecisionOptions], values[TrtTensorOptions]
    constraints = precision.precision_constraints
    marks_all = every.mark_all or options.trt_outputs == EVERY_TENSOR
    # An ONNX model lacks its excluded outputs already, unless the network's are chosen anew.
    is_chosen_here = is_script or marks_all or options.trt_outputs or options.trt_outputs_by_type
    excluded = (every.exclude_outputs if is_chosen_here else ()) + options.trt_exclude_outputs
    parsing = {} if is_script else _parsing(values)
    reports = _REPORT_DLA in parsing.get("flags", ())
    return TrtNetwork(
        script=_network_script(values, usage) if is_script else None,
        parsing=parsing,
        parser_config=_parser_config(values) if reports else None,
        plugins=values[TrtPluginOptions].plugins,
        postprocess_scripts=options.trt_network_postprocess_script,
        mark_all=marks_all,
        outputs=() if marks_all else options.trt_outputs,
        mark_types=options.trt_outputs_by_type,
        exclude_outputs=tuple(dict.fromkeys(excluded)),
        layer_precisions={
            **(precision.layer_precisions or {}),
            **(constraints if isinstance(constraints, Mapping) else {}),
        },
        decomposable_attentions=options.decomposable_attentions,
        tensor_datatypes=tensors.all_tensor_dtypes or tensors.tensor_dtypes,
        tensor_formats=_formats(tensors),
        debug_tensors=options.mark_debug,
    )


def _network_script(values: Values, usage: str) -> tuple[str, str]:
    model = values[ModelOptions].model_file or ""
    path, symbol = split_symbol(model)
    named = values[TrtNetworkOptions].trt_network_func_name
    if symbol and named and symbol != named:
        raise CommandLineError(
            f"the network function is called {symbol!r} by {model} and {named!r} by"
            " --trt-network-func-name. Give one name.",
            usage,
        )
    return path, symbol or named or "load_network"


def _parsing(values: Values) -> dict[str, Any]:
    """Return the arguments of the loader that parses an ONNX model."""
    parser, plan = values[TrtParserOptions], values[TrtPlanOptions]
    flags = list(parser.onnx_flags)
    if parser.enable_uint8_asymmetric_quantization_dla:
        flags.append("enable_uint8_and_asymmetric_quantization_dla")
    travels = plan.version_compatible or plan.hardware_compatibility_level is not None
    if travels and not parser.plugin_instancenorm:
        flags.append(_NATIVE_INSTANCENORM)  # The plugin is not there where the engine goes.
    options = values[TrtNetworkOptions]
    given = {
        "flags": list(dict.fromkeys(flags)) or None,
        "plugin_instancenorm": parser.plugin_instancenorm or None,
        "strongly_typed": values[TrtPrecisionOptions].strongly_typed or None,
        "mark_unfused_tensors_as_debug_tensors": options.mark_unfused_tensors_as_debug_tensors
        or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _parser_config(values: Values) -> TrtConfig:
    """Return what the parser has to know of the configuration: on what layers run, and in which
    precisions.
    """
    device = values[TrtDeviceOptions]
    given = {"use_dla": device.use_dla, "allow_gpu_fallback": device.allow_gpu_fallback}
    return TrtConfig(
        precisions=_precisions(values[TrtPrecisionOptions]),
        options={name: True for name, is_given in given.items() if is_given},
    )


def _formats(options: TrtTensorOptions) -> Any:
    if options.all_tensor_formats is not None:
        return list(options.all_tensor_formats)
    if options.tensor_formats is None:
        return None
    return {name: list(formats) for name, formats in options.tensor_formats.items()}


def save_timing_cache_of(values: Values) -> str | None:
    """Return where measured times are saved."""
    options = values[TrtTacticOptions]
    return options.save_timing_cache or options.timing_cache


def running_of(options: TrtRunnerOptions) -> dict[str, Any]:
    """Return the arguments of the runner."""
    budget = options.weight_streaming_budget
    given = {
        "optimization_profile": options.optimization_profile,
        "allocation_strategy": options.allocation_strategy,
        "weight_streaming_budget": budget if isinstance(budget, int) else None,
        "weight_streaming_percent": budget if isinstance(budget, float) else None,
        "cuda_graph": options.cuda_graph,
        "device": options.device,
        "device_times": options.device_times or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def loading_of(options: TrtLoadOptions) -> dict[str, Any]:
    """Return with what engines are loaded, by the names of `TrtModel`."""
    return {
        "load_runtime": options.load_runtime,
        "dla_workspace_allocation_strategy": options.dla_workspace_allocation_strategy,
    }


def _named(
    script: tuple[str, str] | None, name: str | None, flags: tuple[str, str], usage: str
) -> tuple[str, str] | None:
    """Return a script and the function in it that another option may name."""
    if name is None:
        return script
    if script is None:
        raise CommandLineError(f"{flags[1]} needs {flags[0]}, the script that has it.", usage)
    return script[0], name
