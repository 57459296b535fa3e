"""What the programs that split models over devices are about, in plain values: the contexts of
their templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.render import render


@frozen
class ShardHintsScript:
    """A program that finds out how a model can be split.

    Attributes:
        command: the words of the command line.
        model: the model.
        onnx: how it is loaded.
        arguments: what is asked for; None leaves a default alone.
        output: where the hints go.
        log: how much is said.
    """

    command: Sequence[str]
    model: str
    onnx: OnnxModel
    output: str
    arguments: Mapping[str, Any] = Factory(dict)
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Find out how {quoted(self.model)} can be split over devices."
        return render("shard_hints.py.j2", summary, self.command, script=self)


@frozen
class ShardScript:
    """A program that splits a model.

    Attributes:
        command: the words of the command line.
        model: the model.
        onnx: how it is loaded.
        hints: the file that says how it is split; None to find it out.
        arguments: what is asked for then; None leaves a default alone.
        output: where the models are saved.
        save: arguments of saving.
        log: how much is said.
    """

    command: Sequence[str]
    model: str
    onnx: OnnxModel
    output: str
    hints: str | None = None
    arguments: Mapping[str, Any] = Factory(dict)
    save: Mapping[str, Any] = Factory(dict)
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Split {quoted(self.model)} over several devices."
        return render("shard.py.j2", summary, self.command, script=self)
