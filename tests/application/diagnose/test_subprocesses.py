"""Guesses at which a backend crashes are none, and do no harm to others."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.processes import forked, warm_process
from polygraphy.adapters.processes.warm_process import stop_error
from polygraphy.application.diagnose import subprocesses
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.subprocesses import (
    TrialLimits,
    WarmParty,
    close,
    filter_in_subprocess,
    isolate,
)
from polygraphy.binding import resolve
from polygraphy.domain.errors import BackendError
from polygraphy.ports.diagnosing import DiagnosisReports, LoweringParty, SuspectedParty
from polygraphy.ports.editing import open_model
from tests.support.diagnosis.diagnosis_cases import network
from tests.support.diagnosis.outputs_alone_cases import diagnose_outputs
from tests.support.diagnosis.tf32_party import Tf32Party
from tests.support.models import make, value
from tests.support.parties import DeviceParty

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork"),
    pytest.mark.usefixtures("forks"),
]


@pytest.mark.slow
def test_the_right_ones_are_found_among_some_that_crash(capfd: pytest.CaptureFixture[str]) -> None:
    def is_right(guess: int) -> bool:
        if guess % 10 == 3:
            os.write(2, b"Assertion failed")
            os.kill(os.getpid(), signal.SIGKILL)
        return guess in (2, 3, 4, 37)

    assert list(filter_in_subprocess(iter(range(40)), is_right, "onnxrt")) == [2, 4, 37]
    assert "Assertion" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("usual", "slow_tests", "right"),
    [(0.1, 9, []), (10.0, 9, [2]), (0.1, 3, [2])],
    ids=["hangs", "slow machine", "machine that stood still"],
)
def test_a_guess_hangs_only_if_the_unchanged_model_is_much_faster(
    usual: float, slow_tests: int, right: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tested, stopped = [0.0], [0], []

    def is_right(guess: int) -> bool:
        if guess == 2:
            tested[0] += 1
            clock[0] += 100 if tested[0] <= slow_tests else 0
        return guess == 2

    def run(function: Any, *_: Any, timeout: float | None = None, **__: Any) -> Any:
        start, result = clock[0], function()
        if timeout is not None and clock[0] - start > timeout:
            raise stop_error("onnxrt", timeout)
        return result

    def run_usual() -> None:
        clock[0] += usual

    monkeypatch.setattr(subprocesses, "run_in_subprocess", run)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    limits = TrialLimits(run_usual, on_stop=lambda: stopped.append(2))
    assert list(filter_in_subprocess(iter(range(4)), is_right, "onnxrt", limits)) == right
    assert stopped == [number for number in (2,) if number not in right]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize(("budget", "right"), [(None, [1, 6000]), (8 << 20, [1])])
def test_a_guess_may_allocate_what_the_budget_allows(budget: int | None, right: list[int]) -> None:
    network_case = Case(open_model(network()), "m.onnx", [], resolve(DiagnosisReports), budget)
    limits = network_case.trial_limits(1 << 30)

    def is_right(megabytes: int) -> bool:
        return np.empty(megabytes << 20, np.uint8).size > 0

    assert list(filter_in_subprocess(iter([1, 6000, 90000]), is_right, "onnxrt", limits)) == right


def test_a_guess_may_allocate_what_the_unchanged_model_needs() -> None:
    """On a machine on which a backend takes more than expected, each guess failed."""

    def allocate(megabytes: int) -> bool:
        return np.empty(megabytes << 20, np.uint8).size > 0

    limits = TrialLimits(partial(allocate, 300), memory=200 << 20)
    assert list(filter_in_subprocess(iter([250, 9000, 1]), allocate, "onnxrt", limits)) == [250, 1]
    assert limits.fitting == {"onnxrt": 400 << 20}


def test_guesses_are_made_as_they_are_needed() -> None:
    made = []

    def guesses() -> Iterator[int]:
        for guess in range(1000):
            made.append(guess)
            yield guess

    assert next(filter_in_subprocess(guesses(), lambda guess: guess == 5, "onnxrt")) == 5
    assert len(made) < 100


def model(op: str) -> onnx.ModelProto:
    nodes = [onnx.helper.make_node(op, ["x"], ["y"], "node")]
    return make(op, nodes, [value("x", [3])], [value("y", [3])])


X = {"x": np.array([0.5, 1.0, 2.0], np.float32)}


@pytest.mark.slow
def test_a_device_is_used_in_a_new_process_and_its_crash_is_an_error() -> None:
    [party] = isolate([DeviceParty()])
    assert isinstance(party, WarmParty)
    exp, neg = party.load(model("Exp"), plain=True), party.load(model("Neg"))
    assert np.array_equal(neg(X)["y"], -X["x"])
    with pytest.raises(BackendError, match="onnxrt crashed") as caught:
        party.load(model("Sinh"))
    assert caught.value.backend == "onnxrt"
    assert np.allclose(exp(X)["y"], np.exp(X["x"]))  # It is loaded again.
    right = filter_in_subprocess(
        iter(["Abs", "Sinh", "Neg"]), lambda op: _is_unchanged(party, op), party
    )
    assert list(right) == ["Abs"]
    assert party.runtime_graph(model("Neg")) == OnnxrtParty().runtime_graph(model("Neg"))
    close([party])


def _is_unchanged(party: Any, op: str) -> bool:
    return np.array_equal(party.load(model(op))(X)["y"], X["x"])


def test_what_forks_do_not_harm_is_forked_until_a_device_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        subprocesses, "is_fork_safe", lambda: True
    )  # Whatever other tests computed in.
    assert not isinstance(isolate([OnnxrtParty()])[0], WarmParty)
    assert isinstance(isolate([OnnxrtParty()], uses_device=True)[0], WarmParty)


@pytest.mark.slow
def test_a_party_in_another_process_has_the_attributes_of_its_ports() -> None:
    party = Tf32Party()
    [warm] = isolate([party], uses_device=True)
    for port in (SuspectedParty, LoweringParty):
        for name in vars(port)["__annotations__"]:
            assert getattr(warm, name) == getattr(party, name), name
    exact = warm.with_exact_products()  # type: ignore[attr-defined]
    assert isinstance(exact, WarmParty)
    assert np.array_equal(exact.load(model("Neg"))(X)["y"], -X["x"])
    close([warm])


@pytest.mark.slow
def test_all_guesses_about_a_device_take_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is forked of a process that is to use a device, though none is here."""
    starts: list[Any] = []
    start = warm_process.start_command

    def counted(*command: Any, **options: Any) -> Any:
        starts.append(command)
        return start(*command, **options)

    monkeypatch.setattr(warm_process, "start_command", counted)
    monkeypatch.setattr(forked, "_fork", lambda: pytest.fail("forked"))
    right, wrong = network(()), network(())
    [weight] = [each for each in wrong.graph.initializer if each.name == "w2"]
    weight.CopyFrom(numpy_helper.from_array(1.5 * numpy_helper.to_array(weight), "w2"))
    kept = diagnose_outputs(right, wrong, tmp_path, party=DeviceParty())
    assert [one["nodes"] for one in kept.culprits] == [["mm2"]]
    assert len(starts) == 1
