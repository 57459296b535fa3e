"""What scripts to start from are about, in plain values: the contexts of their templates."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.parts.trt_model import TrtConfig, TrtModel
from polygraphy.codegen.render import render
from polygraphy.codegen.scripts.data import Data


@frozen
class TemplateNetworkScript:
    """A script that makes a TensorRT network.

    Attributes:
        command: the words of the command line.
        model: the model that the network starts from; None for an empty network.
        is_parsed: whether that is an ONNX model, else a script.
        onnx: how the ONNX model is loaded and changed.
        trt: what is changed in the network.
        log: how much is said.
    """

    command: Sequence[str]
    model: str | None = None
    is_parsed: bool = False
    onnx: OnnxModel = OnnxModel()
    trt: TrtModel = TrtModel()
    log: Log = Log()

    @property
    def is_brief(self) -> bool:
        """Whether where the network comes from is said in one expression."""
        return self.onnx.is_as_saved and not self.trt.network.steps

    def render(self) -> str:
        """Return the script."""
        start = f", starting from {quoted(self.model)}" if self.model is not None else ""
        summary = f"Make a TensorRT network with the network API{start}."
        return render("template_trt_network.py.j2", summary, self.command, script=self)


@frozen
class TemplateConfigScript:
    """A script that makes a TensorRT builder configuration.

    Attributes:
        command: the words of the command line.
        model: a model that it is for; None for any.
        config: what it consists of.
        data: what calibrates, where that is needed.
        log: how much is said.
    """

    command: Sequence[str]
    model: str | None = None
    config: TrtConfig = TrtConfig()
    data: Data = Data()
    log: Log = Log()

    def render(self) -> str:
        """Return the script."""
        goal = f" for {quoted(self.model)}" if self.model is not None else ""
        summary = f"Make a TensorRT builder configuration{goal}."
        return render("template_trt_config.py.j2", summary, self.command, script=self)
