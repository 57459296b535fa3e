"""What the program that tries plugins is about, in plain values: the context of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.trt_model import TrtModel
from polygraphy.codegen.render import render
from polygraphy.codegen.scripts.data import Data


@frozen
class TunePluginsScript:
    """A program that finds the plugins that make a model quicker.

    Attributes:
        command: the words of the command line.
        model: the model.
        plugin_dir: the folder of the plugins.
        output: where the model is saved with them in it.
        include: which plugins are tried; None for all.
        exclude: which are not.
        load_config: the file that says what matches; None to look for it.
        save_config: where that is saved; None for nowhere.
        scripts: Python files that register plugins.
        trt: how each engine is built, with the libraries that have plugins.
        data: with what data the model is run, and calibrated.
        search: further arguments of the search.
        tolerances: by how much outputs may differ; empty for the usual.
        save: how the model is saved.
        log: how much is said.
    """

    command: Sequence[str]
    model: str
    plugin_dir: str
    output: str
    include: Sequence[str] | None = None
    exclude: Sequence[str] | None = None
    load_config: str | None = None
    save_config: str | None = None
    scripts: Sequence[str] = ()
    trt: TrtModel = TrtModel()
    data: Data = Data()
    search: Mapping[str, Any] = Factory(dict)
    tolerances: Mapping[str, float] = Factory(dict)
    save: Mapping[str, Any] = Factory(dict)
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Find the plugins that make {quoted(self.model)} quicker."
        return render("plugin_autotune.py.j2", summary, self.command, script=self)
