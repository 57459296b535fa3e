"""`debug precision --onnxrt`: the search in an ONNX model, without TensorRT."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.backends.trt.checks import BUILD_GROUPS
from polygraphy.cli.backends.trt.config_options import TrtCapabilityOptions
from polygraphy.cli.backends.trt.network_options import TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions
from polygraphy.cli.commands.command import Program
from polygraphy.cli.commands.debug.context import (
    CheckOptions,
    EngineIterationOptions,
    ModelIterationOptions,
    check_artifacts,
    check_of,
    iterations_of,
)
from polygraphy.cli.commands.run.run_backends import kind_of_model
from polygraphy.cli.commands.trt.precision_options import GoldenOptions, PrecisionSearchOptions
from polygraphy.cli.declare.errors import CommandLineError, warn_idle
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.option import argv_of, changed
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.data import DataOptions, data_of, data_step
from polygraphy.cli.shared.model import ModelOptions
from polygraphy.cli.shared.onnx import OnnxCastOptions, OutputOptions
from polygraphy.cli.shared.onnx_model import onnx_of
from polygraphy.codegen.call import Call, Step
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.source import Source

_TOLERANCE = {"fp16": 0.01, "bf16": 0.1}
"""How far outputs may be off where nothing is given, as where they are computed without a check."""


def render_onnx_precision(values: Values) -> Program:
    """Return the program that finds the nodes that have to stay in float32.

    Raises:
        CommandLineError: the model is no ONNX file, or options exclude each other.
    """
    path = values[ModelOptions].model_file
    if path is None:
        raise CommandLineError("no model is given. Name its path.")
    if kind_of_model(values) != "onnx":
        raise CommandLineError(f"--onnxrt needs an ONNX model, unlike {path}.")
    _warn_about_unused(values)
    values = _with_model_artifact(values)
    golden, data = values[GoldenOptions], values[DataOptions]
    check_artifacts(values)
    model = onnx_of(values.without(OutputOptions, OnnxCastOptions))  # The search itself casts.
    iterations = _iterations(values)
    load = data_step(data_of(data, values[ModelOptions].input_shapes))
    return Program(
        "act.py.j2",
        f"Find the nodes of {quoted(path)} that have to stay in fp32.",
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
    """Return what there is in each iteration; None where the cast model is not checked by a
    command.
    """
    golden = values[GoldenOptions]
    words: list[str] = []
    if golden.golden_outputs is not None:
        words = [
            # Not ONNX Runtime, whose kernels for the CPU compute fp16 in fp32.
            *("polygraphy", "run", values[EngineIterationOptions].iter_artifact, "--onnx"),
            *argv_of(ModelOptions(input_shapes=values[ModelOptions].input_shapes)),
            *argv_of(values[DataOptions]),
            *("--load-outputs", golden.golden_outputs, "--allow-missing-outputs"),
        ]
        if golden.save_layer_outputs is not None:
            words += ["--save-outputs", golden.save_layer_outputs]
        usual = _TOLERANCE["bf16" if _dtype(values) else "fp16"]
        given = golden.rtol is not None or golden.atol is not None
        rtol, atol = (golden.rtol, golden.atol) if given else (usual, usual)
        words += argv_of(GoldenOptions(rtol=rtol, atol=atol))
    elif not values[CheckOptions].check:
        return None
    check = check_of(values, implied=words, asks=False)
    return iterations_of(values, check, EngineIterationOptions, results=[golden.save_layer_outputs])


def _with_model_artifact(values: Values) -> Values:
    """Return the options, in which each iteration makes a model where no other path is given."""
    options = values[EngineIterationOptions]
    if options.iter_artifact != EngineIterationOptions().iter_artifact:
        return values
    usual = ModelIterationOptions().iter_artifact
    return values.replaced(changed(options, iter_artifact=usual))


def _dtype(values: Values) -> str | None:
    """Return the narrower type; None for the usual one.

    Raises:
        CommandLineError: two are given.
    """
    cast, precision = values[OnnxCastOptions], values[TrtPrecisionOptions]
    is_bf16 = cast.to_bf16 or precision.bf16
    if is_bf16 and (cast.fp_to_fp16 or precision.fp16):
        raise CommandLineError("--fp16 and --bf16 exclude each other with --onnxrt.")
    return "bf16" if is_bf16 else None


def _number(value: Any, flag: str) -> float | None:
    """Return a tolerance, which is one number for all outputs here.

    Raises:
        CommandLineError: it is something else.
    """
    if value is None or isinstance(value, (int, float)):
        return value
    raise CommandLineError(
        f"{flag} is one number with --onnxrt, for all outputs; or compare with saved outputs:"
        " --golden-outputs."
    )


def _warn_about_unused(values: Values) -> None:
    """Log which options are about engines, or about other searches."""
    precisions = ("--fp16", "--bf16", "--fp-to-fp16", "--to-bf16")
    unused = flags_given(
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
        unused += flags_given(values, [CheckOptions, EngineIterationOptions])
    warn_idle(unused, " with --onnxrt")
    if values[CheckOptions].check and values[GoldenOptions].golden_outputs is not None:
        raise CommandLineError(
            "--golden-outputs takes the place of a check command, so --check cannot be given, too."
        )
