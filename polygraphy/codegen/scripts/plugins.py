"""What the programs about plugins in ONNX models are about, in plain values: the contexts of their
templates.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.render import render


@frozen
class MatchPluginsScript:
    """A program that finds what plugins could take the place of.

    Attributes:
        command: the words of the command line.
        model: the model.
        onnx: how it is loaded.
        plugin_dir: the folder of the plugins.
        include: which of them are tried; None for all.
        exclude: which are not.
        output: where it is written what was found; None for nowhere.
        log: how much is said.
    """

    command: Sequence[str]
    model: str
    onnx: OnnxModel
    plugin_dir: str
    include: Sequence[str] | None = None
    exclude: Sequence[str] | None = None
    output: str | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Find the parts of {quoted(self.model)} that plugins could compute."
        return render("plugin_match.py.j2", summary, self.command, script=self)


@frozen
class ReplacePluginsScript:
    """A program that puts plugins into a model.

    Attributes:
        command: the words of the command line.
        model: the model.
        onnx: how it is loaded.
        plugin_dir: the folder of the plugins.
        config: the file that says what is replaced.
        output: where the model is saved.
        log: how much is said.
    """

    command: Sequence[str]
    model: str
    onnx: OnnxModel
    plugin_dir: str
    config: str
    output: str
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Put plugins into {quoted(self.model)}."
        return render("plugin_replace.py.j2", summary, self.command, script=self)
