"""What the programs that read saved data are about, in plain values: the contexts of their
templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from polygraphy.codegen.comparison import Comparison
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.log import Log
from polygraphy.codegen.render import render

__all__ = [
    "CheckAccuracyScript",
    "DataScript",
    "DoctorScript",
    "InspectDataScript",
    "InspectDiffScript",
]


@frozen
class InspectDataScript:
    """A program that shows what saved data hold; None leaves a default alone."""

    command: Sequence[str]
    paths: Sequence[str]
    all_iterations: bool | None = None
    show_values: bool | None = None
    histogram: bool | None = None
    statistics: bool | None = None
    num_items: int | None = None
    line_width: int | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Show what {_listed(self.paths)} {_verb(self.paths)}."
        return render("inspect_data.py.j2", summary, self.command, script=self)


@frozen
class InspectDiffScript:
    """A program that compares two files."""

    command: Sequence[str]
    reference: str
    candidate: str
    comparison: Comparison = Comparison()
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Compare {quoted(self.candidate)} with the reference {quoted(self.reference)}."
        return render("inspect_diff.py.j2", summary, self.command, script=self)


@frozen
class CheckAccuracyScript:
    """A program that judges saved verdicts anew; None leaves what was saved alone."""

    command: Sequence[str]
    path: str
    rtol: Any = None
    atol: Any = None
    check_error_stat: Any = None
    thresholds: Mapping[str, Any] | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Judge the accuracy results {quoted(self.path)}."
        return render("check_accuracy.py.j2", summary, self.command, script=self)


@frozen
class DataScript:
    """A program that makes one file of one or several: `function` is ``concat``, ``merge`` or
    ``convert``.
    """

    command: Sequence[str]
    function: str
    paths: Sequence[str]
    output: str
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        what = {
            "concat": "Put the iterations of {} behind each other",
            "merge": "Put the tensors of {} beside each other, as input data",
            "convert": "Convert {}",
        }[self.function]
        summary = what.replace("{}", _listed(self.paths))
        if self.function == "convert":
            summary += f" to {quoted(self.output)}"
        return render("data.py.j2", f"{summary}.", self.command, script=self)


@frozen
class DoctorScript:
    """A program that shows what is installed."""

    command: Sequence[str]
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = "Show which backends, devices and settings there are."
        return render("doctor.py.j2", summary, self.command, script=self)


def _listed(paths: Sequence[str]) -> str:
    words = [quoted(path) for path in paths]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _verb(paths: Sequence[str]) -> str:
    return "holds" if len(paths) == 1 else "hold"
