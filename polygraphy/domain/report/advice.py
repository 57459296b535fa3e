"""What to do about what a document says: sentences, some with a command to copy."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from math import isfinite, isnan
from operator import le
from typing import TYPE_CHECKING

from attrs import frozen

from polygraphy.domain.report.document import Comparison, Document

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import OutputRow
    from polygraphy.domain.rounding import Rounding

_OF_DIAGNOSE = {
    "--onnxrt", "--onnx", "--input-shapes", "--inputs", "--rtol", "--atol", "--providers",
    "--seed", "--val-range", "--iterations", "--load-inputs", "--data-loader-script",
    "--load-outputs",
}  # fmt: skip
"""Options of a run that `polygraphy diagnose` takes as well."""
_ABOUT_OUTPUT = re.compile(r"\s--(?:report|format|log-file|log-format)[ =]\S+")
_LEFT_OUT = frozenset({"-q", "-qq", "-v", "-vv", "-vvv", "--mark-all", "--validate"})
"""How much is shown, and what a diagnosis does by itself: look at all layers, and for NaN."""


@frozen
class Advice:
    """A sentence, and the command that does it; empty where there is none."""

    text: str
    command: str = ""


def advice_for(document: Document) -> list[Advice]:
    """Return what would help, the most certain first; nothing where everything passed."""
    invalid = any(each["nan"] or each["inf"] for each in document.validation)
    found = advice_on_outputs(document.comparisons, document.command, invalid=invalid)
    return [*_remedies(document), *found]


def _remedies(document: Document) -> Iterator[Advice]:
    for culprit in document.culprits:
        remedy = culprit.get("remedy") or {}
        if remedy.get("command"):
            proof = "Tried: this makes it agree." if remedy.get("proven") else "This may help."
            if " --issue " in remedy["command"]:
                proof = "Nothing that helps is known. Save the culprit and a bug report about it."
            yield Advice(proof, str(remedy["command"]))
        if remedy.get("note"):
            yield Advice(str(remedy["note"]))


def advice_on_outputs(
    comparisons: Sequence[Comparison], command: str, *, invalid: bool = False
) -> Iterator[Advice]:
    """Yield what finds out more about outputs that differ, the best first.

    Args:
        comparisons: what was found.
        command: the command line that found it.
        invalid: whether a validation found NaN or infinity.
    """
    failing = [row for each in comparisons for row in each.outputs if not row.passed]
    words = command.split()
    runs = words[:2] == ["polygraphy", "run"]
    diagnosis = diagnosis_instead_of(command) if _may_be_diagnosed(comparisons) else ""
    if failing and all(row.worst.is_missing for row in failing):
        compared = any(row.passed for each in comparisons for row in each.outputs)
        if runs and compared and "--allow-missing-outputs" not in words:
            yield Advice("Leave out what only one side has.", f"{command} --allow-missing-outputs")
        return
    is_rounding = failing and all(row.worst.is_rounding for row in failing)
    if is_rounding and not (diagnosis and _is_coarse(failing)):
        yield Advice(
            "Rounding alone explains every difference: hold the outputs to what it explains.",
            _with(command, "--rtol auto", "--atol auto") if runs else "",
        )
        return
    if diagnosis and "--load-outputs" in words and not _knows_inside(comparisons):
        yield Advice(
            "Outputs alone do not say which node it is: save all tensors (--onnx-outputs mark all)."
        )
    elif diagnosis:
        yield Advice("Find the node that is to blame, and why.", diagnosis)
    is_nan = any(row.absolute is not None and isnan(row.absolute) for row in failing)
    if is_nan and not ("--validate" in words and "--mark-all" in words):
        finding = _with(command, "--validate", "--mark-all") if runs else ""
        yield Advice("No tolerance can pass. Find the first NaN.", finding)
    elif invalid and not diagnosis and (found := diagnosis_of_values(command)):
        yield Advice("Find the node that makes the first NaN or infinity.", found)
    if not failing or is_nan or not runs:
        return
    if "--mark-all" not in words:
        if "--load-outputs" not in words:
            yield Advice("Find the first layer that differs.", _with(command, "--mark-all"))
    elif "auto" not in words:
        yield Advice(
            "Hold each layer to what rounding and its inputs explain: what fails then is wrong by"
            " itself.",
            _with(command, "--rtol auto", "--atol auto"),
        )


def _may_be_diagnosed(comparisons: Sequence[Comparison]) -> bool:
    """Return whether an output of the model failed, which is what a diagnosis starts from, rather
    than only tensors inside it.
    """
    for each in comparisons:
        read = {name for row in each.outputs if row.node for name in row.node.inputs}
        read = read if each.is_of_layers else set()
        if any(not row.passed and row.name not in read for row in each.outputs):
            return True
    return False


def _knows_inside(comparisons: Sequence[Comparison]) -> bool:
    """Return whether more was saved, or compared, than outputs."""
    return any(
        each.is_of_layers or each.left_out or any(row.worst.is_missing for row in each.outputs)
        for each in comparisons
    )


def _is_coarse(failing: Sequence[OutputRow]) -> bool:
    """Return whether what rounding explains follows from a quantised type, whose steps are so large
    that they explain faults as well.
    """
    explained = [row.worst.rounding for row in failing]
    return any(each is not None and "int" in each.dtype for each in explained)


def passing_tolerances(comparisons: Sequence[Comparison]) -> str:
    """Return options with which all that failed would pass; empty where these tolerances would be
    so large that they check little.
    """
    failing = [row for each in comparisons for row in each.outputs if not row.passed]
    if not failing or any(row.worst.rounding is None for row in failing):
        return ""
    offers = []
    sizes = [_magnitude(row.worst.rounding) for row in failing]
    for option, numbers, most in (
        ("--atol", [row.absolute for row in failing], [_SMALL * size for size in sizes]),
        ("--rtol", [row.relative for row in failing], [_SMALL] * len(failing)),
    ):
        known = [number for number in numbers if number is not None and isfinite(number)]
        if len(known) == len(numbers) and all(map(le, known, most)):
            offers.append(f"{option} {round_up(max(known))}")
    return " or ".join(offers)


_SMALL = 0.1
"""A tolerance above this part of an output's magnitude checks little."""


