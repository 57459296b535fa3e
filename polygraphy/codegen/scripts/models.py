"""What the programs that look into models are about, in plain values: the contexts of their
templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import Factory, frozen

from polygraphy.codegen.docstring import listed_paths, quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.render import render

if TYPE_CHECKING:
    from polygraphy.codegen.parts.trt_model import TrtModel


@frozen
class InspectModelScript:
    """A program that shows models; None leaves a default alone, and `load` are the arguments of
    loading. Where it makes the network or the engine that it shows, `made` says of which file, and
    how.
    """

    command: Sequence[str]
    paths: Sequence[str]
    show: Sequence[str] | None = None
    format: str | None = None
    stats: bool | None = None
    list_unbounded_dds: bool | None = None
    tensor_info: str | None = None
    load: Mapping[str, Any] = Factory(dict)
    made: tuple[str, TrtModel] | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        verb = "consists" if len(self.paths) == 1 else "consist"
        summary = f"Show what {listed_paths(self.paths)} {verb} of."
        return render("inspect_model.py.j2", summary, self.command, script=self)


@frozen
class DrawModelScript:
    """A program that shows a model in a browser; None leaves a default alone.

    Attributes:
        command: the words of the command line.
        path: the model.
        output: where the page is saved; None to show it.
        port: where it is shown.
        weights: whether it says what the weights hold.
        load: arguments of loading.
        log: how much is said.
    """

    command: Sequence[str]
    path: str
    output: str | None = None
    port: int | None = None
    weights: bool | None = None
    load: Mapping[str, Any] = Factory(dict)
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Draw {quoted(self.path)}."
        return render("draw_model.py.j2", summary, self.command, script=self)


@frozen
class InspectOutputsScript:
    """A program that lists the tensors of a model."""

    command: Sequence[str]
    path: str
    names: Sequence[str] | None = None
    format: str | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"List the tensors of {quoted(self.path)}."
        return render("inspect_outputs.py.j2", summary, self.command, script=self)


@frozen
class InspectSparsityScript:
    """A program that looks for 2:4 sparsity."""

    command: Sequence[str]
    path: str
    external_data_dir: str | None = None
    ignore_external_data: bool | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Check which weights of {quoted(self.path)} are 2:4 sparse."
        return render("inspect_sparsity.py.j2", summary, self.command, script=self)


@frozen
class DiffModelsScript:
    """A program that compares the structure of two models."""

    command: Sequence[str]
    reference: str
    candidate: str
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Compare {quoted(self.candidate)} with the model {quoted(self.reference)}."
        return render("diff_models.py.j2", summary, self.command, script=self)
