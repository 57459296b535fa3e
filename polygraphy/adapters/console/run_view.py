"""What a program shows of its runs: up to four comparisons line by line, more of them as a table
and a verdict.

The log gets everything as ever; what of that reaches the console is up to the `Screen`. Nothing
but the logger is imported before there is a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.console.log import LogConsole
    from polygraphy.adapters.console.outcome import Comparison
    from polygraphy.adapters.console.screen import Screen
    from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
    from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRows
    from polygraphy.domain.model import Node
    from polygraphy.domain.results.device_times import DeviceTimes
    from polygraphy.domain.results.validation import OutputValidity
    from polygraphy.domain.tensors.metadata import TensorMetadata
    from polygraphy.logger.sinks import Line

MOST_LINES = 4
"""Comparisons (outputs, times iterations, times pairs of runs) that are shown line by line."""
_VERIFYING = ("polygraphy convert ", "polygraphy surgeon ")
_FEW = 20
"""Outputs that passed, of which nobody asks which nodes make them."""
_LABEL = 9


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
        self._comparisons: list[Comparison] = []
        self._counts = {"compared": 0, "validated": 0}
        self._invalid: list[tuple[str, OutputValidity]] = []
        self._notes: list[str] = []
        self._inputs: TensorMetadata | None = None
        self._seed: int | None = None
        self._iterations: int | None = None
        self._runners: list[str] = []
        self._times: dict[str, Sequence[float]] = {}
        self._files: dict[int, str] = {}

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
        if self._screen is None or not self._screen.sums_up:
            self._release()
            self._name_next()
            tell()
            return
        with self._screen.telling():
            tell()
        self._conclude(code, seconds)

    def _name_next(self) -> None:
        """Below the lines of a comparison that failed, name the command that finds the culprit."""
        if not self._comparisons and not self._invalid:  # Nothing is imported for nothing.
            return
        from polygraphy.adapters.console import outcome
        from polygraphy.domain.report.advice import diagnosis_of_values

        command = outcome.remedy(self._comparisons, self._command)
        if self._invalid and not command:
            command = diagnosis_of_values(self._command)
        if command.startswith("polygraphy diagnose "):
            G_LOGGER.start(f"To find the cause: {command}")

    @property
    def sums_up(self) -> bool:
        """Whether there is more to say than that the program passed."""
        return self._screen is not None and self._screen.sums_up

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
        """Something was assumed that the user may want to know."""
        if self._comparisons:
            self._write(*_noted(text))
        elif self._screen is not None and (self._screen.holds or self._screen.sums_up):
            self._notes.append(text)
        self._tell("note", text)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Input data are about to be taken from a data loader."""
        self._seed, self._iterations = seed, iterations

    def runner_activating(self, runner: str) -> None:
        """A runner is about to build or load its model."""
        self._begin()
        self._runners.append(runner)
        self._tell("runner_activating", runner)

    def segments_planned(self, segments: int, tensors: int, budget: int) -> None:
        """A model is about to be run in segments of layers."""
        self._begin()
        self._tell("segments_planned", segments, tensors, budget)

    def iteration_starting(self, index: int) -> None:
        """All runners are about to take the data of an iteration."""
        self._tell("iteration_starting", index)

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner is fed with."""
        self._inputs = self._inputs or metadata
        self._tell("inputs_described", runner, metadata)

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner gave."""
        self._tell("outputs_described", runner, metadata)

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """A runner is done."""
        self._times[runner] = runtimes
        self._tell("runner_completed", runner, runtimes)

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        """What a runner's device measured."""
        self._tell("device_times_measured", runner, times)

    def runner_failed(self, runner: str, reason: str) -> None:
        """A runner failed where the others go on."""
        self._told_by().runner_failed(runner, reason)

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Two runs are about to be compared."""
        self._begin()
        self._tell("comparison_starting", runner0, runner1)

    def iteration_compared(self, pair: PairResult) -> None:
        """The outputs of one iteration of two runs were compared."""
        if self._screen is not None:
            self._fold(pair)
        self._tell("iteration_compared", pair)

    def comparison_finished(self, result: AccuracyResult) -> None:
        """All iterations of all pairs of runs were compared."""
        if self._table is None and self._screen is not None:  # The results are those of a file.
            self._count("compared", sum(1 for _ in result.scan()))
        self._tell("comparison_finished", result)
        if self.sums_up:
            self._show(result)
            return
        self._release()
        if self._table is not None and not result:
            self._comparisons += self._compared(self._table.tables(result), result)

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Outputs are about to be checked."""
        self._begin()
        self._tell("validation_starting", runners)

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """One output was checked."""
        self._count("validated", 1)
        if validity.nan or validity.inf:
            self._invalid.append((runner, validity))
        self._tell("output_validated", runner, validity)

    def validation_finished(self, passed: bool) -> None:
        """All outputs of an iteration were checked."""
        self._tell("validation_finished", passed)

    # How it is shown.

    def _watched(self) -> Screen | None:
        """Return the screen; None where everything is shown line by line."""
        if self._screen is None and not _tells_all():
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

    def _told_by(self) -> LogConsole:
        if self._log is None:
            from polygraphy.adapters.console.log import LogConsole

            draws = self._screen is None or G_LOGGER.log_file is not None
            self._log = LogConsole(draws=draws)
        return self._log

    def _tell(self, event: str, *facts: object) -> None:
        """Tell the log, of which the console shows what the screen lets through."""
        if self._screen is None:
            getattr(self._told_by(), event)(*facts)
        elif not self.sums_up or G_LOGGER.log_file is not None:
            with self._screen.telling():
                getattr(self._told_by(), event)(*facts)

    def _count(self, what: str, count: int) -> None:
        """Count what was compared or checked; too many are summed up."""
        self._counts[what] += count
        self._sum_up_beyond(self._counts[what])

    def _sum_up_beyond(self, count: int) -> None:
        """Sum up what was compared or checked, or is going to be, if it is too much for lines."""
        screen = self._screen
        most = 0 if self._verifies else MOST_LINES
        if screen is None or screen.sums_up or count <= most:
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
                self._files[position] = origin
        compared = len(pair.results)
        self._count("compared", compared)
        if pair.iteration == 0 and self._iterations is not None:  # A slow run is summed up at once.
            self._sum_up_beyond(compared * self._iterations)

    # What is shown in place of lines.

    def _show(self, result: AccuracyResult) -> None:
        """Show a table for each pair of runs that a comparison function compared."""
        from polygraphy.adapters.console.screen import columns
        from polygraphy.adapters.console.tables import table_lines
        from polygraphy.domain.accuracy.output_rows import AccuracyTable

        tables = (self._table or AccuracyTable()).tables(result)
        if not tables:  # Nothing was compared here: the results are those of a file.
            self._comparisons += self._compared(AccuracyTable.of(result), result)
            return
        self._head()
        for each in self._compared(tables, result):
            self._comparisons.append(each)
            table = each.table
            title = each.title
            if table.label != "simple":
                title = f"{title} ({table.label})"
            whole = self._whole_words(title, each)
            lines = table_lines(title, table, width=columns(), whole=whole, makers=each.makers)
            self._write("", *lines)
            left_out = result.left_out_at.get(len(self._comparisons) - 1, ())
            if left_out:
                self._write(f"  {len(left_out)} outputs were not compared: only one side has them")

    def _compared(self, tables: Sequence[OutputRows], result: AccuracyResult) -> list[Comparison]:
        """Return each pair of runs with its table and its verdict."""
        from polygraphy.adapters.console.outcome import Comparison

        makers = self._makers(tables, result)
        pairs = zip(tables, map(self._names, tables), result.tallies())
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
        from polygraphy.adapters.console.tables import MOST_ROWS, saved_whole

        path = next((path for path in self._reports if not path.endswith(".md")), None)
        path = path or G_LOGGER.log_file
        is_cut = len(each.table) > MOST_ROWS and _level() < G_LOGGER.START
        if path is None and is_cut and not each.passed:
            path = saved_whole(title, each.table, each.makers)
        return f"All {len(each.table)} rows: {path or 'add --log-file PATH, or -v'}"

    def _head(self) -> None:
        """Show what ran, on which data, before the first table."""
        if self._comparisons:
            return
        if self._model:
            self._write(f"{'Model':{_LABEL}}{self._model}")
        if self._inputs is not None:
            seed = "" if self._seed is None else f"seed {self._seed}: "
            self._write(f"{'Inputs':{_LABEL}}{seed}{_inputs_words(self._inputs)}")
        for note in self._notes:
            self._write(*_noted(note))
        times = [
            f"{name} {sum(taken) / len(taken) * 1000:.3g} ms"
            for name, taken in zip(self._short_names(), map(self._times.get, self._runners))
            if taken
        ]
        if times:
            self._write(f"{'Runners':{_LABEL}}{'   '.join(times)} per iteration")

    def _short_names(self) -> list[str]:
        """Return the runners' names as people read them."""
        from polygraphy.domain.results.runner_names import short_names

        return short_names(self._runners)

    def _names(self, table: OutputRows) -> tuple[str, str]:
        from pathlib import Path

        from polygraphy.domain.results.runner_names import short_names

        plain = dict(zip(self._runners, self._short_names()))
        own = [plain.get(runner) or short_names([runner])[0] for runner in table.runners]
        first, second = (
            Path(self._files[at]).name if at in self._files else name
            for at, name in zip(table.positions, own)
        )
        if first == second:
            first, second = (
                f"{first} ({table.positions[0] + 1})",
                f"{second} ({table.positions[1] + 1})",
            )
        return first, second

    def _conclude(self, code: int, seconds: float) -> None:
        """Show the verdict."""
        from polygraphy.adapters.console import outcome
        from polygraphy.adapters.console.screen import wrapped
        from polygraphy.domain.report.advice import diagnosis_of_values

        passed, level = code == 0, _level()
        if passed and level >= G_LOGGER.FINISH:
            return
        found = self._comparisons
        if passed:
            words = outcome.passed_words(found, seconds) if found else self._valid_words(seconds)
            self._say("", *((line, G_LOGGER.FINISH) for line in wrapped(f"PASSED  {words}", 8)))
            return
        facts = [outcome.failed_words(found)] if not all(each.passed for each in found) else []
        facts += self._invalid_words()
        words = " ".join(facts) or f"Exit code {code}."
        self._say("", *((line, G_LOGGER.ERROR) for line in wrapped(f"FAILED  {words}", 8)))
        if level >= G_LOGGER.START:
            return
        for reason in [*self._invalid_reasons(), *outcome.reasons(found)]:
            self._say(*wrapped(reason, outcome.INDENT))
        if needed := outcome.needed_words(found):
            self._say(outcome.labelled("passes", f"with {needed}"))
        command = outcome.remedy(found, self._command)
        if self._invalid and not command:
            command = diagnosis_of_values(self._command)
        if command:
            self._say(outcome.labelled("next", command))

    def _valid_words(self, seconds: float) -> str:
        return f"{self._counts['validated']} outputs are valid, {seconds:.1f} s."

    def _invalid_words(self) -> list[str]:
        """Say which output holds NaN or infinity first, and how many do."""
        if not self._invalid:
            return []
        from polygraphy.domain.results.runner_names import short_names

        runner, first = self._invalid[0]
        return [
            f"{len(self._invalid)} of {self._counts['validated']} outputs hold NaN or infinity,"
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


def _tells_all() -> bool:
    """Return whether the log is read line by line: by a program, or by somebody who wants more."""
    if G_LOGGER.json or G_LOGGER.use_python_logging_system or G_LOGGER.legacy:
        return True
    return _level() < G_LOGGER.INFO or G_LOGGER.module_severity.has_paths


def _noted(text: str) -> list[str]:
    from polygraphy.adapters.console.screen import wrapped

    return wrapped(f"{'note':{_LABEL}}{' '.join(text.split())}", _LABEL)


def _inputs_words(inputs: TensorMetadata) -> str:
    parts = [
        f"{name} {meta.dtype}[{','.join(map(str, meta.shape or ()))}]"
        for name, meta in inputs.items()
    ]
    return ", ".join(parts[:MOST_LINES]) + (", ..." if len(parts) > MOST_LINES else "")
