"""What was found about an output, in words: where it is worst, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import OutputRow, Worst

_BRIEF = 4
"""Digits of a number in a sentence."""
_MILLION = 1e6
_MOST = 4
"""Outputs that a sentence names."""


def badness(row: OutputRow) -> tuple[bool, bool, float]:
    """Order rows: what failed first, then by how much of what is allowed they need."""
    excess = row.worst.excess
    if excess is None:
        excess = inf if row.worst.reason else -1.0
    return not row.passed, not row.worst.is_missing, inf if isnan(excess) else excess


def uniform_in_words(rows: Sequence[OutputRow], parties: Sequence[str]) -> str:
    """Name the outputs that matched and say little, because they are empty or the same everywhere;
    empty for none.
    """
    found = []
    for row in rows:
        one, other = row.uniform
        if row.passed and (one or other):
            where = "" if one == other else f" in {parties[0 if one else 1]}"
            found.append(f"{row.name!r} is {one or other}{where}")
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    it_matches = "it matches" if len(found) == 1 else "they match"
    return f"{', '.join(found[:_MOST])}{more}: that {it_matches} says little." if found else ""


def row_in_words(row: OutputRow, parties: Sequence[str]) -> str:
    """Describe where an output that failed is worst, relative to what is allowed."""
    name, worst = repr(row.name), row.worst
    where = ""
    if row.total > 1 and row.passed is False and worst.iteration is not None:
        where = f" (iteration {worst.iteration})"
    if worst.reason:
        return f"{name}: {worst.reason.rstrip('.')}{where}"
    times = ""
    if worst.excess is not None and 1 < worst.excess < inf:
        times = f", {_factor(worst.excess)} times what is allowed"
    if counts := _non_finite_words(worst, parties):
        return f"{name}: {counts}{where}{_equality(row)}"
    if worst.element is not None:
        found, expected = brief_pair(worst.element.value, worst.element.reference)
        index = ",".join(map(str, worst.element.index))
        return f"{name} at [{index}]: {found}, expected {expected}{where}{times}"
    if row.metric not in {"simple", ""}:
        return f"{name}: {row.metric} {brief(row.value)}{where}{times}"
    if worst.mismatched is not None:
        return f"{name}: {worst.mismatched} of {worst.size} elements{where}{times}"
    absolute, relative = brief(worst.absolute), brief(worst.relative)
    return f"{name}: max abs {absolute}, max rel {relative}{where}{times}"


def _non_finite_words(worst: Worst, parties: Sequence[str]) -> str:
    if worst.non_finite is None:
        return ""
    (nan0, inf0), (nan1, inf1) = worst.non_finite
    words = []
    for what, counts in (("NaN", (nan0, nan1)), ("infinity", (inf0, inf1))):
        if nan0 == nan1 and inf0 == inf1 and any(counts):
            words.append(f"{what} in {counts[0]} of {worst.size} elements of both")
        elif any(counts):
            sides = [
                f"{what} in {count} of {worst.size} elements of {name}" if count
                else f"none in {name}"
                for name, count in zip(parties, counts)
            ]  # fmt: skip
            words.append(", ".join(sides))
    return "; ".join(words)


def _equality(row: OutputRow) -> str:
    """Say when NaN and infinities that both sides have count as equal."""
    element = row.worst.element
    if element is None or str(element.value) != str(element.reference):
        return ""
    return _UNEQUAL[str(element.value) == "nan"]


_UNEQUAL = (
    "; infinities are equal only with --infinities-compare-equal",
    "; NaN never passes",
)


def rounding_in_words(row: OutputRow, failing: Sequence[OutputRow]) -> str:
    """Return whether rounding explains an output that failed; empty where that is not known.

    Args:
        row: the output.
        failing: all that failed.
    """
    from polygraphy.domain.compare.result import excess_ratio

    worst, rounding = row.worst, row.worst.rounding
    if rounding is None or rounding.rtol == 0:
        return ""
    explained = f"{rounding.dtype} rounding explains {rounding.atol:.1e} abs or"
    explained += f" {rounding.rtol:.1e} rel here"
    if worst.is_rounding:
        everything = all(each.worst.is_rounding for each in failing)
        which = "all that failed" if everything else "not all that failed"
        return f"Yes: {explained}, which is enough for this output ({which})."
    numbers = worst.absolute, worst.relative
    if worst.element is not None:
        numbers = worst.element.absolute, worst.element.relative
    ratio = min(excess_ratio(numbers[0], rounding.atol), excess_ratio(numbers[1], rounding.rtol))
    if not isfinite(ratio) or ratio <= 1:
        return f"No: {explained}, and not this."
    is_counted = any("what rounding" in getattr(each.limit, "reason", "") for each in failing)
    if float(f"{ratio:.2g}") <= rounding.most and not is_counted:
        return (
            f"Perhaps: {explained} of one operator; this is {_factor(ratio)} times more, which may"
            " add up along the model: 'auto' counts that."
        )
    return f"No: {explained}; this is {_factor(ratio)} times more."


def _factor(ratio: float) -> str:
    """Return how many times with two digits, as people write it."""
    if ratio >= _MILLION:
        return f"{ratio:.1e}"
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def brief(value: Any) -> str:
    """Return a value as a sentence has it."""
    return f"{value:.{_BRIEF}g}" if isinstance(value, float) else str(value)


def brief_pair(one: Any, other: Any) -> tuple[str, str]:
    """Return two values as a sentence has them, with as many digits as tell them apart."""
    one, other = (each.item() if hasattr(each, "item") else each for each in (one, other))
    for digits in range(_BRIEF, 18):
        pair = tuple(
            f"{each:.{digits}g}" if isinstance(each, float) else str(each) for each in (one, other)
        )
        if pair[0] != pair[1] or one == other:
            break
    return pair[0], pair[1]
