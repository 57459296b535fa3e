"""The console of a program: it records events, and shows them at the end as a table and a verdict.

A `polygraphy run` of one output, one iteration and one pair of runs is reported by the lines of
the log, and so is everything where the log is asked for. The log file has these lines in any case.
Nothing but the logger is imported before something happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from polygraphy import config
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.console.log import LogConsole
    from polygraphy.adapters.console.screen import Screen
    from polygraphy.adapters.console.terminal import Terminal
    from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
    from polygraphy.domain.report.document import Recorder
    from polygraphy.logger.sinks import Line


_LISTS = ("doctor",)
"""Commands that list facts: there is nothing to pass."""
_WITHOUT_BANNER = ("convert", *_LISTS)
"""Commands that show answers, and log no command line before."""


class RunView:
    """The `Console` of a program, and its `Findings`."""

    def __init__(self, command: str = "", model: str = "", reports: Sequence[str] = ()) -> None:
        """Start without events, for a command.

        Args:
            command: the command line that the program was made from, if it is known.
            model: the model that the program runs, if it is known.
            reports: the paths to which the program will save reports.
        """
        self._reports = reports
        self._command = command
        self._model = model
        self._screen: Screen | None = None
        self._banner = True
        self._compared = 0
        self._iterations: int | None = None
        self._failed = False
        self._noted: set[str] = set()
        self.records = False

    @cached_property
    def recorder(self) -> Recorder:
        """Return the record of the run so far."""
        from polygraphy.domain.report.document import Recorder

        return Recorder()

    @cached_property
    def _log(self) -> LogConsole:
        """Return the log console, which draws distributions if lines of the log are shown or
        saved."""
        from polygraphy.adapters.console.log import LogConsole

        return LogConsole(draws=self._screen is None or G_LOGGER.log_file is not None)

    # Start and end of a program.

    def open(self, tell: Callable[[], object], *, banner: bool) -> None:
        """Log the command line if there is a banner."""
        self._banner = banner
        if not _is_line_by_line():
            from polygraphy.adapters.console import screen

            least = G_LOGGER.ERROR if _level() >= G_LOGGER.START else G_LOGGER.WARNING
            form = self._form()
            if form == screen.ANSWERS and _level() < G_LOGGER.START:
                least = G_LOGGER.INFO
            self._screen = G_LOGGER.console_gate = screen.Screen(form, least)
            self.records = True
        if banner:
            self._call_unshown(tell)

    def _name(self) -> str:
        """Return the name of the command; empty for a program of the user."""
        program, _, words = self._command.partition(" ")
        return words.partition(" ")[0] if program == "polygraphy" else ""

    def _form(self) -> str:
        """Return the form of the log (see `Screen`) before the program has reported anything."""
        from polygraphy.adapters.console.screen import ANSWERS, EVERYTHING, WAITING, WARNINGS

        name = self._name()
        if name in ("", "run"):
            return WAITING if _level() < G_LOGGER.START else WARNINGS
        return ANSWERS if self._banner or name in _WITHOUT_BANNER else EVERYTHING

    def close(self, tell: Callable[[], object], code: int, seconds: float) -> None:
        """Show the verdict, and log the end of the command.

        Args:
            tell: logs the verdict of the program, in a line, if there is a banner.
            code: the exit code.
            seconds: the duration of the program.
        """
        from polygraphy.adapters.console.screen import EVERYTHING, WAITING, WARNINGS

        screen = self._screen
        is_waiting = screen is not None and screen.form == WAITING
        if screen is not None and is_waiting:
            if self._explains_itself():
                self._show_failure_first(code, seconds)
            screen.settle(EVERYTHING if self._compared == 1 else WARNINGS)
        if self._banner:
            if is_waiting and self._compared == 1:
                self._hint(code)
                tell()
            else:
                self._call_unshown(tell)
        is_list = code == 0 and self._name() in _LISTS
        if screen is not None and screen.form != EVERYTHING and not is_list:
            self._show(code, seconds)

    def explains_failure(self) -> bool:
        """Return whether the verdict will explain why a check failed."""
        return self._screen is not None and self._failed and self._compared != 1

    def log_aside(self, tell: Callable[[], object]) -> None:
        """Log lines whose content the console shows in another form."""
        self._call_unshown(tell)

    def _call_unshown(self, tell: Callable[[], object]) -> None:
        """Call a function, and hide the lines that it logs, because the console shows their content
        differently.
        """
        if self._screen is None:
            tell()
        else:
            with self._screen.hide_lines():
                tell()

    def show_all_lines(self) -> None:
        """Show all lines from now on."""
        if self._screen is not None and G_LOGGER.console_gate is self._screen:
            from polygraphy.adapters.console.screen import WAITING, WARNINGS

            if self._screen.form == WAITING:
                self._screen.settle(WARNINGS)
            G_LOGGER.console_gate = None

    def __getattr__(self, event: str) -> Callable[..., None]:
        """Return a function that records and logs an event."""
        if event.startswith("_"):
            raise AttributeError(event)

        def record_event(*facts: Any, **named: Any) -> None:
            """Record an event, and log it."""
            self._record(event, *facts, **named)
            self._log_event(event, *facts, **named)

        self.__dict__[event] = record_event
        return record_event

    def _record(self, event: str, *facts: Any, **named: Any) -> None:
        """Record an event, unless records are off."""
        if self.records:
            getattr(self.recorder, event)(*facts, **named)

    def _log_event(self, event: str, *facts: Any, **named: Any) -> None:
        """Log an event, unless nobody reads the log."""
        screen = self._screen
        if screen is None or screen.form in ("everything", "waiting") or G_LOGGER.log_file:
            self._call_unshown(lambda: getattr(self._log, event)(*facts, **named))

    def report_finding(self, kind: str, facts: Any) -> None:
        """Record a finding that is not shown."""
        self.recorder.report_finding(kind, facts)

    def conclude(self, *facts: Any, **named: Any) -> None:
        """Record the overall verdict."""
        self.recorder.conclude(*facts, **named)

    def note(self, text: str) -> None:
        """Record a note, and show it once."""
        self._record("note", text)
        if self._screen is not None and self._screen.form == "answers":
            from polygraphy.adapters.console.screen import write_lines
            from polygraphy.adapters.console.terminal import brief_note, note_lines

            brief = brief_note(text)
            if brief not in self._noted and _level() < G_LOGGER.START:
                write_lines(note_lines(brief))
            self._noted.add(brief)
        self._log_event("note", text)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Record and log where the input data come from."""
        self._record("data_chosen", source, seed, iterations)
        self._iterations = iterations

    def runner_failed(self, runner: str, reason: str) -> None:
        """Record and log an error of a runner."""
        self._record("runner_failed", runner, reason)
        self._log.runner_failed(runner, reason)

    def iteration_compared(self, pair: PairResult) -> None:
        """Record a comparison in one iteration, and show it."""
        self._record("iteration_compared", pair)
        self._compared += len(pair.results)
        expected = len(pair.results) * (self._iterations or 1) if pair.iteration == 0 else 0
        self._settle_if_many(max(self._compared, expected))
        self._failed = self._failed or any(not result for result in pair.results.values())
        self._log_event("iteration_compared", pair)

    def comparison_finished(self, result: AccuracyResult) -> None:
        """Record the result of a comparison, and show it."""
        self._record("comparison_finished", result)
        self._failed = self._failed or not result
        if not self._compared:  # Results were loaded from a file, so nothing was compared.
            self._compared += sum(1 for _ in result.scan())
            self._settle_if_many(self._compared)
        # A single failing comparison is explained by `_hint` at the end, as in other runs.
        self._log.explains = not self._explains_itself()
        self._log_event("comparison_finished", result)

    def output_validated(self, runner: str, validity: Any) -> None:
        """Record and log a validated output."""
        self._record("output_validated", runner, validity)
        self._failed = self._failed or bool(validity.nan or validity.inf)
        self._log_event("output_validated", runner, validity)

    def _settle_if_many(self, compared: int) -> None:
        """Show only warnings from now on if there are several comparisons."""
        from polygraphy.adapters.console.screen import WAITING, WARNINGS

        if compared > 1 and self._screen is not None and self._screen.form == WAITING:
            self._screen.settle(WARNINGS)

    def _hint(self, code: int) -> None:
        """Log further advice about a comparison that is reported line by line."""
        terminal = self._terminal()
        if doubts := terminal.doubts():
            G_LOGGER.warning(doubts)
        for line, _ in terminal.findings(code):
            G_LOGGER.error(line)

    def _explains_itself(self) -> bool:
        """Return whether the console will explain the failure below the transcript."""
        from polygraphy.adapters.console.screen import WAITING

        is_waiting = self._screen is not None and self._screen.form == WAITING
        return is_waiting and self._banner and self._compared == 1 and self._failed

    def _show_failure_first(self, code: int, seconds: float) -> None:
        """Show the verdict and the worst element before the lines of the log,
        which are longer than a terminal."""
        from polygraphy.adapters.console.screen import verdict_lines, write_lines

        terminal = self._terminal()
        worst = [*terminal.findings(code)][:1]
        write_lines(
            [*verdict_lines(code, terminal.verdict(code), seconds), *worst, ("", G_LOGGER.INFO)]
        )

    def _show(self, code: int, seconds: float) -> None:
        """Show the recorded run, and the verdict."""
        from polygraphy.adapters.console.screen import WARNINGS, verdict_lines, write_lines

        lines: list[Line] = []
        words = "" if code in (0, 1, 4) else f"Exit code {code}."
        if "recorder" in self.__dict__:
            terminal = self._terminal()
            notes = self._screen is not None and self._screen.form == WARNINGS
            head, tables = [*terminal.head(notes=notes)], [*terminal.tables()]
            findings = [*terminal.findings(code)]
            lines = [*head, *tables[not head :]]  # A blank line separates tables.
            lines += [("", G_LOGGER.INFO), *findings] if findings else []
            words = terminal.verdict(code)
        if _level() >= G_LOGGER.START:
            lines = []
        elif lines:
            lines.append(("", G_LOGGER.INFO))
        last = verdict_lines(code, words, seconds)
        is_wanted = lines or words or self._banner or code or _level() < G_LOGGER.START
        if is_wanted and last[0][1] > _level():
            write_lines([*lines, *last])

    def _terminal(self) -> Terminal:
        """Return the view of the recorded run for the terminal."""
        from polygraphy.adapters.console.terminal import Terminal

        path = next((path for path in self._reports if not path.endswith(".md")), None)
        location = path or G_LOGGER.log_file or "add --report PATH.html, --log-file PATH, or -v"
        return Terminal(self.recorder, self._command, self._model, location)


def _level() -> int:
    """Return the least severity that the console shows."""
    return max(G_LOGGER.severity, G_LOGGER.console_severity)


def _is_line_by_line() -> bool:
    """Return whether the log is read line by line, by a program or by a user who requested
    details."""
    if G_LOGGER.json or G_LOGGER.use_python_logging_system:
        return True
    if G_LOGGER.legacy or config.CONSOLE == "log":
        return True
    return _level() < G_LOGGER.INFO or G_LOGGER.module_severity.has_paths
