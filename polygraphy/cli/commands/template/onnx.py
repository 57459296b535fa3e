"""The command `template onnx-gs`."""

from __future__ import annotations

from pathlib import PurePath

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.model_options import OneModelOptions
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Options, Values, option, option_group
from polygraphy.cli.shared.log import LogOptions, ReportOptions
from polygraphy.cli.shared.onnx import OnnxCastOptions, OnnxLoadOptions, OnnxShapeOptions, onnx_of
from polygraphy.codegen.source import Call, quote_word


@option_group
class TemplateOptions(Options):
    """Script: where to save the script."""

    output: str | None = option(
        "-o",
        "--output",
        "--gen-script",
        "--gen",
        writes=True,
        help="Path of the script to write; - means standard output. Required.",
    )


class TemplateCommand(Command):
    """Base class of commands that write a script, which is not run."""

    ending = (ReportOptions, LogOptions)

    def destination(self, values: Values) -> str:
        """Return the path of the script.

        Raises:
            CommandLineError: that is not given.
        """
        output = values[TemplateOptions].output
        if output is None:
            raise CommandLineError("missing --output: add -o PATH, or -o - for standard output.")
        return output


class TemplateOnnxGsCommand(TemplateCommand):
    """Write a script that edits an ONNX model as an onnx-graphsurgeon graph. The script saves the
    edited model beside the original, with _updated appended to the name.
    """

    name = "template onnx-gs"
    groups = (OneModelOptions, TemplateOptions, OnnxLoadOptions, OnnxCastOptions, OnnxShapeOptions)

    def program(self, values: Values) -> Program:
        """Return the script that edits an onnx-graphsurgeon graph."""
        model = PurePath(values[OneModelOptions].path)
        path = values[OneModelOptions].path
        output = str(model.parent / f"{model.stem}_updated.onnx")
        return Program(
            "template_onnx_gs.py.j2",
            f"Edit {quote_word(path)} with onnx-graphsurgeon.",
            model=path,
            onnx=onnx_of(values),
            save=Call("save_onnx", kwargs={"path": output}),
        )
