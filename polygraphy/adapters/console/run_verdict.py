"""What a program says at the end of a run: passed or failed, why, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polygraphy.adapters.console.outcome import Comparison
    from polygraphy.domain.results.validation import OutputValidity


class RunVerdict:
    """Gathers what was found. Where that is nothing, no module is imported to say so.

    Attributes:
        comparisons: pairs of runs that were compared.
    """

    def __init__(self, command: str, model: str) -> None:
        """Start; the command line and the model may not be known."""
        self._command = command
        self._model = model
        self.comparisons: list[Comparison] = []
        self._validated = 0
        self._invalid: list[tuple[str, OutputValidity]] = []

    def add_validity(self, runner: str, validity: OutputValidity) -> None:
        """Take what was found about the values of an output."""
        self._validated += 1
        if validity.nan or validity.inf:
            self._invalid.append((runner, validity))

    @property
    def is_failure(self) -> bool:
        """Whether it says why a check failed."""
        return bool(self._invalid) or not all(each.passed for each in self.comparisons)

    def words(self, code: int, seconds: float) -> str:
        """Say what passed, or how much failed.

        Args:
            code: the exit code.
            seconds: how long the program ran.
        """
        from polygraphy.adapters.console import outcome

        if code == 0 and not self.comparisons:
            return f"{self._validated} outputs are valid, {seconds:.1f} s."
        if code == 0:
            return outcome.passed_words(self.comparisons, seconds)
        facts = []
        if not all(each.passed for each in self.comparisons):
            facts.append(outcome.failed_words(self.comparisons))
        facts += self._invalid_words()
        return " ".join(facts) or f"Exit code {code}."

    def details(self) -> list[str]:
        """Return the lines below a failure: where, whether it is rounding, and what to do."""
        from polygraphy.adapters.console import outcome
        from polygraphy.adapters.console.screen import wrapped

        lines = []
        for reason in [*self._invalid_reasons(), *outcome.reasons(self.comparisons)]:
            lines += wrapped(reason, outcome.INDENT)
        if needed := outcome.needed_words(self.comparisons):
            lines.append(outcome.labelled("passes", f"with {needed}"))
        if command := self.next_command():
            lines.append(outcome.labelled("next", command))
        return lines

    def next_command(self) -> str:
        """Return the command that finds out more about a failure; empty for none."""
        if not self.comparisons and not self._invalid:
            return ""
        from polygraphy.adapters.console import outcome
        from polygraphy.domain.report.advice import diagnosis_of_values

        command = outcome.remedy(self.comparisons, self._command)
        return diagnosis_of_values(self._command) if self._invalid and not command else command

    def _invalid_words(self) -> list[str]:
        """Say which output holds NaN or infinity first, and how many do."""
        if not self._invalid:
            return []
        from polygraphy.domain.results.runner_names import short_names

        runner, first = self._invalid[0]
        return [
            f"{len(self._invalid)} of {self._validated} outputs hold NaN or infinity,"
            f" first {first.name!r} of {short_names([runner])[0]}."
        ]

    def _invalid_reasons(self) -> list[str]:
        """Name the node that makes the first NaN or infinity, and say how many there are."""
        if not self._invalid:
            return []
        from polygraphy.adapters.console.makers import makers_of, node_words
        from polygraphy.adapters.console.outcome import labelled

        _, first = self._invalid[0]
        node = makers_of(self._model, [first.name]).get(first.name)
        lines = [] if node is None else [labelled("node", node_words(node))]
        complaint = first.complaint(check_nan=True, check_inf=True)
        return [*lines, labelled("first", f"{first.name}: {complaint}")]
