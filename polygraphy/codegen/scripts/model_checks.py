"""What the programs that check models are about, in plain values: contexts of their templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.parts.tf_graph import TfGraph
from polygraphy.codegen.render import render
from polygraphy.codegen.scripts.data import Data
from polygraphy.codegen.scripts.script import RunScript


@frozen
class CheckLintScript:
    """A program that finds out what is wrong with a model."""

    command: Sequence[str]
    path: str
    output: str | None = None
    data: Data = Data()
    external_data_dir: str | None = None
    ignore_external_data: bool | None = None
    providers: Sequence[Any] | None = None
    graph_optimization_level: str | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Find out what is wrong with {quoted(self.path)}."
        return render("check_lint.py.j2", summary, self.command, script=self)


@frozen
class CheckCompatibilityScript:
    """A program that tries a model in some backends; `titles` says what people call them, `graph`
    how a model of TensorFlow is loaded.
    """

    command: Sequence[str]
    path: str
    backends: Sequence[str]
    titles: Mapping[str, str]
    graph: TfGraph | None = None
    providers: Sequence[Any] | None = None
    graph_optimization_level: str | None = None
    data: Data = Data()
    log: Log = Log()

    @property
    def run(self) -> RunScript:
        """What the runners are made of."""
        return RunScript(
            command=self.command,
            model=self.path,
            runners=self.backends,
            providers=self.providers,
            graph_optimization_level=self.graph_optimization_level,
            onnx=OnnxModel(graph=self.graph),
            tf=self.graph or TfGraph(),
        )

    @property
    def converts(self) -> bool:
        """Whether a backend runs what a model of TensorFlow is converted to."""
        return self.graph is not None and any(name != "tf" for name in self.backends)

    def render(self) -> str:
        """Return the program."""
        names = [self.titles[backend] for backend in self.backends]
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        summary = f"Return whether {quoted(self.path)} runs in {listed}."
        return render("check_compatibility.py.j2", summary, self.command, script=self)
