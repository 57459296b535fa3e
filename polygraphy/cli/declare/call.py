"""The calls of a program, collected from the options that feed them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from polygraphy.cli.declare.option import Options
from polygraphy.cli.declare.values import given_in
from polygraphy.codegen.call import Call, Step
from polygraphy.codegen.signatures import SIGNATURES
from polygraphy.codegen.source import Source


def call_of(name: str, values: Iterable[Options], *args: Any, **decided: Any) -> Call:
    """Return a call with the arguments that the options of a command feed, in the order of its
    signature; where several rows feed one, the last that has a value counts.

    Args:
        name: the published name, a key of `SIGNATURES`.
        values: the options; those that leave the argument at its default feed nothing.
        args: positional arguments.
        decided: arguments that no row feeds, or that replace what a row feeds; None leaves one out.
    """
    return Call(name, args, {**dict(_fed(name, values)), **decided})


def constants_of(values: Iterable[Options], calls: Iterable[Call]) -> tuple[list[Step], list[Call]]:
    """Return the constants that stand for what feeds several of some calls, and the calls with
    their names in its place.
    """
    constants, listed = [], list(calls)
    for _, row, value in given_in(values):
        named = {target.rpartition(".")[::2] for target in row.feeds if row.constant}
        fed = [call for call in listed for name, given in named if name == call.name]
        if len(fed) < 2:
            continue
        constants.append(Step(row.constant, row.kind.argument(value)))
        for name, argument in named:
            listed = [
                call.of(**{argument: Source(row.constant)}) if call.name == name else call
                for call in listed
            ]
    return constants, listed


def _fed(name: str, values: Iterable[Options]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that rows feed."""
    defaults = SIGNATURES[name].arguments
    for _, row, value in given_in(values):
        for target in row.feeds:
            called, _, argument = target.rpartition(".")
            if called == name:
                given = value if row.as_ is None else row.as_
                if given != defaults[argument]:
                    yield argument, row.kind.argument(given)
