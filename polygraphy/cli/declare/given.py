"""Which options were given, whatever their values."""

from __future__ import annotations

from collections.abc import Iterable

from polygraphy.cli.declare.errors import warn_idle, was_named
from polygraphy.cli.declare.option import Option, Options
from polygraphy.cli.declare.values import Values, given_in


def flags_given(
    values: Values, groups: Iterable[type[Options]], *, besides: Iterable[str] = ()
) -> list[str]:
    """Return the first spelling of each option of some groups that has a value other than its
    default, in the order of declaration, but for those `besides`; an argument without a flag is
    called as in the help.
    """
    left_out = set(besides)
    return [
        _spelled(row)
        for wanted in groups
        for group, row, _ in values.given
        if type(group) is wanted and _spelled(row) not in left_out
    ]


def flags_feeding(values: Iterable[Options], calls: Iterable[str]) -> list[str]:
    """Return the first spelling of each option that feeds an argument of one of some calls, and has
    a value other than its default.
    """
    wanted = set(calls)
    found = (
        _spelled(row)
        for _, row, _ in given_in(values)
        if any(target.rpartition(".")[0] in wanted for target in row.feeds)
    )
    return list(dict.fromkeys(found))


def flags_feeding_others(
    values: Values, groups: Iterable[type[Options]], calls: Iterable[str]
) -> list[str]:
    """Return the first spelling of each option of some groups that has a value other than its
    default, and feeds none of some calls.
    """
    feeding = set(flags_feeding(values, calls))
    return [flag for flag in flags_given(values, groups) if flag not in feeding]


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


def _spelled(declared: Option) -> str:
    return declared.flags[0] if declared.flags else declared.kind.metavar
