"""What a script to edit an ONNX model in onnx-graphsurgeon is about, in plain values: the context
of its template.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.render import render


@frozen
class TemplateOnnxGsScript:
    """A script that edits an ONNX model as an onnx-graphsurgeon graph.

    Attributes:
        command: the words of the command line.
        model: the model.
        onnx: how it is loaded and changed before.
        output: where the script saves the edited model.
        log: how much is said.
    """

    command: Sequence[str]
    model: str
    onnx: OnnxModel
    output: str
    log: Log = Log()

    def render(self) -> str:
        """Return the script."""
        summary = f"Edit {quoted(self.model)} with onnx-graphsurgeon."
        return render("template_onnx_gs.py.j2", summary, self.command, script=self)
