"""The command `template onnx-gs`."""

from __future__ import annotations

from pathlib import PurePath

from polygraphy.cli.commands.command import Program
from polygraphy.cli.commands.inspect.model_options import OneModelOptions
from polygraphy.cli.commands.template.template_options import TemplateCommand, TemplateOptions
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.onnx import OnnxCastOptions, OnnxLoadOptions, OnnxShapeOptions
from polygraphy.cli.shared.onnx_model import onnx_of
from polygraphy.codegen.call import Call
from polygraphy.codegen.docstring import quoted


class TemplateOnnxGsCommand(TemplateCommand):
    """Write a script to edit an ONNX model as an onnx-graphsurgeon graph. The script saves what it
    makes beside the model, with _updated appended to its name.
    """

    name = "template onnx-gs"
    groups = (OneModelOptions, TemplateOptions, OnnxLoadOptions, OnnxCastOptions, OnnxShapeOptions)

    def program(self, values: Values) -> Program:
        model = PurePath(values[OneModelOptions].path)
        path = values[OneModelOptions].path
        output = str(model.parent / f"{model.stem}_updated.onnx")
        return Program(
            "template_onnx_gs.py.j2",
            f"Edit {quoted(path)} with onnx-graphsurgeon.",
            model=path,
            onnx=onnx_of(values),
            save=Call("save_onnx", kwargs={"path": output}),
        )
