"""What a `surgeon` program is about, in plain values: the context of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import CAST_TOLERANCES
from polygraphy.codegen.render import render
from polygraphy.codegen.scripts.data import Data

_SURGEON = "polygraphy.surgeon"
_ONNX = "polygraphy.backend.onnx"
_RECONSTRUCTS = "reconstruct_weights"
_STRIPS = "strip_weights"
_MODULES = {
    "clean_up": _SURGEON,
    "convert_to_bf16": _ONNX,
    "convert_to_fp16": _ONNX,
    "extract": _SURGEON,
    "fold_constants": _ONNX,
    "infer_shapes": _ONNX,
    "insert_node": _SURGEON,
    "modify_outputs": _ONNX,
    "observe_shapes": _SURGEON,
    "override_input_shapes": _SURGEON,
    "prune_weights": _SURGEON,
    _RECONSTRUCTS: _SURGEON,
    "remove_nodes": _SURGEON,
    "set_upper_bound": _ONNX,
    "sort_nodes": _SURGEON,
    _STRIPS: _SURGEON,
}
"""The functions that a program may call, and where they are published."""

_CASTS = {f"convert_to_{dtype}": tolerance for dtype, tolerance in CAST_TOLERANCES.items()}

Tensor = tuple[str, "Sequence[int | str | None] | None", "str | None"]
"""Name, shape and data type; None is what is to be found out."""


@frozen
class Step:
    """A change of the model: `function` is called with it, and with `arguments` and `tensors`.

    Attributes:
        function: the name of the function.
        arguments: by name; None leaves a default alone.
        tensors: arguments that describe tensors.
        takes_data: whether it is given the data loader.
        marks_all: whether every tensor becomes an output.
    """

    function: str
    arguments: Mapping[str, Any] = Factory(dict)
    tensors: Mapping[str, Sequence[Tensor]] = Factory(dict)
    takes_data: bool = False
    marks_all: bool = False

    @property
    def module(self) -> str:
        """The published module of the function; KeyError for one that there is not."""
        return _MODULES[self.function]


@frozen
class SurgeonScript:
    """A program that loads a model, changes it step by step, checks and saves it.

    Attributes:
        command: the words of the command line.
        summary: what the program does, where ``{}`` stands for the model's name.
        model: the path of the model.
        output: where the result is saved.
        steps: what is done, in order.
        load: arguments of loading.
        save: arguments of saving.
        verifies: whether the outputs before and after are compared.
        data: the data with which the model is run.
        log: how the program logs.
    """

    command: Sequence[str]
    summary: str
    model: str
    output: str
    steps: Sequence[Step] = ()
    load: Mapping[str, Any] = Factory(dict)
    save: Mapping[str, Any] = Factory(dict)
    verifies: bool = False
    data: Data = Data()
    log: Log = Log()

    @property
    def tolerance(self) -> float | None:
        """How much outputs may differ when the data type is narrowed; None for the usual."""
        casts = [_CASTS[step.function] for step in self.steps if step.function in _CASTS]
        return max(casts, default=None)

    @property
    def leaves_out_weights(self) -> bool:
        """Whether the result cannot be run before its weights are put back."""
        return any(step.function == _STRIPS for step in self.steps)

    @property
    def steps_with_weights(self) -> Sequence[Step]:
        """What is done apart from leaving weights out."""
        return [step for step in self.steps if step.function != _STRIPS]

    @property
    def makes_up_weights(self) -> bool:
        """Whether the model cannot be run as it was, so that there is nothing to compare with."""
        return any(step.function == _RECONSTRUCTS for step in self.steps)

    @property
    def loads_data(self) -> bool:
        """Whether a data loader other than the usual one is used."""
        takes = self.verifies or any(step.takes_data for step in self.steps)
        return takes and not self.data.is_default

    def render(self) -> str:
        """Return the program."""
        name = quoted(self.model.replace("\\", "/").rpartition("/")[2])
        return render("surgeon.py.j2", self.summary.replace("{}", name), self.command, script=self)
