"""The command `convert`."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from polygraphy.cli.backends.built_in import RunnerModel, Target, backends_by_name, check_model_type
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.surgeon.surgeon_options import VerifyOptions
from polygraphy.cli.declare.errors import CommandLineError, inform, warn_of_idle_flags
from polygraphy.cli.declare.kinds import Choice
from polygraphy.cli.declare.option import (
    Options,
    Values,
    non_default_flags,
    option,
    option_group,
    options_of,
    with_values,
)
from polygraphy.cli.shared.data import USUAL, DataOptions, data_of, data_step
from polygraphy.cli.shared.model import (
    TF_TYPES,
    ModelOptions,
    TfLoadOptions,
    TfOnnxOptions,
    graph_of,
    kind_of_model,
    split_symbol,
)
from polygraphy.cli.shared.onnx import (
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxModel,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
    onnx_of,
    tolerance_of,
)
from polygraphy.cli.shared.paths import check_files
from polygraphy.codegen.source import Call, Source, Step
from polygraphy.domain.catalog.formats import extensions_of, format_named, formats_of
from polygraphy.domain.ports import command_line

CONVERSIONS = [
    backend.conversion() for backend in backends_by_name().values() if backend.conversion
]
"""Conversions of the available backends."""

TARGETS = {
    "onnx": Target("an ONNX model", "_converted.onnx", "onnx"),
    **{to: target for conversion in CONVERSIONS for to, target in conversion.targets.items()},
}
"""Formats of the results of `convert`."""


@option_group
class ConvertOptions(Options):
    """Conversion: the format and the path of the converted model."""

    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="Path of the converted model.",
        otherwise="named after the model, in the current folder",
    )
    convert_to: str | None = option(
        "--convert-to",
        kind=Choice(*TARGETS),
        help="Format of the converted model: an ONNX model, a TensorRT engine, or an ONNX file"
        " that shows a TensorRT network but cannot run.",
        otherwise="by the extension of --output",
    )


_BY_EXTENSION = {  # The first target of a format has priority.
    end: to for to, target in reversed(TARGETS.items()) for end in extensions_of(target.format)
}
_WAYS = " or ".join(f"--convert-to {to}" for to in dict.fromkeys(_BY_EXTENSION.values()))


class ConvertCommand(Command):
    """Convert an ONNX model, a TensorFlow model, or a script that defines a TensorRT network, into
    an ONNX model or a TensorRT engine.
    """

    name = "convert"
    groups = (
        ModelOptions,
        ConvertOptions,
        OutputOptions,
        OnnxLoadOptions,
        OnnxCastOptions,
        OnnxShapeOptions,
        OnnxSaveOptions,
        VerifyOptions,
        *(group for conversion in CONVERSIONS for group in conversion.groups),
        TfLoadOptions,
        TfOnnxOptions,
        DataOptions,
    )

    def program(self, values: Values) -> Program:
        """Return the program that converts the model."""
        model = values[ModelOptions].model_file
        if model is None:
            raise CommandLineError("missing model: add its path.")
        kind = kind_of_model(values)
        target = _target(values[ConvertOptions])
        _check_conversion(values[ModelOptions], kind, target)
        output = values[ConvertOptions].output or _default_output(model, target)
        check_files(values, written=[("--output", output)])
        _warn_about_unused(values, target)
        if values[ConvertOptions].output is None:
            inform(f"Saving to {output}, because --output is not set.")
        parses = kind != "trt-network-script"
        onnx = onnx_of(
            _options_for_target(values, target, output),
            is_loaded=parses,
            has_others=not parses,
            graph=graph_of(values, kind) if kind in TF_TYPES else (),
            opset=values[TfOnnxOptions].opset,
        )
        if kind == target == "onnx":
            onnx = onnx.with_mapped_weights
        data = data_of(values[DataOptions], values[ModelOptions].input_shapes)
        verifies = _verifies(values, kind, target)
        statements = _conversion_of_backend(target, values, onnx if parses else None, data, output)
        if statements is None:
            advice = _advice(values, model, onnx)
            statements = _to_onnx(onnx, data if verifies else None, advice)
        return Program(
            "convert.py.j2",
            f"Convert {values[ModelOptions].in_words} to {TARGETS[target].becomes}.",
            model=split_symbol(model)[0],
            **statements,
        )


_HALF = {"convert_to_fp16": "fp_to_fp16", "convert_to_bf16": "to_bf16"}


def _advice(values: Values, model: str, onnx: OnnxModel) -> str:
    """Return the command that explains different outputs in half precision.
    The result is empty for other conversions.
    """
    half = [_HALF[call.name] for call in onnx.calls if call.name in _HALF]
    if not half:
        return ""
    data = values[DataOptions]
    return command_line(
        "diagnose",
        {"path": split_symbol(model)[0], "input_shapes": values[ModelOptions].input_shapes},
        {row.name: getattr(data, row.name) for row in options_of(DataOptions)},
        {half[-1]: True},
    )


def _to_onnx(onnx: OnnxModel, data: Call | None, advice: str) -> dict[str, Any]:
    """Return the template values for creating an ONNX model, and comparing its outputs if there are
    data.
    """
    path, model = RunnerModel.path, Source("model")
    unsaved = onnx.without("save_onnx")
    original = OnnxModel(onnx.calls[:1], onnx.graph)
    loader = None if data is None or data == USUAL else Source("data_loader")
    compare = {
        "data_loader": loader,
        "compare_func": tolerance_of(onnx.calls),
        "advice": advice or None,
    }
    return {
        "before": [*([] if data is None else data_step(data)), Step("model", unsaved.of(path))],
        "check": Call("check_model", [model]),
        "verify": None if data is None else Call("verify", [original.of(path), model], compare),
        "save": onnx.calls[-1].of(model),
    }


def _conversion_of_backend(
    target: str, values: Values, onnx: OnnxModel | None, data: Call, output: str
) -> dict[str, Any] | None:
    """Return the template values of the backend that creates the target; None for an ONNX model.

    Args:
        target: the conversion target.
        values: the options.
        onnx: the call that creates the ONNX model; None if there is none.
        data: the call that creates input data.
        output: the path of the result.

    Raises:
        CommandLineError: options do not fit together.
    """
    for conversion in CONVERSIONS:
        if target in conversion.targets:
            before, save = conversion.make(values, onnx, data, target, output)
            return {"before": before, "check": None, "verify": None, "save": save}
    return None


def _verifies(values: Values, kind: str, target: str) -> bool:
    """Return whether outputs before and after the conversion are compared.

    Raises:
        CommandLineError: they cannot be compared.
    """
    verifies = values[VerifyOptions].verify
    if verifies and (kind != "onnx" or target != "onnx"):
        raise CommandLineError(
            "--verify compares ONNX models before and after the conversion. To compare"
            " backends, use polygraphy run."
        )
    data = (ModelOptions, DataOptions)
    if target == "onnx" and not verifies:
        unused = non_default_flags(values, data, besides=("MODEL", "--model-type"))
        warn_of_idle_flags(unused, ", because the model is not run: see --verify")
    return verifies


def _target(options: ConvertOptions) -> str:
    """Return the target format of the conversion.

    Raises:
        CommandLineError: the target is unknown.
    """
    if options.convert_to is not None:
        _check_extension(options.convert_to, options.output)
        return options.convert_to
    if options.output is None:
        raise CommandLineError(
            f"missing output format: add {_WAYS}, or an"
            f" --output that ends in one of {', '.join(_BY_EXTENSION)}."
        )
    extension = PurePath(options.output).suffix.lower()
    if extension not in _BY_EXTENSION:
        raise CommandLineError(
            f"the extension of {options.output} does not select a format. Add --convert-to, or"
            f" use one of {', '.join(_BY_EXTENSION)}."
        )
    return _BY_EXTENSION[extension]


def _check_extension(target: str, output: str | None) -> None:
    """Raise CommandLineError if the extension of the output names another format."""
    name = _BY_EXTENSION.get(PurePath(output or "").suffix.lower())
    if name is not None and TARGETS[name].format != TARGETS[target].format:
        raise CommandLineError(
            f"--convert-to {target} contradicts --output {output}, whose extension means"
            f" {TARGETS[name].becomes}. Use a different extension, or remove --convert-to."
        )


def _check_conversion(model: ModelOptions, kind: str, target: str) -> None:
    """Raise CommandLineError if the model cannot be converted to the target."""
    if kind == "engine":
        raise CommandLineError(
            f"{model.model_file} is a TensorRT engine, which cannot be converted. Use the model"
            " from which it was built."
        )
    check_model_type(model, kind, ())
    if target == "onnx" and kind not in formats_of("onnx", "tensorflow"):
        raise CommandLineError(
            f"{model.model_file} is a model of type {kind}, which cannot be converted to ONNX."
            " If the type is wrong, set --model-type."
        )


def _default_output(model: str, target: str) -> str:
    """Return the file name of a converted model."""
    stem = PurePath(split_symbol(model)[0]).stem
    if target == "onnx" and format_named(model) != "onnx":
        return f"{stem}.onnx"
    return stem + TARGETS[target].ending


def _options_for_target(values: Values, target: str, output: str) -> Values:
    """Return the options with the output as the path of the saved ONNX model."""
    if target != "onnx":
        return values
    return values.replace_groups(with_values(values[OnnxSaveOptions], save_onnx=output))


def _warn_about_unused(values: Values, target: str) -> None:
    """Log warnings about options for another target, one line for each target."""
    if target == "onnx" and values[OnnxSaveOptions].save_onnx is not None:
        raise CommandLineError(
            "--save-onnx: has no effect, because --output sets the path of the model."
        )
    for conversion in CONVERSIONS:
        conversion.warn(values, target)
