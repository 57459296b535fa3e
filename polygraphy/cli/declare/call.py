"""The calls of a program, collected from the options that feed them."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.option import options_of
from polygraphy.codegen.call import Call


def call_of(name: str, values: Values, *args: Any, **decided: Any) -> Call:
    """Return a call with the arguments that the options of a command feed.

    Args:
        name: the published name, a key of `SIGNATURES`.
        values: the options; those with their default feed nothing.
        args: positional arguments.
        decided: arguments that no row feeds; None leaves one out.
    """
    fed = {
        target.rpartition(".")[2]: getattr(group, row.name) if row.as_ is None else row.as_
        for group in values
        for row in options_of(type(group))
        if getattr(group, row.name) != row.default
        for target in row.feeds
        if target.rpartition(".")[0] == name
    }
    return Call(name, args, {**fed, **decided})
