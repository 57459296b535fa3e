"""What programs that search for what is to blame are about, in plain values: the contexts of their
templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from polygraphy.codegen.call import Call
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.parts.trt_model import TrtModel
from polygraphy.codegen.render import render
from polygraphy.codegen.scripts.data import Data


@frozen
class DebugEngineScript:
    """A program that builds an engine again and again.

    Attributes:
        command: the words of the command line.
        model: the path of the model.
        iterations: what there is in each iteration.
        onnx: how the ONNX model comes to be.
        trt: how the engine is built.
        data: the data that calibration uses.
        until: a number, ``good`` or ``bad``; None to search for layers.
        precision: the higher precision in which layers are tried.
        search: further arguments of that search.
        log: how much is said.
    """

    command: Sequence[str]
    model: str
    iterations: Call
    onnx: OnnxModel = OnnxModel()
    trt: TrtModel = TrtModel()
    data: Data = Data()
    until: str | int | None = None
    precision: str = "float32"
    search: Mapping[str, Any] = Factory(dict)
    log: Log = Log()

    @property
    def shares_calibration(self) -> bool:
        """Whether the program itself keeps what the first build found out by calibrating."""
        calibration = self.trt.config.calibration
        return calibration is not None and "cache" not in calibration.kwargs

    def render(self) -> str:
        """Return the program."""
        name = quoted(self.model.replace("\\", "/").rpartition("/")[2])
        if self.until is not None:
            summary = f"Build {name} in TensorRT again and again."
            return render("debug_build.py.j2", summary, self.command, script=self)
        summary = f"Find the layers of {name} that need more precision in TensorRT."
        return render("debug_precision.py.j2", summary, self.command, script=self)
