"""The commands `debug build` and `debug precision`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.cli.backends.built_in import RunnerModel
from polygraphy.cli.backends.trt.checks import BUILD_GROUPS
from polygraphy.cli.backends.trt.config_options import TrtCapabilityOptions
from polygraphy.cli.backends.trt.context import build_of
from polygraphy.cli.backends.trt.model import save_engine_step
from polygraphy.cli.backends.trt.network_options import TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.debug.context import (
    ArtifactOptions,
    CheckOptions,
    DebugReplayOptions,
    EngineIterationOptions,
    ModelIterationOptions,
    UntilOptions,
    check_artifacts,
    check_of,
    iterations_of,
    stop_condition,
)
from polygraphy.cli.declare.errors import CommandLineError, inform, warn, warn_of_idle_flags
from polygraphy.cli.declare.kinds import Choice, NumberOrAuto, PerName
from polygraphy.cli.declare.option import (
    Options,
    Values,
    argv_of,
    call_of,
    non_default_flags,
    option,
    option_group,
    with_values,
)
from polygraphy.cli.shared.data import DataOptions, data_of, data_step
from polygraphy.cli.shared.model import ModelOptions, kind_of_model, split_symbol
from polygraphy.cli.shared.onnx import (
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxModel,
    OnnxShapeOptions,
    OutputOptions,
    onnx_of,
)
from polygraphy.codegen.source import Call, Source, Step, quote_word
from polygraphy.domain.catalog.formats import format_named
from polygraphy.domain.catalog.precisions import PRECISIONS
from polygraphy.domain.tensors.naming import path_word


@option_group
class PrecisionSearchOptions(Options):
    """Search: the layers to try in higher precision."""

    onnxrt: bool = option(
        "--onnxrt",
        help="Search in the ONNX model, without TensorRT: find the smallest set of nodes that must"
        " stay in fp32 if the model is cast to fp16 (or to bf16, with --bf16). Nodes are tried in"
        " the order of their individual errors. By default, the cast model is computed with"
        " rounding at every operator and compared with fp32; ONNX Runtime rounds less on CPUs.",
    )
    mode: str | None = option(
        "--mode",
        feeds="find_layers_to_raise.mode",
        kind=Choice("bisect", "linear", "minimal"),
        help="Search: bisect halves the number of layers from one end, linear adds one layer at"
        " a time, minimal finds the smallest set of layers anywhere.",
    )
    direction: str | None = option(
        "--dir",
        "--direction",
        kind=Choice("forward", "reverse"),
        feeds="find_layers_to_raise.direction",
        help="Direction of the search: from the inputs (forward) or from the outputs (reverse).",
    )
    precision: str | None = option(
        "-p",
        "--precision",
        kind=Choice("float32", "float16", aliases={"fp32": "float32", "fp16": "float16"}),
        help="Data type of the higher precision.",
        otherwise="float32",
    )


@option_group
class GoldenOptions(Options):
    """Reference: saved outputs, in place of a check command."""

    golden_outputs: str | None = option(
        "--golden-outputs",
        reads="File of inference results",
        help="Check each engine by comparing its outputs with these, which run --save-outputs"
        " saved. The data options must be those of that run.",
    )
    rtol: Any = option(
        "--rtol",
        "--rel-tol",
        needs="--golden-outputs",
        kind=PerName(NumberOrAuto(minimum=0)),
        help="Relative tolerance for the comparison with --golden-outputs.",
    )
    atol: Any = option(
        "--atol",
        "--abs-tol",
        needs="--golden-outputs",
        kind=PerName(NumberOrAuto(minimum=0)),
        help="Absolute tolerance for the comparison with --golden-outputs.",
    )
    save_layer_outputs: str | None = option(
        "--save-layer-outputs",
        writes=True,
        help="Save all outputs of the last engine with their errors. Use --mark-all to include"
        " every tensor.",
    )


_TOLERANCE = {"fp16": 0.01, "bf16": 0.1}
"""Default tolerance by precision."""


def render_onnx_precision(values: Values) -> Program:
    """Return the program that finds the nodes that must stay in float32.

    Raises:
        CommandLineError: the model is not an ONNX file, or options exclude each other.
    """
    path = values[ModelOptions].model_file
    if path is None:
        raise CommandLineError("missing model: add its path.")
    if kind_of_model(values) != "onnx":
        raise CommandLineError(f"--onnxrt requires an ONNX model, and {path} is not one.")
    _warn_about_unused(values)
    values = _with_model_artifact(values)
    golden, data = values[GoldenOptions], values[DataOptions]
    check_artifacts(values)
    # The search itself casts the model.
    model = onnx_of(values.without(OutputOptions, OnnxCastOptions))
    iterations = _iterations(values)
    load = data_step(data_of(data, values[ModelOptions].input_shapes))
    return Program(
        "act.py.j2",
        f"Find the nodes of {quote_word(path)} that must stay in fp32.",
        model=path,
        before=[
            *([] if iterations is None else [Step("iterations", iterations)]),
            *load,
            Step("model", model.of(Source("MODEL"))),
        ],
        call=Call(
            "find_nodes_to_keep",
            [Source("model"), Source("MODEL")],
            {
                "dtype": _dtype(values),
                "iterations": None if iterations is None else Source("iterations"),
                "data_loader": Source("data_loader") if load else None,
                "rtol": None if golden.golden_outputs else _number(golden.rtol, "--rtol"),
                "atol": None if golden.golden_outputs else _number(golden.atol, "--atol"),
            },
        ),
    )


def _iterations(values: Values) -> Call | None:
    """Return the call that creates the iterations; None if no command checks the cast model."""
    golden = values[GoldenOptions]
    words: list[str] = []
    if golden.golden_outputs is not None:
        words = [
            # Not ONNX Runtime, because its CPU kernels compute fp16 in fp32.
            *("polygraphy", "run", values[EngineIterationOptions].iter_artifact, "--onnx"),
            *argv_of(ModelOptions(input_shapes=values[ModelOptions].input_shapes)),
            *argv_of(values[DataOptions]),
            *("--load-outputs", golden.golden_outputs, "--allow-missing-outputs"),
        ]
        if golden.save_layer_outputs is not None:
            words += ["--save-outputs", path_word(golden.save_layer_outputs)]
        usual = _TOLERANCE["bf16" if _dtype(values) else "fp16"]
        is_given = golden.rtol is not None or golden.atol is not None
        rtol, atol = (golden.rtol, golden.atol) if is_given else (usual, usual)
        words += argv_of(GoldenOptions(rtol=rtol, atol=atol))
    elif not values[CheckOptions].check:
        return None
    check = check_of(values, implied=words, asks=False)
    return iterations_of(values, check, EngineIterationOptions, results=[golden.save_layer_outputs])


def _with_model_artifact(values: Values) -> Values:
    """Return the options with a model as the artifact of each iteration, unless a path is set."""
    options = values[EngineIterationOptions]
    if options.iter_artifact != EngineIterationOptions().iter_artifact:
        return values
    usual = ModelIterationOptions().iter_artifact
    return values.replace_groups(with_values(options, iter_artifact=usual))


def _dtype(values: Values) -> str | None:
    """Return the lower precision; None for the default.

    Raises:
        CommandLineError: two are given.
    """
    cast, precision = values[OnnxCastOptions], values[TrtPrecisionOptions]
    is_bf16 = cast.to_bf16 or precision.bf16
    if is_bf16 and (cast.fp_to_fp16 or precision.fp16):
        raise CommandLineError("--fp16 and --bf16 cannot be combined with --onnxrt.")
    return "bf16" if is_bf16 else None


def _number(value: Any, flag: str) -> float | None:
    """Return a tolerance, which must be a single number for all outputs here, or None.
    The result is None if it is not set.

    Raises:
        CommandLineError: it is something else.
    """
    if value is None or isinstance(value, (int, float)):
        return value
    raise CommandLineError(
        f"{flag} must be one number for all outputs with --onnxrt. For a tolerance per output,"
        " compare with saved outputs: --golden-outputs."
    )


def _warn_about_unused(values: Values) -> None:
    """Log warnings about options for engines or other searches."""
    precisions = ("--fp16", "--bf16", "--fp-to-fp16", "--to-bf16")
    unused = non_default_flags(
        values,
        [
            *(PrecisionSearchOptions, OnnxCastOptions, OutputOptions),
            *(*BUILD_GROUPS, TrtCapabilityOptions, TrtPluginOptions),
        ],
        besides=("--onnxrt", *precisions),
    )
    if values[PrecisionSearchOptions].mode == "minimal":
        unused.remove("--mode")
    if values[GoldenOptions].golden_outputs is None and not values[CheckOptions].check:
        unused += non_default_flags(values, [CheckOptions, EngineIterationOptions])
    warn_of_idle_flags(unused, " with --onnxrt")
    if values[CheckOptions].check and values[GoldenOptions].golden_outputs is not None:
        raise CommandLineError(
            "--golden-outputs replaces the check command and cannot be combined with --check."
        )


_SCRIPT = "trt-network-script"

_MODEL: tuple[type[Options], ...] = (
    ModelOptions,
    OnnxLoadOptions,
    OnnxCastOptions,
    OnnxShapeOptions,
)
_CHECKED: tuple[type[Options], ...] = (CheckOptions, ArtifactOptions, EngineIterationOptions)
_BUILT: tuple[type[Options], ...] = (
    *BUILD_GROUPS,
    TrtCapabilityOptions,
    TrtPluginOptions,
    DataOptions,
)


class _EngineCommand(Command):
    """Base class of commands that build engines of a model."""

    def _context(
        self,
        values: Values,
        check_words: Sequence[str],
        *,
        asks: bool,
        results: Sequence[str | None] = (),
        network: Source | None = None,
    ) -> dict[str, Any]:
        """Return the values that the templates of both commands need.

        Args:
            values: the options, those about all outputs among them.
            check_words: the words of the default check command.
            asks: whether the default is only used if no user can be asked.
            results: files that the check writes.
            network: the name of the unchanged network in the program, if it has
                a name for that.
        """
        model = _model(values)
        is_script = kind_of_model(values) == _SCRIPT
        unmarked = values.without(OutputOptions)  # Here, these options apply to the network.
        onnx = onnx_of(unmarked, is_loaded=not is_script, has_others=is_script)
        onnx = OnnxModel() if is_script else onnx
        check = check_of(values, implied=check_words, asks=asks)
        replay, artifacts = values[TrtTacticOptions].save_tactics, values[ArtifactOptions].artifacts
        numbered = [replay] if replay is not None and replay not in artifacts else []
        trt = build_of(values, is_script=is_script, builder="EngineBytesFromNetwork")
        data = data_of(values[DataOptions], values[ModelOptions].input_shapes)
        calibration, path = trt.config.calibration, RunnerModel.path
        shares = calibration is not None and "cache" not in calibration.kwargs
        cache = Source("CALIBRATION_CACHE") if shares else None
        loads = [] if onnx.is_as_saved else [Step("load_model", onnx.loader(path))]
        name = Source("load_model") if loads else path
        iterations = iterations_of(
            values, check, EngineIterationOptions, numbered=numbered, results=results
        )
        return {
            "model": split_symbol(model)[0],
            "shares_calibration": shares,
            "network": trt.network.of(onnx.loader(path) if loads else path, is_path=not loads),
            "make": [
                *([] if network else loads),
                *(data_step(data, calibrates=True) if trt.calibrates else ()),
                *trt.preparations(name, is_path=not loads, cache=cache, network=network),
            ],
            "changed": Source("load_network") if trt.network.steps else network,
            "build": [
                Step(
                    "build_engine", trt.build_engine("raise_layers" if network else "load_network")
                ),
                *save_engine_step(Source("path")),
            ],
            "iterations": Step("iterations", iterations),
        }


class DebugBuildCommand(_EngineCommand):
    """Build a TensorRT engine repeatedly, for failures that depend on the build, and sort files,
    such as tactic replays, by the verdicts. If there is neither a check nor a terminal, an engine
    passes if it runs and its outputs are finite.
    """

    name = "debug build"
    groups = (*_MODEL, UntilOptions, *_CHECKED, *_BUILT)

    def program(self, values: Values) -> Program:
        """Return the program that builds engines repeatedly."""
        until = stop_condition(values[UntilOptions])
        check_artifacts(values)
        check = [*_run_command(values), "--validate"]
        return Program(
            "debug_build.py.j2",
            f"Build {values[ModelOptions].in_words} in TensorRT repeatedly.",
            until=until,
            **self._context(values, check, asks=True),
        )


class DebugPrecisionCommand(_EngineCommand):
    """Find the layers that must compute in a higher precision for a TensorRT engine to pass a
    check. If TensorRT takes types from the model (11.x, RTX), these nodes are excluded when the
    ONNX model is cast. If you set --onnxrt, find the nodes that must stay in fp32 when an ONNX
    model is cast, without TensorRT.
    """

    name = "debug precision"
    groups = (
        *_MODEL,
        PrecisionSearchOptions,
        GoldenOptions,
        OutputOptions,
        *_CHECKED,
        DebugReplayOptions,
        *_BUILT,
    )

    def program(self, values: Values) -> Program:
        """Return the program that finds layers to keep in higher precision."""
        if values[PrecisionSearchOptions].onnxrt:
            return render_onnx_precision(values)
        golden, search = values[GoldenOptions], values[PrecisionSearchOptions]
        _check_golden(values)
        values = _with_precision(values)
        check_artifacts(values)
        check = _golden_check(values) if golden.golden_outputs is not None else []
        results, network = [golden.save_layer_outputs], Source("LOAD_NETWORK")
        return Program(
            "debug_precision.py.j2",
            f"Find the layers of {values[ModelOptions].in_words} that need higher precision in"
            " TensorRT.",
            precision=search.precision or "float32",
            find=call_of(
                "find_layers_to_raise",
                values,
                Call("raisable_layers", [network]),
                Source("make_engine"),
                Source("iterations"),
            ),
            **self._context(values, check, asks=False, results=results, network=network),
        )


def _model(values: Values) -> str:
    """Return the path of the model.

    Raises:
        CommandLineError: there is no model, or TensorRT cannot build an engine from it.
    """
    model = values[ModelOptions].model_file
    if model is None:
        raise CommandLineError("missing model: add its path.")
    kind = kind_of_model(values)
    if kind not in ("onnx", _SCRIPT):
        raise CommandLineError(
            f"{model} is of type {kind}. Engines can be built from ONNX models and network"
            " scripts."
        )
    return model


def _run_command(values: Values) -> list[str]:
    """Return a command that runs the engine of an iteration."""
    engine = values[EngineIterationOptions].iter_artifact
    kind = [] if format_named(engine) == "engine" else ["--model-type", "engine"]
    shapes = ModelOptions(input_shapes=values[ModelOptions].input_shapes)
    plugins = argv_of(values[TrtPluginOptions])
    return [
        "polygraphy",
        "run",
        path_word(engine),
        *kind,
        "--trt",
        *argv_of(shapes),
        *plugins,
        *argv_of(values[DataOptions]),
    ]


def _golden_check(values: Values) -> list[str]:
    """Return the command that compares the engine of an iteration with saved outputs."""
    golden = values[GoldenOptions]
    command = [*_run_command(values), "--load-outputs", path_word(str(golden.golden_outputs))]
    if golden.save_layer_outputs is not None:
        command += ["--save-outputs", path_word(golden.save_layer_outputs)]
    if values[OutputOptions].mark_all:
        # Not every tensor of the network exists in the results.
        command.append("--allow-missing-outputs")
    return command + argv_of(GoldenOptions(rtol=golden.rtol, atol=golden.atol))


def _check_golden(values: Values) -> None:
    """Raise CommandLineError for contradicting options."""
    golden = values[GoldenOptions]
    if golden.golden_outputs is not None and values[CheckOptions].check:
        raise CommandLineError(
            "--golden-outputs replaces the check command and cannot be combined with --check."
        )
    if golden.golden_outputs is None and golden.save_layer_outputs is not None:
        raise CommandLineError(
            "--save-layer-outputs requires --golden-outputs, the expected outputs."
        )


def _with_precision(values: Values) -> Values:
    """Return the options with a lower precision enabled, and with layers that keep theirs.

    Raises:
        CommandLineError: the higher precision is not allowed.
    """
    options = values[TrtPrecisionOptions]
    if values[PrecisionSearchOptions].precision == "float16":
        if not options.fp16:
            raise CommandLineError("--precision float16 requires --fp16.")
        if not options.int8:
            warn("--precision float16 requires --int8: otherwise no layer has a lower precision.")
    if not any(getattr(options, name) for name in PRECISIONS):
        inform("Building with --fp16, because no lower precision is set.")
        options = with_values(options, fp16=True)
    if options.precision_constraints is None:
        options = with_values(options, precision_constraints="obey")
    return values.replace_groups(options)
