"""What the program that asks about the support of a model is about, in plain values: the context of
its template.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.render import render


@frozen
class InspectCapabilityScript:
    """A program that asks TensorRT about a model; None leaves a default alone."""

    command: Sequence[str]
    model: str
    onnx: OnnxModel = OnnxModel()
    output: str | None = None
    with_partitioning: bool | None = None
    external_data_suffix: str | None = None
    size_threshold: int | None = None
    all_tensors_to_one_file: bool | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Tell which nodes of {quoted(self.model)} TensorRT does not support."
        return render("inspect_capability.py.j2", summary, self.command, script=self)
