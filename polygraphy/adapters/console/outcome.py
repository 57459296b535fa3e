"""The end of a run in a few lines: passed or failed, the worst element, whether rounding explains
it, and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from operator import le
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from polygraphy.adapters.console.makers import node_words
from polygraphy.adapters.console.numbers import format_number, round_up
from polygraphy.adapters.console.tables import badness, limit_words, short
from polygraphy.domain.accuracy.output_rows import OutputRow, OutputRows, Worst, largest_jump
from polygraphy.domain.compare.result import excess_ratio
from polygraphy.domain.report.advice import diagnosis_instead_of
from polygraphy.domain.tensors.naming import counted, differing, one_line

if TYPE_CHECKING:
    from polygraphy.domain.model import Node

_LABEL = 10
INDENT = _LABEL + 2
"""Where the texts of labelled lines start."""
_NAMES = 4
_SMALL = 0.1
"""A tolerance above this part of an output's magnitude checks little."""


@frozen
class Comparison:
    """A pair of runs, compared.

    Attributes:
        title: of the pair, such as ``onnxrt vs. trt``.
        names: of the two runs, as people read them.
        table: what was found.
        passed: whether the pair passed.
        makers: the nodes that make the outputs, where these are layers of a model.
    """

    title: str
    names: tuple[str, str]
    table: OutputRows
    passed: bool
    makers: Mapping[str, Node] = Factory(dict)


def passed_words(comparisons: Sequence[Comparison], seconds: float) -> str:
    """Return what passed, and how close that was."""
    rows = [row for each in comparisons for row in each.table.rows()]
    outputs = len({row.name for row in rows})
    iterations = max((each.table.iterations for each in comparisons), default=0)
    facts = [counted(outputs, "output"), counted(iterations, "iteration")]
    if len(comparisons) > 1:
        facts.append(f"{len(comparisons)} comparisons")
    words = f"{', '.join(facts)}, {seconds:.1f} s."
    worst = max(rows, key=badness, default=None)
    if worst is None or worst.worst.excess is None:
        return words
    if worst.worst.excess == 0:
        return f"{words} No difference at all."
    share = f"{worst.worst.excess * 100:.2g} %"
    return f"{words} Largest error: {share} of the tolerance ({one_line(worst.name)!r})."


def failed_words(comparisons: Sequence[Comparison]) -> str:
    """Return how many outputs failed and, of many, which is the first."""
    parts = [
        f"{each.title}: {_failed_words(each)}" if len(comparisons) > 1 else _failed_words(each)
        for each in comparisons
        if not each.passed
    ]
    return "; ".join(parts) + "."


def _failed_words(each: Comparison) -> str:
    every = each.table.rows()
    rows = [row for row in every if not row.worst.is_missing]
    failing = [row for row in rows if not row.passed]
    missing = counted(len(every) - len(rows), _noun(each))
    if not rows:
        if each.table.empty:
            return f"no output was compared in iteration {each.table.empty[0]}"
        return "no output was compared" + (f": only one side has {missing}" if every else "")
    if not failing:
        return f"{counted(len(rows), _noun(each))} passed, but only one side has {missing}"
    if rows[0].passed:
        place = f" (number {rows.index(failing[0]) + 1})" if each.makers else ""
        return (
            f"{len(rows) - len(failing)} of {len(rows)} {_noun(each)}s pass; first to fail:"
            f" {one_line(failing[0].name)!r}{place}"
        )
    return differing(len(failing), len(rows), _noun(each))


def _noun(each: Comparison) -> str:
    return "tensor" if each.makers else "output"


