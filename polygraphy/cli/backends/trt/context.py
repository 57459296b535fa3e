"""From options to the context of a program: how it builds, loads and runs TensorRT engines."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.backends.trt.checks import is_calibrated, warn_about_unused
from polygraphy.cli.backends.trt.config_options import (
    TrtConfigOptions,
    TrtDeviceOptions,
    TrtPlanOptions,
    TrtScriptOptions,
)
from polygraphy.cli.backends.trt.engine_options import TrtRunnerOptions
from polygraphy.cli.backends.trt.model import TrtConfig, TrtModel, TrtNetwork
from polygraphy.cli.backends.trt.names import DATA_TYPES
from polygraphy.cli.backends.trt.network_options import (
    TrtNetworkOptions,
    TrtParserOptions,
)
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions
from polygraphy.cli.backends.trt.profiles import Profile, TrtProfileOptions, profiles_of
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Values, call_of
from polygraphy.cli.shared.model import ModelOptions, split_symbol
from polygraphy.cli.shared.onnx import EVERY_TENSOR, OutputOptions
from polygraphy.cli.shared.steps import DATA_PROFILES, StepOptions
from polygraphy.codegen.source import Call, Name, Source
from polygraphy.domain.catalog.precisions import PRECISIONS, REDUCED

_NATIVE_INSTANCENORM = "native_instancenorm"
_REPORT_DLA = "report_capability_dla"
_DECOMPOSABLE = "SetDecomposableAttentions"


def build_of(values: Values, *, is_script: bool, builder: str = "EngineFromNetwork") -> TrtModel:
    """Return the way to build an engine, as calls and statements.

    Args:
        values: the options of all groups about builds.
        is_script: whether the model is a script that creates the network.
        builder: the builder.

    Raises:
        CommandLineError: options do not fit together.
    """
    config = config_of(values)
    return TrtModel(
        network=network_of(values, is_script=is_script, config=config),
        config=config,
        build=call_of(builder, values),
    )


def config_of(values: Values) -> TrtConfig:
    """Return the way to create the builder configuration, as calls.

    Args:
        values: the options of all groups about builds.

    Raises:
        CommandLineError: options do not fit together.
    """
    scripts = values[TrtScriptOptions]
    script = _script_function(
        scripts.trt_config_script,
        scripts.trt_config_func_name,
        ("--trt-config-script", "--trt-config-func-name"),
    )
    warn_about_unused(values)
    postprocess = call_of("PostprocessConfig", values)
    if script is not None:
        make, calibration = Call("InvokeFromScript", script[:1], {"name": script[1]}), None
    else:
        make, calibration = _config_call(values), _calibration(values)
    return TrtConfig(make, postprocess if postprocess.kwargs else None, calibration)


def _config_call(values: Values) -> Call:
    """Return the call that creates the builder configuration."""
    plan, precision = values[TrtPlanOptions], values[TrtPrecisionOptions]
    if plan.exclude_lean_runtime and not plan.version_compatible:
        raise CommandLineError(
            "--exclude-lean-runtime requires --version-compatible: no other engine contains a"
            " lean runtime."
        )
    shapes = values[ModelOptions].input_shapes
    over_steps = values[StepOptions].steps is not None
    ranges = profiles_of(values[TrtProfileOptions], None if over_steps else shapes)
    profiles: object = [_profile_call(bounds) for bounds in ranges] or None
    if profiles is None and over_steps:
        profiles = DATA_PROFILES
    rtx = call_of("CreateConfigRTX", values).kwargs
    layers = _precisions_of_layers(precision)
    allowed = call_of("CreateConfig", (precision,), **layers).kwargs
    quantizes = any(
        precision.is_quantized and precision.name in allowed for precision in PRECISIONS.values()
    )
    call = call_of(
        "CreateConfig",
        values,
        profiles=profiles,
        algorithm_selector=_tactics(values[TrtTacticOptions]),
        precision_constraints=_constraints(precision),
        memory_pool_limits=_pool_limits(values[TrtConfigOptions]),
        calibrator=Source("calibrator") if quantizes else None,
        **layers,
    )
    return Call("CreateConfigRTX", kwargs={**rtx, **call.kwargs}) if rtx else call


def _precisions_of_layers(options: TrtPrecisionOptions) -> dict[str, bool]:
    """Return the precisions that must be enabled for the requested data types of layers."""
    constraints = options.precision_constraints
    wanted = set(constraints.values()) if isinstance(constraints, Mapping) else set()
    return {
        name: True for name, precision in REDUCED.items() if DATA_TYPES[precision.dtype] in wanted
    }


def _constraints(options: TrtPrecisionOptions) -> str | None:
    """Return the precision constraints: "obey" if layers have precisions, else the requested ones.
    The result is None without any."""
    if isinstance(options.precision_constraints, Mapping):
        return "obey"
    return None if options.precision_constraints == "none" else options.precision_constraints


def _pool_limits(options: TrtConfigOptions) -> dict[str, int] | None:
    """Return the memory pool limits in bytes, by name; None without any."""
    pools = dict(options.pool_limit or {})
    if options.workspace is not None:
        pools.setdefault("workspace", options.workspace)
    return pools or None


def _profile_call(shapes: Profile) -> Call:
    """Return the call that creates an optimization profile."""
    call = Call("Profile")
    for name, by_end in shapes.items():
        call = Call("Profile.add", (name,), by_end, on=call)
    return call


def _calibration(values: Values) -> Call | None:
    """Return the call that creates the calibrator; None if nothing is computed in 8 bits."""
    if not is_calibrated(values[TrtPrecisionOptions]):
        return None
    return call_of("Calibrator", values, Source("data_loader"))


def _tactics(options: TrtTacticOptions) -> Call | None:
    """Return the call that creates the algorithm selector; None without options about tactics."""
    save, load, exclude = options.save_tactics, options.load_tactics, options.exclude_tactics
    if save is not None:
        return Call("TacticRecorder", (save,), {"exclude": exclude})
    if load is None and exclude is None:
        return None
    return Call("TacticReplayer", () if load is None else (load,), {"exclude": exclude})


def network_of(
    values: Values,
    *,
    is_script: bool = False,
    is_empty: bool = False,
    config: TrtConfig | None = None,
) -> TrtNetwork:
    """Return the way to create the network, as calls: its source and its edits.

    Args:
        values: the options of all groups about networks.
        is_script: whether the model is a script that creates the network.
        is_empty: whether there is no model.
        config: the configuration of an engine built from it; None for no engine.

    Raises:
        CommandLineError: options do not fit together.
    """
    options, precision = values[TrtNetworkOptions], values[TrtPrecisionOptions]
    constraints = precision.precision_constraints
    layers = {
        **(precision.layer_precisions or {}),
        **(constraints if isinstance(constraints, Mapping) else {}),
    }
    for_layers = config is not None and config.calibration and not config.model_calibration
    postprocessing = call_of("PostprocessNetwork", values).kwargs.get("func", ())
    steps = [
        *(Call("PostprocessNetwork", kwargs={"func": value}) for value in postprocessing),
        _outputs(values, is_script=is_script),
        call_of(
            "SetLayerPrecisions",
            values,
            layer_precisions=layers or None,
            calibrator=Source("calibrator") if layers and for_layers else None,
        ),
        *([Call(_DECOMPOSABLE)] if options.decomposable_attentions else ()),
        *(
            call_of(name, values)
            for name in ("SetTensorDatatypes", "SetTensorFormats", "MarkDebug")
        ),
    ]
    return TrtNetwork(
        source=(
            Call("InvokeFromScript", kwargs={"name": _network_function(values)})
            if is_script
            else call_of("CreateNetwork", values) if is_empty else _parse_call(values)
        ),
        plugins=plugins_of(values),
        steps=[step for step in steps if step.kwargs or step.name == _DECOMPOSABLE],
    )


def plugins_of(values: Values) -> Call | None:
    """Return the call that loads plugin libraries; None without any."""
    call = call_of("LoadPlugins", values)
    return call if call.kwargs else None


def _outputs(values: Values, *, is_script: bool) -> Call:
    """Return the call that selects the outputs of the network;
    without arguments if they are unchanged."""
    options, every = values[TrtNetworkOptions], values[OutputOptions]
    marks_all = every.mark_all or options.trt_outputs == EVERY_TENSOR
    # The excluded outputs were already removed from an ONNX model, unless this command chooses
    # outputs of the network.
    is_chosen_here = is_script or marks_all or options.trt_outputs or options.trt_outputs_by_type
    excluded = (every.exclude_outputs if is_chosen_here else ()) + options.trt_exclude_outputs
    call = call_of(
        "ModifyNetworkOutputs", values, exclude_outputs=list(dict.fromkeys(excluded)) or None
    )
    return call.of(outputs=Name("polygraphy.constants", "MARK_ALL")) if marks_all else call


def _network_function(values: Values) -> str:
    """Return the name of the function that defines the network in a script."""
    model = values[ModelOptions].model_file or ""
    symbol = split_symbol(model)[1]
    named = values[TrtNetworkOptions].trt_network_func_name
    if symbol and named and symbol != named:
        raise CommandLineError(
            f"{model} selects the network function {symbol!r}, but --trt-network-func-name"
            f" selects {named!r}. Use one of them."
        )
    return symbol or named or "load_network"


def _parse_call(values: Values) -> Call:
    """Return the call that parses an ONNX model."""
    parser, plan = values[TrtParserOptions], values[TrtPlanOptions]
    flags = list(parser.onnx_flags)
    if parser.enable_uint8_asymmetric_quantization_dla:
        flags.append("enable_uint8_and_asymmetric_quantization_dla")
    travels = plan.version_compatible or plan.hardware_compatibility_level is not None
    if travels and not parser.plugin_instancenorm:
        # The plugin does not exist on the machine that runs the engine.
        flags.append(_NATIVE_INSTANCENORM)
    return call_of(
        "NetworkFromOnnxPath",
        values,
        flags=list(dict.fromkeys(flags)) or None,
        config=_parser_config(values) if _REPORT_DLA in flags else None,
    )


def _parser_config(values: Values) -> Call:
    """Return the call that creates the configuration that the parser needs:
    devices and precisions."""
    precision, device = values[TrtPrecisionOptions], values[TrtDeviceOptions]
    call = call_of("CreateConfig", (precision, device), **_precisions_of_layers(precision))
    parser_config = (*PRECISIONS, "use_dla", "allow_gpu_fallback")
    return Call(
        call.name, kwargs={key: call.kwargs[key] for key in call.kwargs if key in parser_config}
    )


def runner_call_of(values: Values) -> Call:
    """Return the call of the runner, without its engine."""
    options = values[TrtRunnerOptions]
    budget = options.weight_streaming_budget
    return call_of(
        "TrtRunner",
        (options,),
        weight_streaming_budget=budget if isinstance(budget, int) else None,
        weight_streaming_percent=budget if isinstance(budget, float) else None,
    )


def load_engine_model(values: Values) -> TrtModel:
    """Return the way to load a saved engine."""
    network = TrtNetwork(plugins=plugins_of(values))
    return TrtModel(is_engine=True, network=network, load=call_of("EngineFromPath", values))


def _script_function(
    script: tuple[str, str] | None, name: str | None, flags: tuple[str, str]
) -> tuple[str, str] | None:
    """Return a script and the name of its function; None if no script is set."""
    if name is None:
        return script
    if script is None:
        raise CommandLineError(f"{flags[1]} requires {flags[0]}, the script with the function.")
    return script[0], name
