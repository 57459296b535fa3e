"""What every console promises, asked of each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polygraphy.adapters.console.log import LogConsole
from polygraphy.adapters.fake import RecordingConsole
from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
from polygraphy.domain.compare import (
    CosineSimilarityCompareFunc,
    IndicesCompareFunc,
    L2CompareFunc,
    L2Result,
    L2Threshold,
    NormalizedL2CompareFunc,
    OutputCompareResult,
    PsnrCompareFunc,
    SimpleCompareFunc,
    SnrCompareFunc,
    SqnrCompareFunc,
)
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.report.document import Recorder
from polygraphy.domain.results.results import DeviceTimes, IterationResult, validate_outputs
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.reporting import Console
from tests.support.cases import for_each

CONSOLES = {"log": LogConsole, "recording": RecordingConsole, "recorder": Recorder}
METHODS = {
    name: method
    for name, method in inspect.getmembers(Console, inspect.isfunction)
    if not name.startswith("_")
}
SILENT = G_LOGGER.CRITICAL + 1


@pytest.fixture(params=CONSOLES)
def console(request: pytest.FixtureRequest) -> Console:
    made: Console = CONSOLES[request.param]()
    return made


@pytest.fixture(autouse=True)
def _untouched_logger() -> Iterator[None]:
    with G_LOGGER.preserve():
        G_LOGGER.module_severity = G_LOGGER.ULTRA_VERBOSE
        yield


# The form of the port.


def test_the_port_is_not_empty() -> None:
    assert len(METHODS) >= 12


@pytest.mark.parametrize("adapter", CONSOLES.values(), ids=CONSOLES)
@pytest.mark.parametrize("name", METHODS)
def test_takes_the_arguments_of_the_port(adapter: type, name: str) -> None:
    wanted, found = (inspect.signature(owner) for owner in (METHODS[name], getattr(adapter, name)))
    assert list(found.parameters) == list(wanted.parameters)
    for parameter in wanted.parameters.values():
        assert found.parameters[parameter.name].kind == parameter.kind
        assert found.parameters[parameter.name].default == parameter.default


@pytest.mark.parametrize("adapter", CONSOLES.values(), ids=CONSOLES)
def test_no_event_is_invented(adapter: type) -> None:
    own: set[str] = set()
    if adapter is RecordingConsole:
        own = {"names", "arguments_of"}
    elif adapter is Recorder:
        own = {"parties", "validation", "comparisons", "look_closer", "report_finding", "conclude"}
    public = {name for name in vars(adapter) if not name.startswith("_")}
    assert public - own == set(METHODS)


# Real events.

ARRAYS: dict[str, tuple[Any, Any]] = {
    "equal": (np.arange(6.0), np.arange(6.0)),
    "far": (np.arange(6.0), np.arange(6.0) + 1),
    "large": (np.arange(1000.0), np.arange(1000.0) + 1),
    "nan": (np.array([np.nan, 1]), np.array([1.0, 1])),
    "all nan": (np.full(3, np.nan), np.full(3, np.nan)),
    "inf": (np.array([np.inf, -np.inf]), np.array([np.inf, 0.0])),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3))),
    "0-d": (np.array(1.0), np.array(2.0)),
    "zero reference": (np.array([0.0, 2.0]), np.array([0.0, 0.0])),
    "bool": (np.array([True, False]), np.array([True, True])),
    "int8": (np.array([-128], np.int8), np.array([127], np.int8)),
    "uint64": (np.array([2**64 - 1], np.uint64), np.array([0], np.uint64)),
    "bfloat16": (np.ones(3, ml_dtypes.bfloat16), np.zeros(3, ml_dtypes.bfloat16)),
    "int4": (np.ones(3, ml_dtypes.int4), np.zeros(3, ml_dtypes.int4)),
    "complex": (np.array([1j]), np.array([1.0 + 0j])),
    "mixed": (np.array([1, 2]), np.array([1.5, 2], dtype=np.float16)),
    "strings": (np.array(["a", "b"]), np.array(["a", "c"])),
    "equal strings": (np.array(["a"]), np.array(["a"])),
    "objects": (np.array(["a", "b"], object), np.array(["a", "c"], object)),
    "shape": (np.zeros(3), np.zeros(4)),
}


def compared(
    outputs: Mapping[str, tuple[Any, Any]], iteration: int = 0, **settings: Any
) -> PairResult:
    """Compare one iteration of two runs: the pairs of arrays by name; None where one is missing."""
    sides = tuple(
        IterationResult(
            {name: pair[side] for name, pair in outputs.items() if pair[side] is not None},
            runner_name=runner,
        )
        for side, runner in enumerate(("first", "second"))
    )
    results = SimpleCompareFunc(**settings)(*sides)
    return PairResult(("first", "second"), iteration, "simple", results, (sides[0], sides[1]))


def finished(*pairs: PairResult) -> AccuracyResult:
    result = AccuracyResult([(("first", "second"), [pair.results for pair in pairs])])
    result.label = "simple"
    return result


STATISTICS = ["elemwise", "max", "mean", "median", "quantile", ["max", "mean"]]


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
@pytest.mark.parametrize("arrays", ARRAYS)
def test_any_verdict_can_be_reported(console: Console, arrays: str, statistic: Any) -> None:
    for iteration in (0, 1):
        pair = compared({"y": ARRAYS[arrays]}, iteration, check_error_stat=statistic)
        console.comparison_starting("first", "second")
        console.iteration_compared(pair)
        console.comparison_finished(finished(pair))


@pytest.mark.parametrize(
    "outputs",
    [
        {"y": (np.zeros(2), None), "z": (None, np.zeros(2))},
        {"a": (np.zeros(2), None), "b": (np.zeros(2), np.zeros(2))},
        {"y": (None, np.zeros(2))},
        {},
    ],
    ids=["renamed", "missing", "only second", "none"],
)
def test_outputs_without_partner_can_be_reported(console: Console, outputs: Any) -> None:
    pair = compared(outputs)
    console.iteration_compared(pair)
    console.comparison_finished(finished(pair))


@pytest.mark.parametrize("answer", [True, False, np.True_, 0, "reason", None])
def test_plain_answers_can_be_reported(console: Console, answer: Any) -> None:
    empty = IterationResult()
    pair = PairResult(("first", "second"), 0, "mine", {"y": answer}, (empty, empty))
    console.iteration_compared(pair)
    console.comparison_finished(finished(pair))


FUNCTIONS = [
    L2CompareFunc,
    NormalizedL2CompareFunc,
    CosineSimilarityCompareFunc,
    PsnrCompareFunc,
    SnrCompareFunc,
    SqnrCompareFunc,
    IndicesCompareFunc,
]


@for_each("arrays, function", [(a, f) for a in ARRAYS for f in FUNCTIONS])
def test_any_function_can_be_reported(console: Console, arrays: str, function: Any) -> None:
    one, other = (IterationResult({"y": array}) for array in ARRAYS[arrays])
    for is_judged in (True, False):
        results = function()(one, other)
        pair = PairResult(("first", "second"), 0, "mine", results, (one, other), is_judged)
        console.iteration_compared(pair)
        reported = finished(pair)
        if not is_judged and function is not IndicesCompareFunc:
            reported.aggregation = "average"
        console.comparison_finished(reported)


def test_metrics_without_thresholds_can_be_reported(console: Console) -> None:
    empty = IterationResult()
    for result in (L2Result(), L2Result(1.0), L2Result(None, L2Threshold(1.0))):
        pair = PairResult(("first", "second"), 0, "l2", {"y": result}, (empty, empty))
        console.iteration_compared(pair)
        console.comparison_finished(finished(pair))


def test_settled_results_can_be_summed_up(console: Console) -> None:
    settled = compared({"y": ARRAYS["far"]})
    for result in settled.results.values():
        result.settle()
    console.comparison_finished(finished(settled))


LOADED = {
    "passed": OutputCompareResult(0.0, 0.0, thresholds=Tolerance(), passed=True),
    "failed": OutputCompareResult(1.0, 1.0, thresholds=Tolerance(), passed=False),
    "statistic": OutputCompareResult(
        mean_absdiff=1.0, mean_reldiff=1.0, thresholds=Tolerance("mean")
    ),
}


@pytest.mark.parametrize("result", LOADED.values(), ids=LOADED)
def test_loaded_results_can_be_summed_up(console: Console, result: OutputCompareResult) -> None:
    console.comparison_finished(finished(_pair_of(result)))


def test_results_that_no_threshold_came_with_can_be_summed_up(
    console: Console,
) -> None:
    result = OutputCompareResult(max_absdiff=1.0, max_reldiff=1.0, passed=False)
    console.comparison_finished(finished(_pair_of(result)))


def _pair_of(result: OutputCompareResult) -> PairResult:
    empty = IterationResult()
    return PairResult(("first", "second"), 0, "simple", {"y": result}, (empty, empty))


def test_a_comparison_without_iterations_can_be_summed_up(console: Console) -> None:
    console.comparison_finished(AccuracyResult())
    console.comparison_finished(AccuracyResult([(("first", "second"), [])]))


@pytest.mark.parametrize(
    "metadata",
    [
        TensorMetadata(),
        TensorMetadata().add("x", np.float32, (1, 2)).add("y", None, None),
        TensorMetadata().add("x", np.int8, ("n", None, -1), min_shape=(1, 1, 1), docstring="{}%s"),
    ],
    ids=["empty", "usual", "dynamic"],
)
def test_tensors_can_be_described(console: Console, metadata: TensorMetadata) -> None:
    console.inputs_described("runner", metadata)
    console.outputs_described("runner", metadata)


@pytest.mark.parametrize("runtimes", [[], [0.0], [0.25, 1e-9, 3600.0]], ids=len)
def test_the_life_of_a_run_can_be_reported(console: Console, runtimes: list[float]) -> None:
    console.note("text with {braces}, %s and a line\nbreak \N{SNOWMAN}")
    console.runner_activating("runner " * 20)
    console.iteration_starting(0)
    console.runner_completed("runner", runtimes)
    console.loading_included("runner")
    console.device_times_measured("runner", [DeviceTimes(s, 2 * s, 0.0) for s in (runtimes or [1])])


@pytest.mark.parametrize("array", [pair[0] for pair in ARRAYS.values()], ids=ARRAYS)
def test_a_validation_can_be_reported(console: Console, array: Any) -> None:
    console.validation_starting(["first"])
    for validity in validate_outputs(IterationResult({"y": array})):
        console.output_validated("first", validity)
    console.validation_finished(True)
    console.validation_finished(False)


def test_the_recording_console_remembers_everything_in_order() -> None:
    console = RecordingConsole()
    arguments: dict[str, tuple[Any, ...]] = {}
    for name, method in METHODS.items():
        count = len(inspect.signature(method).parameters) - 1
        given = tuple([f"{name}{index}"] for index in range(count))
        getattr(console, name)(*given)
        arguments[name] = given
    assert console.names() == list(METHODS)
    for name in METHODS:
        assert console.arguments_of(name) == [arguments[name]]


def test_the_recording_console_may_leave_arguments_out() -> None:
    console = RecordingConsole(keep_arguments=False)
    console.note("text")
    assert console.events == [("note", ())]


# What is computed for what is shown.


class Spied:
    """Passes everything on, and remembers the names of what was asked for."""

    def __init__(self, target: Any, asked: list[str]) -> None:
        self._target = target
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        self._asked.append(name)
        return getattr(self._target, name)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._asked.append("__array__")
        return np.asarray(self._target, *args, **kwargs)


@pytest.fixture(params=["large", "far", "equal"])
def spied(request: pytest.FixtureRequest) -> tuple[PairResult, list[str]]:
    """Give a failing and a passing pair, and the list of what is asked of its arrays."""
    pair = compared({"y": ARRAYS[request.param]})
    result = pair.results["y"]
    asked: list[str] = []
    _ = result.passed
    result._difference = Spied(result.difference, asked)
    result.arrays = tuple(Spied(array, asked) for array in result.arrays)
    return pair, asked


def test_nothing_is_computed_for_a_silent_iteration(
    spied: tuple[PairResult, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    pair, asked = spied
    G_LOGGER.module_severity = SILENT
    LogConsole().iteration_compared(pair)
    assert capsys.readouterr() == ("", "")
    assert asked == []


def test_nothing_is_computed_for_a_silent_summary(
    spied: tuple[PairResult, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    pair, asked = spied
    G_LOGGER.module_severity = SILENT
    LogConsole().comparison_finished(finished(pair))
    assert capsys.readouterr() == ("", "")
    assert asked == []


def test_only_verdicts_are_computed_when_only_verdicts_are_shown(
    spied: tuple[PairResult, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    pair, asked = spied
    G_LOGGER.module_severity = G_LOGGER.ERROR
    LogConsole().iteration_compared(pair)
    assert ("FAILED" in capsys.readouterr().out) == bool(pair.failed_outputs)
    assert asked == []


def test_what_is_shown_is_computed(spied: tuple[PairResult, list[str]]) -> None:
    pair, asked = spied
    pair.results["y"].arrays = tuple(array._target for array in pair.results["y"].arrays)
    G_LOGGER.module_severity = G_LOGGER.INFO
    LogConsole().iteration_compared(pair)
    assert "summaries" in asked
    is_drawn = (
        bool(pair.failed_outputs) and len(pair.outputs[0]["y"]) >= 20
    )  # Of fewer, all are seen.
    assert ("absolute_histogram" in asked) == is_drawn
