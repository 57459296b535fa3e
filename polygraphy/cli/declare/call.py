"""The calls of a program, collected from the options that feed them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from polygraphy.cli.declare.option import Options, options_of
from polygraphy.codegen.call import Call
from polygraphy.codegen.signatures import SIGNATURES


def call_of(name: str, values: Iterable[Options], *args: Any, **decided: Any) -> Call:
    """Return a call with the arguments that the options of a command feed, in the order of its
    signature; where several rows feed one, the last that has a value counts.

    Args:
        name: the published name, a key of `SIGNATURES`.
        values: the options; those that leave the argument at its default feed nothing.
        args: positional arguments.
        decided: arguments that no row feeds, or that replace what a row feeds; None leaves one out.
    """
    kwargs = {**dict(_fed(name, values)), **decided}
    order = list(SIGNATURES[name].arguments)
    return Call(name, args, dict(sorted(kwargs.items(), key=lambda item: order.index(item[0]))))


def _fed(name: str, values: Iterable[Options]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that rows feed."""
    defaults = SIGNATURES[name].arguments
    for group in values:
        for row in options_of(type(group)):
            value = getattr(group, row.name)
            if value == row.default:
                continue
            for target in row.feeds:
                called, _, argument = target.rpartition(".")
                if called == name:
                    given = value if row.as_ is None else row.as_
                    if given != defaults[argument]:
                        yield argument, row.kind.argument(given)
