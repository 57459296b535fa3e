"""The verdict document: what a program did, what it found, and what that comes to; and the recorder
that makes it, which implements the ports `Console` and `Findings`.

`docs/report.schema.json` describes it as JSON has it; what other programs may rely on is written
there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import (
    label_of_runner,
    names_of_runs,
    without_runner,
)
from polygraphy.domain.tensors.aliases import IN_DOCUMENT
from polygraphy.domain.tensors.metadata import MetadataTuple

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
    from polygraphy.domain.accuracy.output_rows import (
        AccuracyTable,
        Comparison,
        JudgedPair,
        OutputRow,
        Run,
    )
    from polygraphy.domain.accuracy.samples import SamplesCompared
    from polygraphy.domain.compare.result import CompareResult
    from polygraphy.domain.environment import Environment
    from polygraphy.domain.model import Graph
    from polygraphy.domain.profiling.table import ProfileTable
    from polygraphy.domain.results.results import DeviceTimes, OutputValidity
    from polygraphy.domain.states.comparing import StepsCompared
    from polygraphy.domain.tensors.metadata import TensorMetadata

SCHEMA = 1
"""Version of the document; it changes when a program that reads it could not go on."""

VERDICTS = {
    0: "passed",
    1: "failed",
    2: "error",
    3: "error",
    4: "inconclusive",
    129: "interrupted",
    130: "interrupted",
    143: "interrupted",
}
"""Verdict by exit code, if a command has no finer one."""


@frozen
class FileFacts:
    """A file that the program read.

    Attributes:
        path: as it was given.
        bytes: its size; None of a folder, and of what could not be read.
        sha256: of its content, in hexadecimal; None as `bytes` is.
        quantization: the quantization of its model; None if it is not quantized.
    """

    path: str
    bytes: int | None = None
    sha256: str | None = None
    quantization: str | None = None


@frozen
class TensorFacts:
    """Name, data type and shape of an input or output; None for unknown values."""

    name: str
    dtype: str | None
    shape: Sequence[Any] | None


@frozen
class DataFacts:
    """The input data.

    Attributes:
        source: the name of the class that made them.
        seed: of the first iteration, where they are generated; None where they are not.
        iterations: their number, where that is known beforehand.
    """

    source: str
    seed: int | None = None
    iterations: int | None = None


@frozen
class Times:
    """Statistics of the inference times in seconds; `first` includes one-time work.

    Attributes:
        includes_loading: whether a device loaded libraries and kernels meanwhile.
    """

    count: int
    first: float
    mean: float
    min: float
    median: float
    max: float
    includes_loading: bool = False


@frozen
class Party:
    """One of the compared runs.

    Attributes:
        name: its name, such as ``onnxrt``, or ``onnxrt (2)`` for the next of its kind.
        run: name of the runner with number and time, as in files of results.
        inputs: the arrays of its inputs.
        outputs: its outputs in the first iteration.
        times: of its inferences; None where it does not measure them.
        error: the reason why it failed while the others continued; None if it did not fail.
    """

    name: str
    run: str
    inputs: Sequence[TensorFacts] = ()
    outputs: Sequence[TensorFacts] = ()
    times: Times | None = None
    error: str | None = None


def _comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values."""
    plains: dict[str, Any] = {
        name: as_json_value(getattr(comparison, name)) for name in _OF_COMPARISON
    }
    return {**plains, "outputs": [_row_as_json(row) for row in comparison.outputs]}


_OF_COMPARISON = ("function", "parties", "passed", "matched", "total", "average", "left_out")


def _row_as_json(row: OutputRow) -> dict[str, Any]:
    """Return the row of an output as JSON values."""
    worst, node = row.worst, row.node
    element = worst.element
    as_json: dict[str, Any] = {
        "name": row.name,
        "passed": row.passed,
        "passed_iterations": row.matched,
        "iterations": row.total,
        "dtype": row.dtype,
        "shape": None if row.dtype is None else row.shape,
        "metrics": row.metrics,
        "tolerance": row.limit,
        "kept": sorted(row.kept) if row.passed and row.metric == "simple" else None,
        "worst_iteration": worst.iteration,
        "excess": worst.excess,
        "mismatched": worst.mismatched,
        "size": worst.size,
        "worst": element
        and {
            "index": [*map(int, element.index)],
            "found": element.value,
            "expected": element.reference,
        },
        "non_finite": worst.non_finite
        and [{"nan": nan, "inf": inf} for nan, inf in worst.non_finite],
        "rounding": row.rounding,
        "is_rounding": worst.is_rounding if worst.rounding is not None else None,
        "reason": worst.reason or None,
        "part": worst.part or None,
        "uniform": [*row.uniform] if any(row.uniform) else None,
        "node": node and node.label,
        "op": node and node.op,
        "origin": None if node is None or node.origin is None else str(node.origin),
        "detail": row.detail,
    }
    return dict(as_json_value(as_json))


