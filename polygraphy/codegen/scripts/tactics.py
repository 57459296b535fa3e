"""What the programs that look into tactic replays are about, in plain values: the contexts of their
templates.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.render import render


@frozen
class InspectTacticsScript:
    """A program that shows a tactic replay."""

    command: Sequence[str]
    path: str
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = f"Show the tactics in {quoted(self.path)}."
        return render("inspect_tactics.py.j2", summary, self.command, script=self)


@frozen
class DiffTacticsScript:
    """A program that compares two tactic replays, or finds tactics that may be bad."""

    command: Sequence[str]
    replays: Sequence[str] = ()
    dir: str | None = None
    good: str | None = None
    bad: str | None = None
    log: Log = Log()

    def render(self) -> str:
        """Return the program."""
        summary = "Find tactics that only builds that failed chose."
        if self.replays:
            first, second = map(quoted, self.replays)
            summary = f"Show in which layers the tactics of {first} and {second} differ."
        return render("diff_tactics.py.j2", summary, self.command, script=self)
