"""The text of a bug report about a failure, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polygraphy.domain.diagnosis.culprit import MODEL, Culprit
from polygraphy.domain.diagnosis.failure import DATA_FOLDER, MODEL_FILE, PROGRAM_FILE, Failure
from polygraphy.domain.environment import Section
from polygraphy.domain.tensors.naming import count_text

_NOUNS = {
    "rewrite": "a rewrite changes the result",
    "kernel": "wrong result",
    "refusal": "a valid model is rejected",
    "nondeterminism": "results differ from run to run",
    "rounding": "a rewrite rounds differently",
}
_LINES, _WIDTH = 60, 160
"""Lines of a graph in a bug report, and characters of a line."""


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
    """Return a bug report in Markdown: title, evidence, nodes, reproduction, workaround, versions.

    Args:
        culprit: the fault.
        failure: the part of the model that shows the fault, if any does.
        environment: versions, and facts about the machine.
        party: the name of the backend at fault, as its developers write it.
        graph: the part as text.
        program: the program that reproduces the fault.
        folder: the folder with the part.
    """
    blocks = [
        f"# {_title(culprit, party)}",
        "\n".join(["## Evidence", "", *(f"- {_one_line(name)}" for name in culprit.evidence)]),
        "\n".join(["## Where", "", *_where(culprit)]),
        "\n".join(_reproduction(failure, graph, program, folder)),
        "\n".join(_workaround(culprit)),
        "\n".join(["## Environment", "", *_environment(environment)]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _title(culprit: Culprit, party: str) -> str:
    """Return the title of a bug report: backend, kind of fault, rewrite and operator."""
    name = "The model" if culprit.party == MODEL else party or culprit.party
    noun = _NOUNS.get(culprit.cause, culprit.cause)
    about = ", ".join(filter(None, [culprit.rewrite, culprit.op]))
    return f"{name}: {noun}" + (f" ({about})" if about else "")


def _where(culprit: Culprit) -> Iterator[str]:
    """Yield the lines with the nodes, the tensor and the cause of a fault."""
    names = ", ".join(f"`{name}`" for name in culprit.nodes) or "not a single node"
    yield f"- Nodes of the model: {names}"
    if culprit.tensor:
        yield f"- First wrong tensor: `{culprit.tensor}`"
    yield f"- Cause: {culprit.cause}"
    if culprit.rewrite:
        yield f"- Rewrite (optimizer): `{culprit.rewrite.replace('+', '` and `')}`"


def _reproduction(
    failure: Failure | None, graph: str, program: str, folder: str | None
) -> Iterator[str]:
    """Yield the lines with the part of the model that shows the fault, and the program that runs
    it.
    """
    yield "## Reproduction"
    yield ""
    if failure is None:
        yield "Only the whole model shows the fault; no part of it does by itself."
        return
    size = count_text(len(failure.model.graph.node), "node")
    yield f"A part of the model ({size}) shows the fault: {_one_line(failure.said)}"
    where = f"`{folder}`" if folder else "The attached folder (`--save-culprit DIR` writes it)"
    yield (
        f"{where} contains this part as `{MODEL_FILE}`, and its inputs and correct outputs in"
        f" `{DATA_FOLDER}` (in the layout of the onnx backend tests)."
        + (f" `{PROGRAM_FILE}` exits with 1 while the fault is present." if program else "")
    )
    if graph:
        lines = graph.strip().splitlines()
        shown_lines = [_cut(line) for line in lines[:_LINES]]
        yield from ("", "```", *shown_lines, *(["..."] if len(lines) > _LINES else []), "```")
    if program:
        yield from ("", f"`{PROGRAM_FILE}`:", "", "```python", program.strip(), "```")


def _workaround(culprit: Culprit) -> Iterator[str]:
    """Yield the lines with the remedy, and whether it was tried."""
    if culprit.remedy.note:
        yield from ("## Workaround", "", culprit.remedy.note)
    if culprit.remedy.command is None:
        return
    proof = (
        "Tried on the whole model: all outputs match." if culprit.remedy.proven else "Not tried."
    )
    yield from ("## Workaround", "", proof, "", "```", culprit.remedy.command, "```")


def _environment(sections: Sequence[Section]) -> Iterator[str]:
    """Yield the lines with versions and facts about the machine."""
    for section in sections:
        for name, value in section.facts:
            if value not in ("not set", "not installed"):
                yield f"- {name}: {value}"


def _one_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def _cut(line: str) -> str:
    """Return a line, truncated if it is long."""
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]} ..."
