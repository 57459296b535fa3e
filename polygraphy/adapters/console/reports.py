"""Reports as text: each becomes one log message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.console.numbers import (
    format_number,
    histogram_bars,
    percentiles,
    statistics,
)
from polygraphy.adapters.console.profiles import profile_lines
from polygraphy.adapters.console.screen import (
    columns,
    log,
    say,
    show,
    show_instead,
    wrap_text,
)
from polygraphy.adapters.console.tables import Column, draw_table
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.accuracy.inspection import DataReport, Peculiarity, RunReport, TensorReport
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.environment import Environment
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.profiling.regression import slower_text
from polygraphy.domain.results.results import label_of_runner, label_of_runners, short_names
from polygraphy.domain.sweep.outcome import (
    FAILED,
    INCONCLUSIVE,
    MISSING,
    NO_REFERENCE,
    PASSED,
    Group,
    Row,
    SweepOutcome,
)
from polygraphy.domain.tensors.naming import count_text, list_some, one_line
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.domain.checks.capability import SupportReport
    from polygraphy.domain.profiling.table import ProfileTable
    from polygraphy.domain.tactics import Algorithm, TacticReplay


_INDENT = "    "
_MOST = 20
"""Tensors, or answers, that are shown one by one."""


class LogReports:
    """Writes reports to the log."""

    def source(self, path: str) -> None:
        """Log the path of a file."""
        G_LOGGER.info(path)

    def data(self, report: DataReport, *, num_items: int, line_width: int) -> None:
        """Write the report on input data or results of runners."""
        values = partial(
            np.array2string,
            threshold=sys.maxsize if num_items < 0 else 1000,
            edgeitems=max(num_items, 1),
            max_line_width=sys.maxsize if line_width < 0 else line_width,
        )
        text = "\n".join(_data_lines(report, values))
        tensors = [tensor for run in report.runs for step in run.reports for tensor in step.tensors]
        if report.is_detailed or len(tensors) <= len(report.runs):
            # A short run has a line per tensor, as in the transcripts of the documentation.
            G_LOGGER.info(text)
        else:
            show_instead(text, _table_lines(report))

    def accuracy(self, results: AccuracyResults) -> None:
        """Write saved verdicts; a console with answers shows them as a table."""
        log("\n".join(_accuracy_lines(results)))

    def environment(self, environment: Environment) -> None:
        """Write the versions and devices of this machine."""
        log("\n".join(_environment_lines(environment)))
        show(_environment_answer(environment))

    def sweep(self, outcome: SweepOutcome) -> None:
        """Write the matrix of a sweep, and the causes of failures."""

        say("\n".join(sweep_lines(outcome, columns())))

    def profile(self, table: ProfileTable, *, sort: str, rows: int) -> None:
        """Write the times of nodes."""
        say("\n".join(profile_lines(table, sort, rows, columns())))

    def replay(self, replay: TacticReplay) -> None:
        """Log the tactics of a replay."""
        G_LOGGER.info(str(replay) or "The replay contains no layers.")

    def replays_compared(
        self,
        name0: str,
        name1: str,
        difference: Mapping[str, tuple[Algorithm | None, Algorithm | None]],
    ) -> None:
        """Log the layers whose tactics differ."""
        if not difference:
            G_LOGGER.info(f"{name0} and {name1} contain the same tactics.")
            return
        differ = f"{count_text(len(difference), 'layer')} differ{'s' * (len(difference) == 1)}"
        G_LOGGER.info(f"{differ} between {name0} and {name1}:")
        width = max(len(name0), len(name1))
        for name, (choice0, choice1) in difference.items():
            G_LOGGER.info(
                f"Layer: {name}\n"
                f"{_INDENT}{name0:{width}} | {_choice(choice0)}\n"
                f"{_INDENT}{name1:{width}} | {_choice(choice1)}"
            )

    def bad_tactics(
        self, good: int, bad: int, suspicious: Mapping[str, Sequence[Algorithm]]
    ) -> None:
        """Log the layers with potentially bad tactics."""
        G_LOGGER.progress(f"Loaded {good} good tactic replays.")
        G_LOGGER.progress(f"Loaded {bad} bad tactic replays.")
        if not suspicious:
            G_LOGGER.info(
                "Could not determine potentially bad tactics. Try generating more tactic replay"
                " files?"
            )
            return
        G_LOGGER.info("Found potentially bad tactics:")
        for name, algorithms in suspicious.items():
            G_LOGGER.info(
                f"Layer: {name}\n{_INDENT}Algorithms: {[str(tactic) for tactic in algorithms]}"
            )

    def support(self, report: SupportReport) -> None:
        """Log which parts of a model TensorRT supports."""
        G_LOGGER.info("\n".join(_support_lines(report)))


def _table_lines(report: DataReport) -> Iterator[str]:
    """Yield an answer, and a table for each runner; of many tensors,
    only those with NaN or infinities and the first ones."""
    yield from wrap_text(_data_answer(report), 2)
    titles = short_names(run.runner or "inputs" for run in report.runs)
    for title, run in zip(titles, report.runs):
        tensors = [tensor for step in run.reports for tensor in step.tensors]
        odd = [tensor for tensor in tensors if tensor.peculiarities]
        first = [tensor for tensor in tensors if not tensor.peculiarities]
        chosen = [*odd[:_MOST], *first[: max(0, _MOST - len(odd))]]
        names = {tensor.name for tensor in chosen}
        yield ""
        yield from _tensor_table(title, [tensor for tensor in tensors if tensor.name in names])
        if len(names) < len(tensors):
            text = f"{len(names)} of {len(tensors)} tensors shown; all with -v or --log-file PATH"
            yield from wrap_text(f"  {text}", 2)


def _data_answer(report: DataReport) -> str:
    """Return a sentence with the amount of data, and whether it contains NaN or infinity."""
    runs = report.runs
    tensors = [tensor for run in runs for step in run.reports for tensor in step.tensors]
    odd = sum(bool(tensor.peculiarities) for tensor in tensors)
    counts = [count_text(runs[0].iterations, "iteration")]
    if not report.is_about_inputs:
        counts.insert(0, count_text(len(runs), "runner"))
    if runs[0].iterations > 1:
        counts.append("the first is shown (-a shows all)")
    text = f"NaN or infinity in {odd} of {len(tensors)} tensors" if odd else "No NaN or infinity"
    return f"{text}{' here' * (runs[0].iterations > 1)}; {', '.join(counts)}."


def _tensor_table(title: str, tensors: Sequence[TensorReport]) -> Iterator[str]:
    """Yield the lines of a table of tensors with their statistics."""
    measured = [None if tensor.unmeasured is not None else tensor.summary for tensor in tensors]

    def numbers(name: str, rank: int = 0) -> Column:
        """Return a column with one statistic of each tensor."""
        cells = ["" if summary is None else f"{getattr(summary, name):.3g}" for summary in measured]
        return Column(name, cells, is_number=True, rank=rank)

    odd = [", ".join(map(_peculiarity, tensor.peculiarities)) for tensor in tensors]
    other_columns = [
        Column("dtype", [tensor.dtype for tensor in tensors], rank=2),
        Column("shape", [str(list(tensor.shape)).replace(" ", "") for tensor in tensors], rank=1),
        *(numbers("min"), numbers("max"), numbers("mean", 3), numbers("std", 4)),
        Column("", odd),
    ]
    names = Column("", [one_line(tensor.name) for tensor in tensors])
    width = columns()
    failed = [bool(text) for text in odd]
    for text, _ in draw_table(title, names, other_columns, failed, width):
        yield text


def _peculiarity(peculiarity: Peculiarity) -> str:
    """Return the number of NaN or infinities, and the index of the first one."""
    position = (
        "" if peculiarity.first is None else f" at {list(peculiarity.first)}".replace(", ", ",")
    )
    return f"{peculiarity.what} {peculiarity.count}{', first' * (peculiarity.count > 1)}{position}"


Texts = Callable[[Any], str]
"""Writes the elements of an array."""


def _data_lines(report: DataReport, values: Texts) -> Iterator[str]:
    """Yield the lines about input data or results of runners."""
    if report.is_about_inputs:
        [run] = report.runs
        yield f"==== Data ({run.iterations} iterations) ===="
        yield ""
        yield from _run_lines(run, report, values)
        return
    yield f"==== Run Results ({len(report.runs)} runners) ===="
    yield ""
    labels = [label_of_runner(run.runner or "") for run in report.runs]
    width = max(map(len, labels), default=0)
    for index, (label, run) in enumerate(zip(labels, report.runs)):
        if index > 0 and report.all_iterations:
            yield ""
        yield f"---- {label:{width}} ({run.iterations} iterations) ----"
        yield ""
        yield from _run_lines(run, report, values)


def _run_lines(run: RunReport, report: DataReport, values: Texts) -> Iterator[str]:
    """Yield the lines about the results of one runner."""
    for position, iteration in enumerate(run.reports):
        if report.all_iterations:
            if position > 0:
                yield ""
            yield f"-- Iteration: {iteration.index}"
        margin = _INDENT if report.all_iterations else ""
        if not iteration.tensors:
            yield f"{margin}No tensors"
        for tensor in iteration.tensors:
            for text in _tensor_texts(tensor, report, values):
                yield from (margin + line for line in text.splitlines() or [""])


def _tensor_texts(tensor: TensorReport, report: DataReport, values: Texts) -> Iterator[str]:
    """Yield the texts about one tensor."""
    meta, name = f"[dtype={tensor.dtype}, shape={tensor.shape}]", one_line(tensor.name)
    if tensor.unmeasured is not None:
        yield f"{name} {meta} | {tensor.unmeasured}, no statistics"
    else:
        yield f"{name} {meta} | Stats: {statistics(tensor.summary)}"
        yield from _number_texts(tensor, report)
    if tensor.values is not None:
        yield _indent_lines(values(tensor.values))


def _number_texts(tensor: TensorReport, report: DataReport) -> Iterator[str]:
    """Yield the texts about the percentiles and the histogram of a tensor."""
    if tensor.peculiarities:
        numbers = ", ".join(
            f"{peculiarity.what}: {peculiarity.count}"
            + (f" (first at {peculiarity.first})" if peculiarity.count else "")
            for peculiarity in tensor.peculiarities
        )
        yield _INDENT + f"{one_line(tensor.name)} | {numbers} of {tensor.summary.size} elements"
    if report.detail.statistics:
        yield _INDENT + f"{one_line(tensor.name)} | Percentiles: {percentiles(tensor.summary)}"
    if tensor.histogram is not None:
        yield _indent_lines(histogram_bars(tensor.histogram))


def _indent_lines(text: str) -> str:
    """Return a text with every line indented."""
    return "\n".join(_INDENT + line for line in text.splitlines())


def _accuracy_lines(results: AccuracyResults) -> Iterator[str]:
    """Yield the lines about saved verdicts."""
    yield f"==== Accuracy Results ({count_text(len(results), 'comparison')}) ===="
    for result in results:
        yield ""
        yield f"---- {result.label} ----"
        for tally, (_, iterations) in zip(result.tallies(), result.items()):
            yield ""
            counted = "outputs matched on average" if result.is_average else "iterations matched"
            yield f"{label_of_runners(tally.runners)} | {tally.matched}/{tally.total} {counted}"
            for index, answers in enumerate(iterations):
                yield f"{_INDENT}-- Iteration: {index}"
                if not answers:
                    yield f"{_INDENT * 2}FAILED | No outputs were compared"
                for name, answer in answers.items():
                    text = _answer(name, answer, is_judged=not result.is_average)
                    yield _INDENT * 2 + one_line(text)


def _answer(name: str, answer: object, *, is_judged: bool) -> str:
    """Return the verdict about an output as text."""
    facts = [name, *(["PASSED" if answer else "FAILED"] if is_judged else [])]
    if isinstance(answer, CompareResult):
        metrics = {
            field: value for field, value in answer.metric_values().items() if value is not None
        }
        if metrics:
            facts.append(
                ", ".join(f"{field}={format_number(value)}" for field, value in metrics.items())
            )
        if isinstance(answer.thresholds, Tolerance):
            stats = ", ".join(answer.thresholds.check_error_stat)
            facts.append(f"Tolerance: {answer.thresholds}, {stats}")
    return " | ".join(facts)


def _environment_lines(environment: Environment) -> Iterator[str]:
    """Yield the lines about the installed software, section by section."""
    yield "==== Environment ===="
    for section in environment.sections:
        yield ""
        yield f"---- {section.title} ----"
        width = max((len(name) for name, _ in section.facts), default=0)
        yield from (f"{name:{width}} | {fact}" for name, fact in section.facts)
        yield from section.remarks


def _environment_answer(environment: Environment) -> Iterator[str]:
    """Yield the installed software as a table for each section,
    without the separators of the log."""
    yield from (*wrap_text(environment.summary, 2), "")
    for section in environment.sections:
        width = max((len(name) for name, _ in section.facts), default=0)
        yield section.title
        for name, fact in section.facts:
            yield from wrap_text(f"  {name:{width}}  {one_line(fact)}", width + 4)
        for remark in section.remarks:
            yield from wrap_text(f"  {remark}", 4)
        yield ""


def _choice(algorithm: Algorithm | None) -> str:
    """Return the tactic of a layer as text; ``missing`` for None."""
    return "missing" if algorithm is None else f"Algorithm: {algorithm}"


def _support_lines(report: SupportReport) -> Iterator[str]:
    """Yield the lines about which nodes a backend supports."""
    if report.is_supported:
        yield f"All {len(report.nodes)} nodes are supported."
        return
    yield from report.table().splitlines()


_MOST_MODELS = 40
"""Rows of a matrix."""
_MOST_WHOLE = 10
"""Up to this number of models, all are shown, whether or not they passed."""
_MOST_GROUPS = 10
_MOST_CELLS = 3
_WORDS = {PASSED: "ok", MISSING: "-", NO_REFERENCE: "no ref", INCONCLUSIVE: "?", FAILED: "FAILED"}


def sweep_lines(outcome: SweepOutcome, width: int | None) -> Iterator[str]:
    """Yield the lines about a sweep: its matrix, and the causes of failures.

    Args:
        outcome: the result of the sweep.
        width: the columns of the terminal; None for as many as it takes.
    """
    yield from _matrix(outcome, width)
    for group in outcome.groups[:_MOST_GROUPS]:
        yield ""
        yield from _group_lines(group)
    if len(outcome.groups) > _MOST_GROUPS:
        yield ""
        hidden = count_text(len(outcome.groups) - _MOST_GROUPS, "more cause")
        yield f"... and {hidden}, see --report."
    changed = [row for row in outcome.rows if row.changes]
    if changed:
        yield ""
    for row in changed[:_MOST_MODELS]:
        yield f"  {', '.join(row.changes)}: {one_line(row.name)}"
        if row.slower_nodes:
            yield from wrap_text(f"    {one_line(slower_text(row.slower_nodes))}", 4)
    yield from ("", *wrap_text(outcome.summary, 0), "")


def _matrix(outcome: SweepOutcome, width: int | None) -> Iterator[str]:
    """Yield the lines of a matrix: models with failures, then with other changes, and the number
    that passed. If the columns do not fit the terminal, each cell that failed or changed is a line.
    """
    matrix = outcome.matrix
    notable = {
        model: cells
        for model, cells in matrix.items()
        if any(row.state != PASSED or row.changes for row in cells.values())
    }
    ordered = sorted(notable, key=lambda model: not _has_new_failure(notable[model]))
    rows = {model: notable[model] for model in ordered[:_MOST_MODELS]}
    if len(matrix) <= _MOST_WHOLE:
        rows.update((model, cells) for model, cells in matrix.items() if model not in notable)
    labels = [label for label in outcome.labels if any(label in cells for cells in rows.values())]
    columns = [
        Column(label, [_state_word(cells.get(label)) for cells in rows.values()])
        for label in labels
    ]
    if rows and (width is None or _fits(columns, width)):
        names = Column("", [one_line(model) for model in rows])
        failed = [_has_new_failure(cells) for cells in rows.values()]
        for line, _ in draw_table("model", names, columns, failed, width):
            yield line
    else:
        rows = {model: cells for model, cells in rows.items() if model in notable}
        yield from _cell_lines(rows)
    hidden = len(notable) - len(rows)
    if hidden > 0:
        yield f"  {count_text(hidden, 'more model')} with failures or changes"
    passed = len(matrix) - len(notable)
    if passed and not all(model in rows for model in matrix):
        yield f"  {count_text(passed, 'model')} passed everywhere"


def _has_new_failure(cells: Mapping[str, Row]) -> bool:
    """Return whether a cell failed in a way that is not known yet."""
    return any(row.failed and not row.known for row in cells.values())


def _cell_lines(models: Mapping[str, Mapping[str, Row]]) -> Iterator[str]:
    """Yield a line for each cell that did not pass, failures first."""
    rows = [row for cells in models.values() for row in cells.values()
            if row.state != PASSED or row.changes]  # fmt: skip
    rows.sort(key=lambda row: (not row.failed or bool(row.known), row.state == MISSING))
    width = max((len(_state_word(row)) for row in rows), default=0)
    for row in rows[:_MOST_MODELS]:
        yield from wrap_text(f"{_state_word(row):{width}}  {one_line(row.name)}", width + 2)
    if len(rows) > _MOST_MODELS:
        yield f"  {count_text(len(rows) - _MOST_MODELS, 'more cell')}, see --report."


def _fits(columns: list[Column], width: int) -> bool:
    """Return whether all columns fit a terminal; a matrix needs that."""
    return sum(column.width + 2 for column in columns) + 30 <= width


def _state_word(row: Row | None) -> str:
    """Return the state of a cell as a word, in parentheses if the failure is a known one."""
    if row is None:
        return ""
    word = _WORDS.get(row.state, row.state)
    return f"({word})" if row.known else word


def _group_lines(group: Group) -> Iterator[str]:
    """Yield the lines about one cause of failures: its cells and its remedy."""
    count = count_text(len(group.cells), "cell")
    yield from wrap_text(f"{count}: {one_line(group.cause)}", 4)
    yield from wrap_text(f"    {list_some(group.cells, _MOST_CELLS, one_line)}", 4)
    if group.remedy:
        yield f"    {'FIX' if group.proven else 'TRY'} {one_line(group.remedy)}"
