"""A slow machine gets the same diagnosis; changed models that do not end leave it open."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.processes.warm_process import stop_error
from polygraphy.application.diagnose import subprocesses
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.models import make, value

pytestmark = pytest.mark.usefixtures("forks")


def model_of(prefix: str, activation: list[onnx.NodeProto]) -> onnx.ModelProto:
    """Return two layers with an activation between them."""
    rng, node = np.random.default_rng(5), onnx.helper.make_node
    weights = {name: rng.standard_normal((6, 6)).astype(np.float32) for name in "ac"}
    last = f"{prefix}/y"
    nodes = [
        node("MatMul", ["x", "a"], ["h"], f"{prefix}/first"),
        *activation,
        node("MatMul", ["g", "c"], [last], f"{prefix}/last"),
    ]
    weights |= {"slope": np.float32([0.1])} if len(activation) > 1 else {}
    return make(prefix, nodes, [value("x", [4, 6])], [value(last, [4, 6])], weights=weights)


def diagnose_slope() -> Kept:
    """Return the diagnosis of an activation with another slope than in the reference, which spells
    it with two nodes."""
    kept, feed = Kept(), np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    node = onnx.helper.make_node
    model = model_of("m", [node("LeakyRelu", ["h"], ["g"], "leaky", alpha=0.3)])
    spelled = [node("Mul", ["h", "slope"], ["s"], "mul"), node("Max", ["h", "s"], ["g"], "max")]
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [OnnxrtParty()], [{"x": feed}], model_of("r", spelled))
    return kept


def test_a_machine_on_which_each_try_takes_longer_than_the_least_time_gives_the_same_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocesses, "_LEAST_SECONDS", 0.0)
    slow = diagnose_slope()
    assert slow.verdict == "fault"
    assert [(c["nodes"], c["cause"]) for c in slow.culprits] == [(["leaky"], "attribute")]


def test_if_no_try_ends_the_diagnosis_is_inconclusive_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hang(timeout: float, *_: Any) -> Any:
        raise stop_error("onnxrt", timeout)

    monkeypatch.setattr(subprocesses, "_run_within", hang)
    monkeypatch.setattr(subprocesses, "run_in_subprocess", lambda *_, **__: None)
    kept = diagnose_slope()
    assert kept.verdict == "inconclusive"
    assert "did not end after more than 20 times the time of the unchanged model" in kept.summary
