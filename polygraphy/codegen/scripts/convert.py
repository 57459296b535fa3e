"""What a `convert` program is about, in plain values: the context of its template."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import CAST_TOLERANCES, OnnxModel
from polygraphy.codegen.parts.trt_model import TrtModel
from polygraphy.codegen.render import render
from polygraphy.codegen.scripts.data import Data

_BECOMES = {
    "onnx": "an ONNX model",
    "trt": "a TensorRT engine",
    "onnx-like-trt-network": "a picture of its TensorRT network",
}


@frozen
class ConvertScript:
    """A program that converts a model.

    Attributes:
        command: the words of the command line.
        model: the path of the model.
        target: ``onnx``, ``trt`` or ``onnx-like-trt-network``.
        output: where the result is saved.
        onnx: how the ONNX model comes to be that is saved, or that the engine is built from.
        trt: how the engine is built.
        data: the data that calibration uses, or with which outputs are compared.
        verifies: whether the outputs of an ONNX model before and after are compared.
        log: how the program logs.
    """

    command: Sequence[str]
    model: str
    target: str
    output: str
    onnx: OnnxModel = OnnxModel()
    trt: TrtModel = TrtModel()
    data: Data = Data()
    verifies: bool = False
    log: Log = Log()

    @property
    def unsaved(self) -> OnnxModel:
        """The ONNX model before it is saved."""
        return evolve(
            self.onnx,
            save=None,
            external_data_path=None,
            size_threshold=None,
            all_tensors_to_one_file=None,
        )

    @property
    def original(self) -> OnnxModel:
        """The ONNX model as it is in its file."""
        return OnnxModel(
            external_data_dir=self.onnx.external_data_dir,
            ignore_external_data=self.onnx.ignore_external_data,
            map_weights=self.onnx.map_weights,
        )

    @property
    def tolerance(self) -> float | None:
        """How much outputs may differ when the data type is narrowed; None for the usual."""
        return None if self.onnx.cast is None else CAST_TOLERANCES[self.onnx.cast.dtype]

    def render(self) -> str:
        """Return the program."""
        name = quoted(self.model.replace("\\", "/").rpartition("/")[2])
        summary = f"Convert {name} to {_BECOMES[self.target]}."
        return render("convert.py.j2", summary, self.command, script=self)
