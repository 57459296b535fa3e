"""The options of one command line, which of them were given, and the calls that they feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from polygraphy.cli.declare.errors import warn_idle, was_named
from polygraphy.cli.declare.option import Option, Options, options_of
from polygraphy.codegen.signatures import SIGNATURES
from polygraphy.codegen.source import Call, Source, Step

G = TypeVar("G", bound=Options)
Given = tuple[Options, Option, Any]
"""A group, one of its rows, and the value that is not the row's default."""


class Values:
    """The option groups of one command line, by class; one that the command lacks is as if all of
    it had been left out.
    """

    def __init__(self, groups: Mapping[type[Options], Options]) -> None:
        self._groups = groups

    def __getitem__(self, group: type[G]) -> G:
        found: Any = self._groups.get(group)
        return group() if found is None else found

    def replaced(self, *groups: Options) -> Values:
        """Return the same with some groups instead of those of their classes."""
        return Values({**self._groups, **{type(group): group for group in groups}})

    def without(self, *classes: type[Options]) -> Values:
        """Return the same without some groups."""
        return Values({each: group for each, group in self._groups.items() if each not in classes})

    def __iter__(self) -> Any:
        return iter(self._groups.values())

    @cached_property
    def given(self) -> Sequence[Given]:
        """What has a value other than its default, in order of declaration."""
        return given_in(self._groups.values())


def given_in(groups: Iterable[Options]) -> Sequence[Given]:
    """Return what has a value other than its default in some groups, in order of declaration."""
    if isinstance(groups, Values):
        return groups.given
    return [
        (group, row, value)
        for group in groups
        for row in options_of(type(group))
        if (value := getattr(group, row.name)) != row.default
    ]


def flags_given(
    values: Values, groups: Iterable[type[Options]], *, besides: Iterable[str] = ()
) -> list[str]:
    """Return what messages call each option of some groups that has a value other than its default,
    in the order of declaration, but for those `besides`.
    """
    left_out = set(besides)
    return [
        row.spelling
        for wanted in groups
        for group, row, _ in values.given
        if type(group) is wanted and row.spelling not in left_out
    ]


def flags_feeding(values: Iterable[Options], calls: Iterable[str]) -> list[str]:
    """Return what messages call each option that feeds an argument of one of some calls, and has a
    value other than its default.
    """
    wanted = set(calls)
    found = (
        row.spelling
        for _, row, _ in given_in(values)
        if any(target.rpartition(".")[0] in wanted for target in row.feeds)
    )
    return list(dict.fromkeys(found))


def warn_of_needs(values: Values, since: int) -> None:
    """Log which options have no effect because others are left out that they need, but for those
    that a warning or a note has named already, `since` there were so many.
    """
    given = [row for _, row, _ in values.given]
    known = {flag for row in given for flag in row.flags}
    lacking: dict[tuple[str, ...], list[str]] = {}
    for row in given:
        if row.needs and known.isdisjoint(row.needs) and not was_named(row.flags, since):
            lacking.setdefault(row.needs, []).append(row.flags[0])
    for needs, flags in lacking.items():
        warn_idle(flags, f" without {' or '.join(needs)}")


def call_of(name: str, values: Iterable[Options], *args: Any, **decided: Any) -> Call:
    """Return a call with the arguments that the options of a command feed, in the order of its
    signature; where several rows feed one, the last that has a value counts.

    Args:
        name: the published name, a key of `SIGNATURES`.
        values: the options; those that leave the argument at its default feed nothing.
        args: positional arguments.
        decided: arguments that no row feeds, or that replace what a row feeds; None leaves one out.
    """
    defaults = SIGNATURES[name].arguments
    fed: dict[str, Any] = {}
    for _, row, value in given_in(values):
        for target in row.feeds:
            called, _, argument = target.rpartition(".")
            if called == name:
                given = value if row.as_ is None else row.as_
                if given != defaults[argument]:
                    fed[argument] = row.kind.argument(given)
    return Call(name, args, {**fed, **decided})


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
