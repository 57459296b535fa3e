"""Shows a diagnosis on the console: the culprit and the fix, then the steps; the log shows the
steps first, because they run first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size

from polygraphy.adapters.console.screen import log, say, show, shows_answers, wrap_text
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    INCONCLUSIVE,
    Attempt,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.words.reasons import NO_FAULT
from polygraphy.domain.tensors.naming import escape_command, list_some, one_line, shorten_text
from polygraphy.logger import G_LOGGER
from polygraphy.logger.sinks import escape_controls, shows_colors

_SHOWN = 4
_NODES = 4
_WIDTH = 200
_LEAST = 40
"""Characters of a heading that the names of nodes have at least. Chosen, not measured."""
_SENTENCE = 400
"""Characters of a sentence: the reason of a refusal comes last."""


class LogDiagnosisReports:
    """Implements the port `DiagnosisReports`."""

    def __init__(self) -> None:
        """Start without steps."""
        self._steps: list[str] = []

    def show_attempt(self, attempt: Attempt) -> None:
        """Show a step with its result and its time."""
        step = f"{attempt.title:<28} {_one_short_line(attempt.result)}  ({attempt.seconds:.1f} s)"
        log(step)
        if not shows_answers():
            return
        self._steps.append(step)
        _draw(step)

    def show_result(self, result: DiagnosisResult) -> bool:
        """Show the culprits; return whether the console shows why a result is inconclusive,
        which it does in front of the steps."""
        _draw("")
        least = max(G_LOGGER.severity, G_LOGGER.console_severity)
        shows_reason = shows_answers() and least <= G_LOGGER.WARNING
        shows_reason = shows_reason and result.verdict == INCONCLUSIVE
        if shows_reason:
            say(result.reason, G_LOGGER.WARNING, indent=0)
        if not result.culprits and result.verdict != INCONCLUSIVE:
            # An inconclusive result is shown above, or as an error elsewhere.
            no_fault = NO_FAULT if result.verdict == AGREE else ""
            text = f"{no_fault} {result.reason}".strip()
            if text:
                say(text, indent=0)
        culprits = result.culprits[:_SHOWN]
        word = "COULD BE" if result.verdict == INCONCLUSIVE else "CULPRIT "
        for number, culprit in enumerate(culprits):
            _show_culprit(word, culprit, culprits[number + 1 :])
        if len(result.culprits) > _SHOWN:
            say(f"... and {len(result.culprits) - _SHOWN} more, see --format json.")
        steps = [line for step in self._steps for line in wrap_text(f"  {step}", 31)]
        self._steps = []
        has_answer = bool(result.culprits) or shows_reason or result.verdict != INCONCLUSIVE
        show([*([""] if has_answer and steps else []), *steps, ""])
        return shows_reason

    def show_saved_part(self, folder: str, name: str) -> None:
        """Show where the culprit is saved."""
        say(f"SAVED    {_one_short_line(folder)}: {_one_short_line(name)}", G_LOGGER.FINISH)

    def show_bug_report(self, text: str) -> None:
        """Write the text of a bug report to standard output."""
        sys.stdout.write(escape_controls(text))


def _show_culprit(word: str, culprit: Culprit, later: Sequence[Culprit]) -> None:
    """Show a culprit; text that it shares with the next ones is shown with the last of them."""
    names = {sentence for culprit in later for sentence in culprit.evidence}
    by = f" by {culprit.rewrite}" if culprit.rewrite else ""
    op = culprit.op if len(culprit.nodes) < 2 else ""  # Several nodes can have several operators.
    subject = f"{op} {list_some(culprit.nodes, _NODES)}".strip() or "Data"
    end = f": {culprit.cause}{by} ({culprit.party})"
    # A long name loses its middle, so that the cause and the party stay.
    heading = f"{shorten_text(one_line(subject), max(_WIDTH - len(end) - 9, _LEAST))}{end}"
    sentences = [name for name in culprit.evidence if name not in names]
    if culprit.facts and culprit.facts[0].kind == "weights_differ":
        # The number of differing weights is the result, so show it.
        heading = f"{culprit.evidence[0].rstrip('.')} ({culprit.party})"
        sentences = culprit.evidence[1:]
    say(
        _one_short_line(f"{word} {heading}"),
        G_LOGGER.WARNING,
        indent=9,
    )
    if culprit.origin is not None:
        say(f"    From {_one_short_line(culprit.origin)}.", indent=4)
    for sentence in sentences:
        say(f"    {_one_short_line(sentence, _SENTENCE)}", indent=4)
    if any(culprit.remedy == other_culprit.remedy for other_culprit in later):
        return
    if culprit.remedy.command:
        word = "FIX" if culprit.remedy.proven else "TRY"
        say(f"{word}      {escape_command(culprit.remedy.command)}", G_LOGGER.WARNING)
    if culprit.remedy.note:
        say(f"NOTE     {one_line(culprit.remedy.note)}", G_LOGGER.WARNING, indent=9)


def _draw(step: str) -> None:
    """Show the last step on a terminal, in a line that the next output replaces;
    an empty step clears it."""
    stream = sys.stderr
    if shows_answers() and stream is not None and shows_colors(stream):
        room = get_terminal_size().columns - 1
        stream.write(f"\r\x1b[K{escape_controls(step)[:room]}" if step else "\r\x1b[2K")
        stream.flush()


def _one_short_line(text: str, width: int = _WIDTH) -> str:
    """Return a text in one line, cut to a width."""
    line = one_line(text)
    return line if len(line) <= width else f"{line[: width - 3]}..."
