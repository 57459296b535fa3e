"""What to do about what a document says: sentences, some with a command to copy."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from math import isnan

from attrs import frozen

from polygraphy.domain.report.document import Document, OutputRow

_OF_DIAGNOSE = {
    "--onnxrt", "--onnx", "--input-shapes", "--inputs", "--rtol", "--atol", "--providers",
    "--seed", "--val-range", "--iterations", "--load-inputs", "--data-loader-script",
    "--load-outputs",
}  # fmt: skip
"""Options of a run that `polygraphy diagnose` takes as well."""
_ABOUT_OUTPUT = re.compile(r"\s--(?:report|format|log-file)[ =]\S+")
_LEFT_OUT = frozenset({"-q", "-qq", "-v", "-vv", "-vvv", "--mark-all", "--validate"})
"""How much is shown, and what a diagnosis does by itself: look at all layers, and for NaN."""


@frozen
class Advice:
    """A sentence, and the command that does it; empty where there is none."""

    text: str
    command: str = ""


def advice_for(document: Document) -> list[Advice]:
    """Return what would help, the most certain first; nothing where everything passed."""
    return [*_remedies(document), *_of_outputs(document)]


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


def _of_outputs(document: Document) -> Iterator[Advice]:
    failed = [row for each in document.comparisons for row in each.outputs if not row.passed]
    if not failed:
        return
    runs = document.command.startswith("polygraphy run ")
    if any(_is_nan(row) for row in failed):
        command = _with(document.command, "--validate", "--mark-all") if runs else ""
        yield Advice("No tolerance can pass. Find the first NaN.", command)
        return
    if all(row.is_rounding for row in failed):
        command = _with(document.command, "--rtol auto", "--atol auto") if runs else ""
        yield Advice(
            "Rounding alone explains every difference: hold the outputs to what it explains.",
            command,
        )
        return
    if diagnosis := diagnosis_instead_of(document.command):
        yield Advice("Find the node that is to blame, and why.", diagnosis)
    layered = "--mark-all" in document.command
    if runs and layered and "auto" not in document.command:
        yield Advice(
            "Hold each layer to what rounding and its inputs explain: what fails then is wrong by"
            " itself.",
            _with(document.command, "--rtol auto", "--atol auto"),
        )
    if runs and not layered and document.files:
        yield Advice(
            "Find the first layer that differs.",
            _with(document.command, "--mark-all", "--report layers.html"),
        )


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


def _is_nan(row: OutputRow) -> bool:
    return any(value is not None and isnan(value) for value in row.metrics.values())


def _with(command: str, *options: str) -> str:
    """Return a command line with options that it does not have yet."""
    added = [option for option in options if option.split()[0] not in command.split()]
    return " ".join([command, *added])