def reasons(comparisons: Sequence[Comparison]) -> list[str]:
    """Return where the worst output is worst, and what rounding explains of it: a line each."""
    failing = [(each, row) for each in comparisons for row in each.table.rows() if not row.passed]
    if not failing:
        return []
    lines = [
        labelled("node" if place == 0 else "jump", node_words(node))
        for place, node in enumerate(_suspects(failing[0][0]))
    ]
    each, row = max(failing, key=lambda found: (not found[1].worst.is_missing, badness(found[1])))
    if row.worst.is_missing:
        return [*lines, labelled("missing", _missing_words(each))]
    lines.append(labelled("worst", _worst_words(each, row)))
    if row.worst.reason or row.worst.non_finite is not None:
        return lines
    if row.limit is not None:
        reason = getattr(row.limit, "reason", "")
        allowed = limit_words(row)
        lines.append(labelled("allowed", f"{allowed} ({reason})" if reason else allowed))
    rounding = _rounding_words(row.worst, [found for _, found in failing])
    if rounding:
        lines.append(labelled("rounding?", rounding))
    return lines


def _suspects(each: Comparison) -> list[Node]:
    """Return the nodes that make the first tensor that fails and, if it is another one, that where
    errors jump.
    """
    rows = [row for row in each.table.rows() if not row.worst.is_missing]
    first = next((row for row in rows if not row.passed), None)
    jump = largest_jump(rows)
    found = [first, None if jump is None else rows[jump]]
    nodes = [each.makers.get(row.name) for row in found if row is not None]
    return list({id(node): node for node in nodes if node is not None}.values())


def labelled(label: str, text: str) -> str:
    """Return a line of the verdict."""
    return f"  {label:{_LABEL}}{text}"


def _worst_words(each: Comparison, row: OutputRow) -> str:
    worst, name = row.worst, one_line(row.name)
    where = ""
    if worst.iteration is None:
        where = " (on average)"
    elif each.table.iterations > 1:
        where = f" (iteration {worst.iteration})"
    if worst.reason:
        return f"{name}: {one_line(worst.reason)}{where}"
    counts = _non_finite_words(each, worst)
    if counts:
        return f"{name}: {counts}{where}"
    if worst.element is not None:
        index = ",".join(map(str, worst.element.index))
        return (
            f"{name}[{index}]: {format_number(worst.element.value)}, expected"
            f" {format_number(worst.element.reference)}{where}"
        )
    if row.metric not in {"simple", ""}:
        return f"{name}: {row.metric} {format_number(row.value)}{where}"
    if worst.mismatched is not None:
        return f"{name}: {worst.mismatched} of {worst.size} elements{where}"
    return f"{name}: max abs {short(worst.absolute)}, max rel {short(worst.relative)}{where}"


def _non_finite_words(each: Comparison, worst: Worst) -> str:
    if worst.non_finite is None:
        return ""
    (nan0, inf0), (nan1, inf1) = worst.non_finite
    words = []
    for what, counts in (("NaN", (nan0, nan1)), ("infinity", (inf0, inf1))):
        if nan0 == nan1 and inf0 == inf1 and any(counts):
            words.append(f"{what} in {counts[0]} of {worst.size} elements of both")
        elif any(counts):
            sides = [
                (
                    f"{what} in {count} of {worst.size} elements of {name}"
                    if count
                    else f"none in {name}"
                )
                for name, count in zip(each.names, counts)
            ]
            words.append(", ".join(sides))
    return "; ".join(words)


def _rounding_words(worst: Worst, failing: Sequence[OutputRow]) -> str:
    rounding = worst.rounding
    if rounding is None or rounding.rtol == 0:
        return ""
    explained = f"{rounding.dtype} rounding explains {short(rounding.atol)} abs or"
    explained += f" {short(rounding.rtol)} rel here"
    if worst.is_rounding:
        everything = all(row.worst.is_rounding for row in failing)
        which = "all that failed" if everything else "not all that failed"
        return f"Yes: {explained}, which is enough for this output ({which})."
    factor = _factor(worst)
    if factor is None:
        return f"No: {explained}, and not this."
    if float(factor.replace(",", "")) <= rounding.most:
        more = "this is {factor} times more, which may add up along the model: 'auto' counts that"
        return f"Perhaps: {explained} of one operator; {more.format(factor=factor)}."
    return f"No: {explained}; this is {factor} times more."