def with_nodes(comparisons: Sequence[Comparison], graph: Graph | None) -> Sequence[Comparison]:
    """Return comparisons whose rows name the nodes that compute them; unchanged without a graph."""
    if graph is None:
        return comparisons
    makers, outputs = graph.makers, {tensor.name for tensor in graph.outputs}
    inside = makers.keys() - outputs
    return [
        evolve(
            comparison,
            outputs=[evolve(row, node=makers.get(row.name)) for row in comparison.outputs],
            is_of_layers=any(
                row.name in inside and not row.worst.is_missing for row in comparison.outputs
            ),
        )
        for comparison in comparisons
    ]


def verdict_word(verdict: str) -> str:
    """Return the word for a verdict that the terminal and pages show, such as ``FAILED``."""
    return {"agree": "PASSED", "fault": "FAILED"}.get(verdict, verdict.upper())


@frozen
class Problem:
    """An error that ended the program."""

    kind: str
    message: str


@frozen
class Document:
    """The document of a command. `results` are results other than comparisons, each with its
    `kind`; `culprits` are the culprits of a diagnosis."""

    command: str
    started: str
    seconds: float
    verdict: str
    exit_code: int
    summary: str
    environment: Environment
    files: Sequence[FileFacts] = ()
    data: Sequence[DataFacts] = ()
    parties: Sequence[Party] = ()
    comparisons: Sequence[Comparison] = ()
    validation: Sequence[Mapping[str, Any]] = ()
    results: Sequence[Mapping[str, Any]] = ()
    culprits: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    errors: Sequence[Problem] = ()
    schema: int = SCHEMA

    def as_json(self) -> dict[str, Any]:
        """Return the document as JSON values, the most important first."""
        values: dict[str, Any] = as_json_value(evolve(self, comparisons=()))
        values["comparisons"] = [*map(_comparison_as_json, self.comparisons)]
        values["environment"] = {
            section.title: dict(section.facts) for section in self.environment.sections
        }
        first = ("schema", "verdict", "exit_code", "summary", "culprits")
        return {**{name: values[name] for name in first}, **values}


_UNFINISHED = "Unfinished"


def unfinished(command: str, started: str, environment: Environment) -> Document:
    """Return the document of a program that runs, which remains if the program cannot replace
    it."""
    problem = Problem(
        _UNFINISHED,
        "The program has no result: it crashed, was killed, or still runs. See its log.",
    )
    return Document(
        command=command,
        started=started,
        seconds=0.0,
        verdict=VERDICTS[3],
        exit_code=3,
        summary=problem.message,
        environment=environment,
        errors=[problem],
    )


def is_unfinished(document: Mapping[str, Any]) -> bool:
    """Return whether a document is that of a program without a result."""
    return any(problem["kind"] == _UNFINISHED for problem in document["errors"])


_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def rows_in(document: Any) -> dict[str, OutputRow]:
    """Return the output rows in a document, by name; with several comparisons, the failed row.

    Raises:
        UsageError: it is no document of this version, or compares nothing.
    """
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise UsageError(
            "This is not a verdict document.", hint="Save one with --report PATH.json."
        )
    from polygraphy.domain.accuracy.output_rows import OutputRow, WorstIteration

    rows: dict[str, OutputRow] = {}
    try:
        for comparison in document["comparisons"]:
            for output_row in comparison["outputs"]:
                row = OutputRow(
                    output_row["name"],
                    output_row["passed_iterations"],
                    output_row["iterations"],
                    worst=WorstIteration(
                        output_row["worst_iteration"], _number_of(output_row["excess"])
                    ),
                    metrics={
                        name: _number_of(value) for name, value in output_row["metrics"].items()
                    },
                )
                if row.name not in rows or rows[row.name].passed:
                    rows[row.name] = row
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"The verdict document is damaged: {error!r}.") from error
    if not rows:
        raise UsageError("The verdict document compares no outputs.")
    return rows


def _number_of(value: Any) -> Any:
    """Return the float for a text such as "NaN"; other values unchanged."""
    return _NUMBERS.get(value, value) if isinstance(value, str) else value


Detail = Callable[["CompareResult"], "Mapping[str, Any] | None"]
"""Returns what is known besides about an output that failed."""

_FIRST = 12
"""Outputs that failed first, in the order of the model, of which details are kept."""

_Pair = tuple[str, tuple[int, int]]
"""A comparison: its function, and the positions of both runs."""


