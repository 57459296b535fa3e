"""Options that a program makes no use of, whatever the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from io import StringIO

from polygraphy.cli.declare.errors import CommandLineError, warn_idle, was_named
from polygraphy.cli.declare.option import Option, Options, changed
from polygraphy.cli.declare.values import Values


def warn_about_unused(values: Values, source: str, render: Callable[[Values], str]) -> None:
    """Log in one line which options have no effect on a program, but for those that a warning or a
    note has named already.

    Args:
        values: the options.
        source: the program.
        render: returns the program of other options.
    """
    unused = [
        row.flags[0]
        for group, row in list(_suspects(values, source))
        if _rendered(render, _without(values, group, row)) == source
    ]
    warn_idle(unused, ", because nothing in this program takes it")


def _suspects(values: Values, source: str) -> Iterator[tuple[Options, Option]]:
    """Yield the options that no call of a program takes, and that nothing was said about. Code may
    use them in another way: only for these is it worth rendering once more.
    """
    for group, row, _ in values.given:
        calls = {target.rpartition(".")[0] for target in row.feeds}
        if calls and not was_named(row.flags) and not any(_makes(source, call) for call in calls):
            yield group, row


def _without(values: Values, group: Options, row: Option) -> Values:
    """Return the options as if one had been left out."""
    made = changed(group, **{row.name: row.default})
    return values.replaced(made)


def _makes(source: str, call: str) -> bool:
    """Return whether a program seems to make a call."""
    return re.search(rf"\b{re.escape(call)}\(", source) is not None


def _rendered(render: Callable[[Values], str], values: Values) -> str | None:
    """Return a program, without its warnings; None where there is none for these options."""
    with redirect_stderr(StringIO()):
        try:
            return render(values)
        except CommandLineError:
            return None
