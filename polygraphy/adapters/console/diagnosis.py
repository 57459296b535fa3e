"""Shows a diagnosis on the console: a line per step, then who is to blame and what helps."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    INCONCLUSIVE,
    Attempt,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger import G_LOGGER

_SHOWN = 4
_NODES = 4
_WIDTH = 200


class LogDiagnosisReports:
    """Implements the port `DiagnosisReports`."""

    def attempted(self, attempt: Attempt) -> None:
        """Show a step with its result and its time."""
        G_LOGGER.info(f"{attempt.title:<28} {_short(attempt.result)}  ({attempt.seconds:.1f} s)")

    def concluded(self, result: DiagnosisResult) -> None:
        """Show the culprits."""
        if not result.culprits and result.verdict != INCONCLUSIVE:  # That is an error.
            said = "Nobody is to blame." if result.verdict == AGREE else ""
            text = f"{said} {result.reason}".strip()
            if text:
                G_LOGGER.info(text)
        shown = result.culprits[:_SHOWN]
        word = "COULD BE" if result.verdict == INCONCLUSIVE else "CULPRIT "
        for number, culprit in enumerate(shown):
            _show(word, culprit, shown[number + 1 :])
        if len(result.culprits) > _SHOWN:
            G_LOGGER.info(f"... and {len(result.culprits) - _SHOWN} more, see --format json.")

    def handed_over(self, folder: str, said: str) -> None:
        """Show where the culprit is saved."""
        G_LOGGER.finish(f"SAVED    {_short(folder)}: {_short(said)}")

    def written_up(self, text: str) -> None:
        """Write the text of a bug report to standard output."""
        sys.stdout.write(text)


def _show(word: str, culprit: Culprit, later: Sequence[Culprit]) -> None:
    """Show a culprit; what the next ones say as well is shown with the last of them."""
    said = {sentence for other in later for sentence in other.evidence}
    names = ", ".join(map(repr, culprit.nodes[:_NODES]))
    if len(culprit.nodes) > _NODES:
        names += f" and {len(culprit.nodes) - _NODES} more"
    by = f" by {culprit.rewrite}" if culprit.rewrite else ""
    what = f"{culprit.op} {names}".strip() or "Data"
    G_LOGGER.warning(_short(f"{word} {what}: {culprit.cause}{by} ({culprit.party})"))
    if culprit.origin is not None:
        G_LOGGER.info(f"    From {_short(culprit.origin)}.")
    for sentence in [one for one in culprit.evidence if one not in said]:
        G_LOGGER.info(f"    {_short(sentence)}")
    if any(culprit.remedy == other.remedy for other in later):
        return
    if culprit.remedy.command:
        word = "FIX" if culprit.remedy.proven else "TRY"
        G_LOGGER.warning(f"{word}      {one_line(culprit.remedy.command)}")
    if culprit.remedy.note:
        G_LOGGER.warning(f"NOTE     {one_line(culprit.remedy.note)}")


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