def _factor(worst: Worst) -> str | None:
    """Return how many times what rounding explains was found, with two digits."""
    assert worst.rounding is not None
    numbers = worst.absolute, worst.relative
    if worst.element is not None:
        numbers = worst.element.absolute, worst.element.relative
    ratio = min(
        excess_ratio(numbers[0], worst.rounding.atol), excess_ratio(numbers[1], worst.rounding.rtol)
    )
    if not isfinite(ratio) or isnan(ratio) or ratio <= 1:
        return None
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def remedy(comparisons: Sequence[Comparison], command: str) -> str:
    """Return a command that finds out more, made from the one that was run; empty where there is
    none.
    """
    failing = [row for each in comparisons for row in each.table.rows() if not row.passed]
    words = command.split()
    if not failing or words[:2] != ["polygraphy", "run"]:
        return ""
    if all(row.worst.is_missing for row in failing):
        compared = any(row.passed for each in comparisons for row in each.table.rows())
        is_new = "--allow-missing-outputs" not in words
        return f"{command} --allow-missing-outputs" if compared and is_new else ""
    diagnosis = diagnosis_instead_of(command) if _may_be_diagnosed(comparisons) else ""
    if all(row.worst.is_rounding for row in failing) and not (diagnosis and _is_coarse(failing)):
        return f"{command} --atol auto --rtol auto"
    if diagnosis:
        return diagnosis
    is_nan = any(row.absolute is not None and isnan(row.absolute) for row in failing)
    more = [] if "--mark-all" in words else ["--mark-all"]
    if is_nan and "--validate" not in words:
        more.insert(0, "--validate")
    if not more or "--load-outputs" in words:
        return ""
    return " ".join([command, *more])


def _missing_words(each: Comparison) -> str:
    """Return which outputs only one side has, as far as they fit a line."""
    names = [one_line(row.name) for row in each.table.rows() if row.worst.is_missing]
    shown = ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
    return f"{shown}; --allow-missing-outputs leaves out what only one side has"


def _may_be_diagnosed(comparisons: Sequence[Comparison]) -> bool:
    """Return whether an output of the model failed, which is what a diagnosis starts from, rather
    than only tensors inside it.
    """
    for each in comparisons:
        read = {name for node in each.makers.values() for name in node.inputs}
        if any(not row.passed and row.name not in read for row in each.table.rows()):
            return True
    return False


def _is_coarse(failing: Sequence[OutputRow]) -> bool:
    """Return whether what rounding explains follows from a quantised type, whose steps are so large
    that they explain faults as well.
    """
    explained = [row.worst.rounding for row in failing]
    return any(each is not None and "int" in each.dtype for each in explained)


def needed_words(comparisons: Sequence[Comparison]) -> str:
    """Return which tolerances all that failed would pass with; empty where these would be so large
    that they check little.
    """
    failing = [row for each in comparisons for row in each.table.rows() if not row.passed]
    if not failing or any(row.worst.rounding is None for row in failing):
        return ""
    offers = []
    sizes = [_magnitude(row.worst) for row in failing]
    for option, numbers, most in (
        ("--atol", [row.absolute for row in failing], [_SMALL * size for size in sizes]),
        ("--rtol", [row.relative for row in failing], [_SMALL] * len(failing)),
    ):
        known = [number for number in numbers if number is not None and isfinite(number)]
        if len(known) == len(numbers) and all(map(le, known, most)):
            offers.append(f"{option} {round_up(max(known))}")
    return " or ".join(offers)


def _magnitude(worst: Worst) -> float:
    """Return the root of the mean square of the reference, from which rounding is computed."""
    rounding = worst.rounding
    return 0.0 if rounding is None or not rounding.rtol else rounding.atol / rounding.rtol
