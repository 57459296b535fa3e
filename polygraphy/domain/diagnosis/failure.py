"""A part of a model that shows a fault by itself: what is handed to those who can mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.diagnosis.culprit import MODEL, Culprit
from polygraphy.domain.environment import Section
from polygraphy.domain.rounding import deviation
from polygraphy.domain.tensors.naming import counted
from polygraphy.domain.tensors.precision import epsilon_of, is_float

MODEL_FILE, DATA_FOLDER, PROGRAM_FILE = "model.onnx", "test_data_set_0", "reproduce.py"
"""What a folder with a failure consists of; the first two as onnx's backend tests have them."""


@frozen
class Failure:
    """A failure that was seen.

    Attributes:
        culprit: what is to blame.
        model: the part, as an ``onnx.ModelProto``.
        inputs: what it is fed with, by name, in the order of its inputs.
        expected: what is right, by name, in the order of its outputs.
        tolerances: by output how far it may be off; None where it has to be the same.
        party: who runs the model; the name of a backend.
        settings: how that party runs it: arguments of its loader that are not the default.
        without: the rewrites without which it is right; none where that is not known.
        nodes: how many nodes of the whole model are in the part.
        said: what was seen, a sentence.
    """

    culprit: Culprit
    model: Any
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any]
    tolerances: Mapping[str, float | None]
    party: str
    settings: Mapping[str, Any]
    without: Sequence[str]
    nodes: int
    said: str


def failing(
    values: Mapping[str, Any], expected: Mapping[str, Any], plain: Mapping[str, Any]
) -> tuple[str, dict[str, float | None]] | None:
    """Return what is wrong with outputs, in words, and how far each may be off, such that this is
    seen and rounding is not; None where nothing is.

    Args:
        values: what was computed, by name.
        expected: what is right.
        plain: what the same party computes where it is not at fault, if that is known.
    """
    tolerances: dict[str, float | None] = {}
    said = ""
    most = 1.0
    for name, right in expected.items():
        made = deviation(values[name], right)
        usual = deviation(plain[name], right) if name in plain else deviation(right, right)
        if not is_float(right) or not np.isfinite(right).any():
            tolerances[name] = None
        else:
            explained = _explained(right)
            if np.isfinite(usual.largest):
                explained = max(explained, 2 * usual.largest)
            is_seen = np.isfinite(made.largest) and made.largest > explained
            tolerances[name] = _round(np.sqrt(explained * made.largest) if is_seen else explained)
        if made.excess > max(most, 4 * min(usual.excess, made.excess / 4)):
            said, most = f"{name!r} {made.in_words()}.", made.excess
    return (said, tolerances) if said else None


def usual_tolerances(expected: Mapping[str, Any]) -> dict[str, float | None]:
    """Return how far each output may be off of what computes it somehow: half of its digits."""
    return {
        name: (
            _round(np.sqrt(_explained(right) * _size(right)))
            if is_float(right) and np.isfinite(right).any()
            else None
        )
        for name, right in expected.items()
    }


def _explained(right: Any) -> float:
    """Return what rounding may do to the largest element."""
    return max(32 * epsilon_of(right.dtype) * _size(right), 1e-30)


def _size(right: Any) -> float:
    return float(np.abs(right[np.isfinite(right)]).max(initial=0.0))


def _round(value: float) -> float:
    return float(f"{value:.1g}")


_NOUNS = {
    "rewrite": "a rewrite changes the result",
    "kernel": "wrong result",
    "refusal": "a valid model is refused",
    "nondeterminism": "results differ from run to run",
    "rounding": "a rewrite rounds otherwise",
}
_LINES, _WIDTH = 60, 160


def issue_of(
    culprit: Culprit,
    failure: Failure | None,
    environment: Sequence[Section],
    *,
    party: str = "",
    graph: str = "",
    program: str = "",
    folder: str | None = None,
) -> str:
    """Return the text, in Markdown: a title, versions, the pattern, the cause, what was measured,
    how to see it, and what helps.

    Args:
        culprit: what is to blame.
        failure: the part that shows it, if one does.
        environment: versions, and facts about the machine.
        party: what the party at fault is called by those who make it.
        graph: the part as text.
        program: the program that shows it.
        folder: where the part is saved.
    """
    blocks = [
        f"# {_title(culprit, party)}",
        "\n".join(["## What was seen", "", *(f"- {_plain(one)}" for one in culprit.evidence)]),
        "\n".join(["## Where", "", *_where(culprit)]),
        "\n".join(_reproduction(failure, graph, program, folder)),
        "\n".join(_workaround(culprit)),
        "\n".join(["## Environment", "", *_environment(environment)]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _title(culprit: Culprit, party: str) -> str:
    who = "The model" if culprit.party == MODEL else party or culprit.party
    what = _NOUNS.get(culprit.cause, culprit.cause)
    about = ", ".join(filter(None, [culprit.rewrite, culprit.op]))
    return f"{who}: {what}" + (f" ({about})" if about else "")


def _where(culprit: Culprit) -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in culprit.nodes) or "not one node"
    yield f"- Nodes of the model: {names}"
    if culprit.tensor:
        yield f"- Shows first in the tensor `{culprit.tensor}`"
    yield f"- Cause: {culprit.cause}"
    if culprit.rewrite:
        yield f"- Rewrite (optimizer): `{culprit.rewrite.replace('+', '` and `')}`"


def _reproduction(
    failure: Failure | None, graph: str, program: str, folder: str | None
) -> Iterator[str]:
    yield "## How to see it"
    yield ""
    if failure is None:
        yield "The whole model shows it; no part of it does by itself."
        return
    size = counted(len(failure.model.graph.node), "node")
    yield f"A part of the model with {size} shows it: {_plain(failure.said)}"
    where = f"`{folder}`" if folder else "The attached folder (`--save-culprit DIR` writes it)"
    yield (
        f"{where} has it as `{MODEL_FILE}`, with inputs and right outputs in `{DATA_FOLDER}`"
        " as onnx's backend tests have them"
        + (f", and `{PROGRAM_FILE}`, which ends with exit code 1." if program else ".")
    )
    if graph:
        lines = graph.strip().splitlines()
        shown = [_cut(line) for line in lines[:_LINES]]
        yield from ("", "```", *shown, *(["..."] if len(lines) > _LINES else []), "```")
    if program:
        yield from ("", f"`{PROGRAM_FILE}`:", "", "```python", program.strip(), "```")


def _workaround(culprit: Culprit) -> Iterator[str]:
    if culprit.remedy.note:
        yield from ("## What helps", "", culprit.remedy.note)
    if culprit.remedy.command is None:
        return
    proof = (
        "Tried on the whole model: all outputs match." if culprit.remedy.proven else "Not tried."
    )
    yield from ("## What helps", "", proof, "", "```", culprit.remedy.command, "```")


def _environment(sections: Sequence[Section]) -> Iterator[str]:
    for section in sections:
        for name, value in section.facts:
            if value not in ("not set", "not installed"):
                yield f"- {name}: {value}"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]} ..."
