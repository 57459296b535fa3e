"""Plugins are chosen by what they cost, among those that leave the outputs as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import FakeRunner, RecordingConsole
from polygraphy.application.plugin_tuning import autotune_plugins
from polygraphy.binding import bind
from polygraphy.domain.errors import BackendError, UnknownNameError
from polygraphy.domain.model.plugins import PluginInstance, PluginMatch
from polygraphy.domain.report.document import Recorder
from polygraphy.domain.results.results import DeviceTimes
from polygraphy.ports.reporting import Console, Findings
from tests.application.runs import INPUTS

A0, A1, B0 = (PluginInstance((f"in{index}",), (f"out{index}",)) for index in range(3))
MATCHES = [PluginMatch("a", "A", (A0, A1)), PluginMatch("b", "B", (B0,))]
DATA = [{"x": np.ones(1, np.float32)}]

Make = Callable[[Sequence[PluginMatch]], FakeRunner]


@pytest.fixture(autouse=True)
def console() -> Any:
    with bind(Console, RecordingConsole()):
        yield


class _Timed(FakeRunner):
    """A runner whose device computes for so long, in so much memory."""

    compute = 0.0
    memory = 0

    def last_device_times(self) -> DeviceTimes:
        return DeviceTimes(99.0, self.compute, 99.0)

    def device_memory(self) -> int:
        return self.memory


def _maker(
    latencies: Mapping[str, float],
    errors: Mapping[str, float] | None = None,
    broken: Sequence[str] = (),
    asked: list[list[str]] | None = None,
) -> Make:
    """Return what makes runners: each part makes things slower, or the output another one."""

    def make(chosen: Sequence[PluginMatch]) -> FakeRunner:
        parts = [instance.outputs[0] for match in chosen for instance in match.instances]
        if asked is not None:
            asked.append(parts)
        off = sum((errors or {}).get(part, 0.0) for part in parts)
        runner = _Timed(
            lambda feed: {"y": feed["x"] + np.float32(off)},
            INPUTS,
            fail_at=-1 if set(parts) & set(broken) else None,
            error=BackendError("It cannot be built."),
        )
        runner.compute = 1.0 + sum(latencies.get(part, 0.0) for part in parts)
        return runner

    return make


def _chosen(found: Sequence[PluginMatch]) -> list[tuple[str, list[str]]]:
    return [(match.name, [one.outputs[0] for one in match.instances]) for match in found]


def test_each_part_is_judged_by_itself() -> None:
    make = _maker({"out0": -0.2, "out1": 0.1, "out2": -0.1})
    assert _chosen(autotune_plugins(make, MATCHES, DATA)) == [("a", ["out0"]), ("b", ["out2"])]
    make = _maker({"out0": -0.2, "out1": -0.1})
    assert _chosen(autotune_plugins(make, MATCHES, DATA)) == [("a", ["out0", "out1"])]


def test_a_plugin_that_computes_something_else_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make = _maker({"out0": -0.5, "out2": -0.1}, errors={"out0": 0.1, "out2": 1e-4})
    assert _chosen(autotune_plugins(make, MATCHES, DATA)) == [("b", ["out2"])]
    assert "a: output 'y' differs; skipped" in capsys.readouterr().out


def test_outputs_that_are_gone_are_something_else() -> None:
    def make(chosen: Sequence[PluginMatch]) -> FakeRunner:
        runner = _Timed({} if chosen else {"y": np.ones(1, np.float32)}, INPUTS)
        runner.compute = 1.0 - 0.5 * len(chosen)
        return runner

    assert autotune_plugins(make, MATCHES, DATA) == []


def test_a_plugin_that_cannot_be_built_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    make = _maker({"out0": -0.5, "out1": -0.1, "out2": -0.1}, broken=["out0"])
    found = autotune_plugins(make, MATCHES, DATA)
    assert _chosen(found) == [("a", ["out1"]), ("b", ["out2"])]
    assert "does not run and is skipped. It cannot be built." in capsys.readouterr().out


def test_a_model_that_does_not_run_without_plugins_is_an_error() -> None:
    def make(chosen: Sequence[PluginMatch]) -> FakeRunner:
        return FakeRunner({}, INPUTS, fail_at=-1, error=BackendError("It cannot be built."))

    with pytest.raises(BackendError, match="cannot be built"):
        autotune_plugins(make, MATCHES, DATA)
    with pytest.raises(UnknownNameError, match="'best'"):
        autotune_plugins(make, MATCHES, DATA, mode="best")


def test_every_combination_is_tried_up_to_a_limit() -> None:
    asked: list[list[str]] = []
    make = _maker({"out1": -0.05}, asked=asked)
    found = autotune_plugins(make, MATCHES, DATA, mode="exhaustive")
    assert _chosen(found) == [("a", ["out1"])]
    assert len(asked) == 8  # Seven combinations, and none.
    asked.clear()
    autotune_plugins(make, MATCHES, DATA, mode="exhaustive", max_combinations=3)
    assert len(asked) == 4
    asked.clear()
    autotune_plugins(make, MATCHES, DATA, mode="exhaustive", threshold=0.01)
    assert asked == [[], ["out0"], ["out1"]]


def test_every_run_has_the_same_data_and_a_criterion_of_its_own() -> None:
    runners: list[FakeRunner] = []

    def make(chosen: Sequence[PluginMatch]) -> FakeRunner:
        runners.append(FakeRunner(lambda feed: {"y": feed["x"]}, INPUTS))
        return runners[-1]

    def never(first: Any, second: Any) -> dict[str, bool]:
        return {"y": False}

    assert autotune_plugins(make, MATCHES, compare_func=never) == []
    assert len(runners) == 4
    for runner in runners:
        for feed in runner.feeds:
            np.testing.assert_array_equal(feed["x"], runners[0].feeds[0]["x"])


def test_what_came_of_it_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    findings = Recorder()
    with bind(Findings, findings):
        autotune_plugins(_maker({"out0": -0.5}), MATCHES, DATA)
    [found] = findings.results
    assert (found["kind"], found["tried"], found["builds"]) == ("plugin_tuning", 3, 4)
    assert (found["baseline"]["latency"], found["best"]["latency"]) == (1.0, 0.5)
    assert [part["name"] for part in found["chosen"]] == ["a"]
    lines = capsys.readouterr().out
    assert "Baseline performance: Latency: 1000 ms, Throughput: 1 fps, Memory: 0 MB" in lines
    assert "1. a (A): inputs=['in0'], outputs=['out0'], attributes={}" in lines