class Recorder:
    """Records events as data, without arrays.

    Attributes:
        notes: the assumptions, each once.
        data: the sources of input data, each once.
        results: further findings of commands.
        verdict: the verdict, if the exit code does not tell it.
        summary: that in a sentence, where outputs and errors do not tell.
        culprits: the parts at fault.
        detail: the details kept about outputs that fail, besides their rows, and then every metric;
            None for neither.
    """

    def __init__(self) -> None:
        """Create a recorder without events."""
        self.notes: list[str] = []
        self.data: list[DataFacts] = []
        self.results: list[Mapping[str, Any]] = []
        self.verdict: str | None = None
        self.summary = ""
        self.culprits: list[Mapping[str, Any]] = []
        self.detail: Detail | None = None
        self._compared: list[JudgedPair] = []
        self._parties: dict[Run, dict[str, Any]] = {}
        self._details: dict[_Pair, dict[str, tuple[float, Mapping[str, Any]]]] = {}
        self._validation: dict[tuple[str, str], dict[str, Any]] = {}

    def look_closer(self, detail: Detail) -> None:
        """Record more details from now on: every metric of outputs, and `detail` for failed
        ones."""
        self.detail = detail

    @cached_property
    def _new_table(self) -> AccuracyTable:
        """Return a new table of comparisons."""
        from polygraphy.domain.accuracy.output_rows import AccuracyTable

        return AccuracyTable(measures=self.detail is not None)

    @property
    def validation(self) -> list[dict[str, Any]]:
        """Return the NaN and infinity counts by runner and output, each in its worst iteration."""
        names = self._run_names()
        return [
            {"runner": names[runner, ""], **facts}
            for (runner, _), facts in self._validation.items()
        ]

    @property
    def comparisons(self) -> list[Comparison]:
        """Return the comparisons of pairs of runs."""
        names = self._run_names()
        return [
            judged_pair.comparison(names, self._rows_with_details(judged_pair))
            for judged_pair in self._compared
        ]

    def parties(self) -> list[Party]:
        """Return the runs that took part."""
        names = self._run_names()
        return [
            Party(names[run], label_of_runner(run[0]), **facts)
            for run, facts in self._parties.items()
        ]

    def _run_names(self) -> dict[Run, str]:
        """Return the name of each run."""
        return dict(zip(self._parties, names_of_runs([*self._parties])))

    def report_finding(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Record the facts of a finding."""
        self.results.append({"kind": kind, **as_json_value(facts)})

    def conclude(
        self,
        verdict: str | None = None,
        culprits: Sequence[Mapping[str, Any]] = (),
        summary: str = "",
    ) -> None:
        """Record the verdict, the culprits and the summary."""
        self.verdict = verdict
        self.culprits = [as_json_value(culprit) for culprit in culprits]
        self.summary = summary

    def note(self, text: str) -> None:
        """Record a note, once."""
        note = without_runner(text)
        if note not in self.notes:
            self.notes.append(note)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Record where the input data come from, once."""
        facts = DataFacts(source, seed, iterations)
        if facts not in self.data:
            self.data.append(facts)

    def _run_facts(self, runner: str, file: str = "") -> dict[str, Any]:
        """Return the facts of a run, which are recorded in it."""
        return self._parties.setdefault((runner, file), {})

    def runner_activating(self, runner: str) -> None:
        """Record that a runner takes part."""
        self._run_facts(runner)

    def segments_planned(self, segments: int, tensors: int, budget: int) -> None:
        """Record into how many segments a layerwise run is divided."""
        self.report_finding(
            "segments", {"segments": segments, "tensors": tensors, "budget": budget}
        )

    def iteration_starting(self, index: int) -> None:
        """Record the start of an iteration."""

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Record the inputs of a runner."""
        self._run_facts(runner).setdefault("inputs", _tensor_facts(metadata))

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Record the outputs of a runner."""
        facts = self._run_facts(runner)
        tensors = {tensor.name: tensor for tensor in facts.get("outputs", ())}
        facts["outputs"] = [
            *{
                **tensors,
                **{tensor_fact.name: tensor_fact for tensor_fact in _tensor_facts(metadata)},
            }.values()
        ]

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """Record the inference times of a runner."""
        if len(runtimes):
            middle = np.sort(runtimes)[(len(runtimes) - 1) // 2 : len(runtimes) // 2 + 1]
            self._run_facts(runner)["times"] = Times(
                count=len(runtimes),
                first=runtimes[0],
                mean=float(np.mean(runtimes)),
                min=min(runtimes),
                median=float(middle.mean()),
                max=max(runtimes),
            )

    def loading_included(self, runner: str) -> None:
        """Record that the times include loading."""
        party = self._run_facts(runner)
        if party.get("times") is not None:
            party["times"] = evolve(party["times"], includes_loading=True)

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        """Record the mean times on the device."""
        mean = {
            part: float(np.mean([getattr(time, part) for time in times]))
            for part in ("to_device", "compute", "to_host", "total")
        }
        self._run_facts(runner)
        self.report_finding("device_times", {"runner": self._run_names()[runner, ""], "mean": mean})

    def runner_failed(self, runner: str, reason: str) -> None:
        """Record the error of a runner."""
        self._run_facts(runner)["error"] = reason

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Record that two runs are compared."""

    def iteration_compared(self, pair: PairResult) -> None:
        """Record the comparison of two runners in one iteration."""
        self._new_table.add(pair)
        if self.detail is not None:
            key = (pair.label, pair.positions)
            self._details_of(pair, self._details.setdefault(key, {}), self.detail)

    def _details_of(
        self,
        pair: PairResult,
        known_values: dict[str, tuple[float, Mapping[str, Any]]],
        look: Detail,
    ) -> None:
        """Record details of outputs that failed worse than before."""
        from polygraphy.domain.compare.result import CompareResult

        for name, answer in pair.results.items():
            if answer or not isinstance(answer, CompareResult):
                continue
            excess = math.inf if answer.excess is None else answer.excess
            if name in known_values:
                is_wanted = excess > known_values[name][0]
            else:
                is_wanted = len(known_values) < _FIRST or excess > max(
                    value for value, _ in known_values.values()
                )
            details = look(answer) if is_wanted else None
            if details is not None:
                known_values[name] = excess, details

    def samples_compared(self, compared: SamplesCompared) -> None:
        """Record the table of samples."""
        self.report_finding("samples", as_json_value(compared))

    def steps_compared(self, compared: StepsCompared) -> None:
        """Record the table of steps."""
        self.report_finding("steps", as_json_value(compared))

    def nodes_profiled(self, table: ProfileTable, order: str, rows: int) -> None:
        """Record the table of nodes with their times."""
        self.report_finding("profile", {**as_json_value(table), "sort": order, "shown": rows})

    def comparison_finished(self, result: AccuracyResult) -> None:
        """Record the result of a comparison."""
        tables = self._new_table.tables(result)
        if len(tables) != len(result):
            # The tables are incomplete if results were loaded from a file.
            tables = self._new_table.of(result, measures=self._new_table.measures)
        from polygraphy.domain.accuracy.output_rows import pairs_with_rows

        for judged_pair in pairs_with_rows(result, tables):
            for run in judged_pair.runs:
                self._run_facts(*run)
            self._compared.append(judged_pair)

    def _rows_with_details(self, judged_pair: JudgedPair) -> list[OutputRow]:
        """Return the rows of a comparison, with details where they were recorded."""
        details = self._details.get((judged_pair.function, judged_pair.table.positions), {})
        return [
            evolve(row, detail=details[row.name][1]) if row.name in details else row
            for row in judged_pair.table.rows()
        ]

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Record that outputs are checked."""

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """Record a validated output; over iterations the worst is kept."""
        self._run_facts(runner)
        facts = as_json_value(validity)
        known_values = self._validation.setdefault((runner, validity.name), facts)
        if facts["nan"] + facts["inf"] > known_values["nan"] + known_values["inf"]:
            known_values.update(facts)

    def validation_finished(self, passed: bool) -> None:
        """Record that all outputs of an iteration were checked."""


def _tensor_facts(metadata: TensorMetadata) -> list[TensorFacts]:
    """Return the name, data type and shape of each tensor of metadata."""
    return [
        TensorFacts(
            name,
            None if meta.dtype is None else str(as_json_value(meta)["dtype"]),
            None if meta.shape is None else list(as_json_value(meta)["shape"]),
        )
        for name, meta in metadata.items()
    ]


def as_json_value(value: Any) -> Any:
    """Return a value as JSON types: objects become dictionaries of their fields;
    NaN and infinities become ``nan``, ``inf`` and ``-inf``."""
    if value is None or isinstance(value, (bool, int, str)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, MetadataTuple):
        dtype, shape = value
        return {
            "dtype": as_json_value(None if dtype is None else str(dtype)),
            "shape": as_json_value(shape),
        }
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        names = [field.name for field in fields if field.metadata.get(IN_DOCUMENT, True)]
        return {name: as_json_value(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): as_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json_value(item) for item in value]
    if isinstance(value, Enum):
        return as_json_value(value.value)
    tolist: Callable[[], Any] | None = getattr(value, "tolist", None)
    return str(value) if tolist is None else as_json_value(tolist())
