"""What a program shows of its runs: up to four comparisons line by line, more of them as a table
and a verdict.

The log gets everything as ever; what of that reaches the console is up to the `Screen`. Nothing
but the logger is imported before there is a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from polygraphy.adapters.console.run_head import RunHead, noted
from polygraphy.adapters.console.run_verdict import RunVerdict
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.console.log import LogConsole
    from polygraphy.adapters.console.outcome import Comparison
    from polygraphy.adapters.console.screen import Screen
    from polygraphy.domain.accuracy.accuracy import AccuracyResult
    from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRows
    from polygraphy.domain.accuracy.pairs import PairResult
    from polygraphy.domain.model import Node
    from polygraphy.domain.results.results import DeviceTimes
    from polygraphy.domain.results.validation import OutputValidity
    from polygraphy.domain.tensors.metadata import TensorMetadata
    from polygraphy.logger.sinks import Line

MOST_LINES = 4
"""Comparisons (outputs, times iterations, times pairs of runs) that are shown line by line."""
_VERIFYING = ("polygraphy convert ", "polygraphy surgeon ")
_FEW = 20
"""Outputs that passed, of which nobody asks which nodes make them."""


class RunView:
    """The `Console` of a program."""

    def __init__(self, command: str = "", model: str = "", reports: Sequence[str] = ()) -> None:
        """Start.

        Args:
            command: the command line that the program was made from, if it is known.
            model: the model that the program runs, if it is known.
            reports: where reports of the program are going to be saved.
        """
        self._reports = reports
        self._command = command
        self._model = model
        self._log: LogConsole | None = None
        self._screen: Screen | None = None
        self._table: AccuracyTable | None = None
        self._head = RunHead(model)
        self._verdict = RunVerdict(command, model)
        self._counts = {"compared": 0, "validated": 0}
        self._iterations: int | None = None

    # The frame of a program.

    def open(self, tell: Callable[[], object]) -> None:
        """Begin: `tell` logs the command line, which a table makes superfluous."""
        screen = self._watched()
        if screen is None:
            tell()
        else:
            screen.keep(tell)
            if self._command.startswith("polygraphy run "):
                screen.hold()

    def watch(self) -> None:
        """Begin where no command line is shown."""
        self._watched()

    @property
    def _verifies(self) -> bool:
        """Whether a comparison only confirms what the program is about, so that a line is enough
        and what else it says is shown.
        """
        return self._command.startswith(_VERIFYING)

    def close(self, tell: Callable[[], object], code: int, seconds: float) -> None:
        """End.

        Args:
            tell: logs the verdict of the program, in a line.
            code: the exit code.
            seconds: how long the program ran.
        """
        if self._screen is None or not self._screen.is_summary:
            self._release()
            command = self._verdict.next_command()
            if command.startswith("polygraphy diagnose "):
                G_LOGGER.start(f"To find the cause: {command}")
            tell()
            return
        self.log_aside(tell)
        self._conclude(code, seconds)

    def explains_failure(self) -> bool:
        """Return whether the verdict is going to say why a check failed."""
        return self.is_summary and self._verdict.is_failure

    def log_aside(self, tell: Callable[[], object]) -> None:
        """Log what the console does not show where a run is summed up."""
        assert self._screen is not None
        with self._screen.telling():
            tell()

    @property
    def is_summary(self) -> bool:
        """Whether there is more to say than that the program passed."""
        return self._screen is not None and self._screen.is_summary

    def abandon(self) -> None:
        """Show what is held back, and from now on everything."""
        self._release()
        if G_LOGGER.console_gate is self._screen:
            G_LOGGER.console_gate = None

    def _release(self) -> None:
        if self._screen is not None:
            self._screen.release()

    # Events.

    def note(self, text: str) -> None:
        if self._verdict.comparisons:
            self._write(*noted(text))
        elif self._screen is not None and (self._screen.holds or self._screen.is_summary):
            self._head.notes.append(text)
        self._log_event("note", text)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Input data are about to be taken from a data loader."""
        self._head.seed, self._iterations = seed, iterations

    def runner_activating(self, runner: str) -> None:
        self._begin()
        self._head.runners.append(runner)
        self._log_event("runner_activating", runner)

    def segments_planned(self, segments: int, tensors: int, budget: int) -> None:
        """A model is about to be run in segments of layers."""
        self._begin()
        self._log_event("segments_planned", segments, tensors, budget)

    def iteration_starting(self, index: int) -> None:
        """All runners are about to take the data of an iteration."""
        self._log_event("iteration_starting", index)

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner is fed with."""
        self._head.inputs = self._head.inputs or metadata
        self._log_event("inputs_described", runner, metadata)

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner gave."""
        self._log_event("outputs_described", runner, metadata)

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """A runner is done."""
        self._head.times[runner] = runtimes
        self._log_event("runner_completed", runner, runtimes)

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        """What a runner's device measured."""
        self._log_event("device_times_measured", runner, times)

    def runner_failed(self, runner: str, reason: str) -> None:
        self._line_log().runner_failed(runner, reason)

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        self._begin()
        self._log_event("comparison_starting", runner0, runner1)

    def iteration_compared(self, pair: PairResult) -> None:
        if self._screen is not None:
            self._fold(pair)
        self._log_event("iteration_compared", pair)

    def comparison_finished(self, result: AccuracyResult) -> None:
        if self._table is None and self._screen is not None:  # The results are those of a file.
            self._count("compared", sum(1 for _ in result.scan()))
        self._log_event("comparison_finished", result)
        if self.is_summary:
            self._show(result)
            return
        self._release()
        if self._table is not None and not result:
            self._verdict.comparisons += self._compared(self._table.tables(result), result)

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Outputs are about to be checked."""
        self._begin()
        self._log_event("validation_starting", runners)

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        self._count("validated", 1)
        self._verdict.add_validity(runner, validity)
        self._log_event("output_validated", runner, validity)

    def validation_finished(self, passed: bool) -> None:
        self._log_event("validation_finished", passed)

    # How it is shown.

    def _watched(self) -> Screen | None:
        """Return the screen; None where everything is shown line by line."""
        if self._screen is None and not _is_line_by_line():
            from polygraphy.adapters.console.screen import Screen

            least = G_LOGGER.ERROR if _level() >= G_LOGGER.START else G_LOGGER.WARNING
            least = G_LOGGER.INFO if self._verifies else least
            self._screen = G_LOGGER.console_gate = Screen(least)
        return self._screen

    def _begin(self) -> None:
        """Begin to tell a run."""
        screen = self._watched()
        if screen is not None:
            screen.hold()
            if _level() >= G_LOGGER.START:
                screen.sum_up()

    def _line_log(self) -> LogConsole:
        if self._log is None:
            from polygraphy.adapters.console.log import LogConsole

            draws = self._screen is None or G_LOGGER.log_file is not None
            self._log = LogConsole(draws=draws)
        return self._log

    def _log_event(self, event: str, *facts: object) -> None:
        """Tell the log, of which the console shows what the screen lets through."""
        if self._screen is None:
            getattr(self._line_log(), event)(*facts)
        elif not self.is_summary or G_LOGGER.log_file is not None:
            with self._screen.telling():
                getattr(self._line_log(), event)(*facts)

    def _count(self, what: str, count: int) -> None:
        """Count what was compared or checked; too many are summed up."""
        self._counts[what] += count
        self._sum_up_beyond(self._counts[what])

    def _sum_up_beyond(self, count: int) -> None:
        """Sum up what was compared or checked, or is going to be, if it is too much for lines."""
        screen = self._screen
        most = 0 if self._verifies else MOST_LINES
        if screen is None or screen.is_summary or count <= most:
            return
        kept = screen.sum_up()
        if kept:
            from polygraphy.adapters.console.screen import write_lines

            write_lines(kept)

    def _fold(self, pair: PairResult) -> None:
        if self._table is None:
            from polygraphy.domain.accuracy.output_rows import AccuracyTable

            self._table = AccuracyTable()
        self._table.add(pair)
        for position, origin in zip(pair.positions, pair.origins):
            if origin:
                self._head.files[position] = origin
        compared = len(pair.results)
        self._count("compared", compared)
        if pair.iteration == 0 and self._iterations is not None:  # A slow run is summed up at once.
            self._sum_up_beyond(compared * self._iterations)

    # What is shown in place of lines.

    def _show(self, result: AccuracyResult) -> None:
        """Show a table for each pair of runs that a comparison function compared."""
        from polygraphy.adapters.console.run_head import left_out_lines
        from polygraphy.adapters.console.screen import columns
        from polygraphy.adapters.console.tables import table_lines
        from polygraphy.domain.accuracy.output_rows import AccuracyTable

        tables = (self._table or AccuracyTable()).tables(result)
        if not tables:  # Nothing was compared here: the results are those of a file.
            self._verdict.comparisons += self._compared(AccuracyTable.of(result), result)
            return
        if not self._verdict.comparisons:
            self._write(*self._head.lines())
        for position, each in enumerate(self._compared(tables, result)):
            self._verdict.comparisons.append(each)
            table = each.table
            title = each.title
            if table.label != "simple":
                title = f"{title} ({table.label})"
            whole = self._whole_words(title, each)
            lines = table_lines(title, table, width=columns(), whole=whole, makers=each.makers)
            self._write("", *lines)
            if names := result.left_out_at.get(position):
                self._write(*left_out_lines(names))

    def _compared(self, tables: Sequence[OutputRows], result: AccuracyResult) -> list[Comparison]:
        """Return each pair of runs with its table and its verdict."""
        from polygraphy.adapters.console.outcome import Comparison

        makers = self._makers(tables, result)
        pairs = zip(tables, map(self._head.names, tables), result.tallies())
        return [
            Comparison(" vs. ".join(names), names, table, tally.passed, makers)
            for table, names, tally in pairs
        ]

    def _makers(self, tables: Sequence[OutputRows], result: AccuracyResult) -> Mapping[str, Node]:
        """Return the nodes that make layers; those of a few layers that passed say nothing."""
        if result and all(len(table) <= _FEW for table in tables):
            return {}
        from polygraphy.adapters.console.makers import makers_of

        rows = [row for table in tables for row in table.rows() if not row.worst.is_missing]
        return makers_of(self._model, {row.name for row in rows})

    def _whole_words(self, title: str, each: Comparison) -> str:
        """Say where all rows of a table are; of what failed, save them if they are nowhere else."""
        from polygraphy.adapters.console.tables import whole_words

        path = next((path for path in self._reports if not path.endswith(".md")), None)
        is_shown = _level() < G_LOGGER.START
        return whole_words(title, each.table, each.makers, path, saves=is_shown and not each.passed)

    def _conclude(self, code: int, seconds: float) -> None:
        """Show the verdict."""
        from polygraphy.adapters.console.screen import wrapped

        level = _level()
        if code == 0 and level >= G_LOGGER.FINISH:
            return
        word, severity = ("PASSED", G_LOGGER.FINISH) if code == 0 else ("FAILED", G_LOGGER.ERROR)
        words = self._verdict.words(code, seconds)
        self._say("", *((line, severity) for line in wrapped(f"{word}  {words}", len(word) + 2)))
        if code != 0:
            self._write(*self._verdict.details())

    def _write(self, *lines: str | Line) -> None:
        """Show lines that only the console gets, unless nothing but the verdict is shown."""
        if _level() < G_LOGGER.START:
            self._say(*lines)

    def _say(self, *lines: str | Line) -> None:
        from polygraphy.adapters.console.screen import write_lines

        if _level() >= G_LOGGER.START:
            lines = tuple(line for line in lines if line)
        write_lines([(line, G_LOGGER.INFO) if isinstance(line, str) else line for line in lines])


def _level() -> int:
    """Return the least severity that the console shows."""
    return max(G_LOGGER.severity, G_LOGGER.console_severity)


def _is_line_by_line() -> bool:
    """Return whether the log is read line by line: by a program, or by somebody who wants more."""
    if G_LOGGER.json or G_LOGGER.use_python_logging_system or G_LOGGER.legacy:
        return True
    return _level() < G_LOGGER.INFO or G_LOGGER.module_severity.has_paths
