"""The command `template onnx-gs`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from polygraphy.cli.command import Command, Values
from polygraphy.cli.errors import CommandLineError
from polygraphy.cli.log_context import log_of
from polygraphy.cli.onnx_context import cast_of, onnx_of, with_defaults
from polygraphy.cli.options.log import LogOptions
from polygraphy.cli.options.model_inspection import OneModelOptions
from polygraphy.cli.options.onnx import OnnxCastOptions, OnnxLoadOptions, OnnxShapeOptions
from polygraphy.cli.options.template import TemplateOptions
from polygraphy.cli.paths import check_paths
from polygraphy.codegen.template_onnx_gs import TemplateOnnxGsScript

__all__ = ["TemplateOnnxGsCommand"]


class TemplateOnnxGsCommand(Command):
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
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the script."""
        usage = f"polygraphy {self.name}"
        model = PurePath(values[OneModelOptions].path)
        cast = cast_of(values[OnnxCastOptions], usage)
        check_paths(
            [("MODEL", str(model))],
            [("-o/--output", values[TemplateOptions].output)],
            usage,
        )
        return TemplateOnnxGsScript(
            command=words,
            model=values[OneModelOptions].path,
            onnx=onnx_of(with_defaults(values), usage, is_loaded=True, cast=cast),
            output=str(model.parent / f"{model.stem}_updated.onnx"),
            log=log_of(values[LogOptions]),
        ).render()

    def destination(self, values: Values) -> str | None:
        """Return where the script goes.

        Raises:
            CommandLineError: that is not given.
        """
        output = values[TemplateOptions].output
        if output is None:
            raise CommandLineError(
                "where to write the script is not given. Add -o PATH, or -o - for standard output.",
                f"polygraphy {self.name}",
            )
        return output
