"""What the programs that read saved data are about, in plain values: the contexts of their
templates.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.comparison import Comparison
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.render import render


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
class DoctorScript:
    """A program that shows what is installed."""

    command: Sequence[str]
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = "Show which backends, devices and settings there are."
        return render("doctor.py.j2", summary, self.command, script=self)