def _magnitude(rounding: Rounding | None) -> float:
    """Return the root of the mean square of the reference, from which rounding is computed."""
    return 0.0 if rounding is None or not rounding.rtol else rounding.atol / rounding.rtol


def round_up(value: float | None, digits: int = 2) -> str:
    """Return a tolerance with some significant digits that is not smaller than `value`."""
    if value is None or not isfinite(value) or value == 0:
        return "None" if value is None else f"{value:.5g}"
    rounded, exponent = float(f"{value:.{digits}g}"), int(f"{value:.{digits - 1}e}".split("e")[1])
    step = 0.0 if rounded >= value else 10.0 ** (exponent - digits + 1)
    return f"{rounded + step:.{digits}g}"


def diagnosis_instead_of(command: str) -> str:
    """Return the command that finds the culprit of a run whose outputs differ; empty where diagnose
    does not take its options.
    """
    return _diagnosis(command, ((1, 1, 0), (1, 0, 1)))


def diagnosis_of_values(command: str) -> str:
    """Return the command that finds what makes the first NaN or infinity of a run; empty where
    diagnose does not take its options.
    """
    return _diagnosis(command, ((1, 0, 0), (1, 1, 0), (1, 0, 1)))


def _diagnosis(command: str, known: Collection[tuple[int, int, int]]) -> str:
    words = [word for word in _ABOUT_OUTPUT.sub(" ", command).split() if word not in _LEFT_OUT]
    flags = {word for word in words if word.startswith("-")}
    parties = words.count("--onnxrt"), words.count("--onnx"), words.count("--load-outputs")
    if words[:2] != ["polygraphy", "run"] or not flags <= _OF_DIAGNOSE or parties not in known:
        return ""
    return " ".join(["polygraphy", "diagnose", *words[2:]])


def _with(command: str, *options: str) -> str:
    """Return a command line with options that it does not have yet."""
    added = [option for option in options if option.split()[0] not in command.split()]
    return " ".join([command, *added])
