"""The command `template onnx-gs`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from polygraphy.cli.commands.inspect.model_options import OneModelOptions
from polygraphy.cli.commands.template.template_options import TemplateCommand, TemplateOptions
from polygraphy.cli.declare.command import Values
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.onnx import OnnxCastOptions, OnnxLoadOptions, OnnxShapeOptions
from polygraphy.cli.shared.onnx_model import onnx_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.call import Call
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.render import render


class TemplateOnnxGsCommand(TemplateCommand):
    """Writes a script that edits a model; the script is not run."""

    name = "template onnx-gs"
    description = (
        "Write a script to edit an ONNX model as an onnx-graphsurgeon graph. The script saves what"
        " it makes beside the model, with _updated appended to its name."
    )
    groups = (
        OneModelOptions,
        TemplateOptions,
        OnnxLoadOptions,
        OnnxCastOptions,
        OnnxShapeOptions,
        ReportOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        model = PurePath(values[OneModelOptions].path)
        path = values[OneModelOptions].path
        output = str(model.parent / f"{model.stem}_updated.onnx")
        return render(
            "template_onnx_gs.py.j2",
            f"Edit {quoted(path)} with onnx-graphsurgeon.",
            words,
            model=path,
            onnx=onnx_of(values),
            save=Call("save_onnx", kwargs={"path": output}),
            log=log_of(values),
        )
