"""The same files get the same word, whichever command is asked whether it is rounding."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.application.compare.verification import verify
from polygraphy.backend.onnx import OnnxReferenceRunner
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, SimpleCompareFunc
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.culprit import AGREE
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.rounding import allowance, deviation, rounding_between, rounding_between_runs
from polygraphy.ports.diagnosing import DiagnosisReports
from tests.support.diagnosis.concluding_reports import Concluding
from tests.support.models import make, value

AUTO = SimpleCompareFunc(rtol="auto", atol="auto")
FEED = {"x": np.random.RandomState(1).randn(4, 16).astype(np.float32)}


def network(seed: int, depth: int, last: str, scale: float) -> onnx.ModelProto:
    """Products of matrices with something between, and outputs of a kind."""
    rng = np.random.RandomState(seed)
    nodes, weights, read = [], {}, "x"
    for number in range(depth):
        weights[f"w{number}"] = rng.randn(16, 16).astype(np.float32) / 4
        nodes.append(helper.make_node("MatMul", [read, f"w{number}"], [f"m{number}"], f"m{number}"))
        nodes.append(helper.make_node("Tanh", [f"m{number}"], [f"t{number}"], f"t{number}"))
        read = f"t{number}"
    weights["scale"] = np.array([scale], np.float32)
    nodes.append(helper.make_node("Mul", [read, "scale"], ["large"], "large"))
    nodes.append(helper.make_node(last, ["large"], ["y"], "last"))
    return make("drawn", nodes, [value("x", [4, 16])], [value("y", [4, 16])], weights=weights)


def plain(model: onnx.ModelProto) -> Any:
    return OnnxParty().load(model)(FEED)["y"]


def with_noise(model: onnx.ModelProto, noise: Any) -> onnx.ModelProto:
    """Add something to the output."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.node[-1].output[0] = "exact"
    made.graph.node.append(helper.make_node("Add", ["exact", "noise"], ["y"], "noisy"))
    made.graph.initializer.append(onnx.numpy_helper.from_array(noise, "noise"))
    return made


class Noisy(OnnxParty):
    """Computes the node that makes ``y`` with noise."""

    name = "noisy"

    def __init__(self, noise: Any) -> None:
        self._noise = noise

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = super().load(model, plain=plain, without=without)

        def noisy(feed: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: each + self._noise if "y" in name else each  # Also where it is cut out.
                for name, each in compute(feed).items()
            }

        return noisy


def is_agreed(model: onnx.ModelProto, noise: Any) -> bool:
    """Return whether a diagnosis of two parties says that it is rounding."""
    reports: Any = Concluding()
    with bind(DiagnosisReports, reports):
        try:
            diagnose(model, [OnnxParty(), Noisy(noise)], data_loader=[FEED])
        except InconclusiveError:
            return False
    return bool(reports.result.verdict == AGREE)


def allowed(model: onnx.ModelProto, noise: Any, exact: Any, is_bounded: bool) -> list[float]:
    """Return how many times what one operator explains is explained along each of the models."""
    rounding = rounding_between((exact, exact), is_bounded=is_bounded)
    assert rounding is not None
    found = []
    for each in (model, with_noise(model, noise)):
        made = OnnxNarrowModels().perturbed_function(each)(FEED)
        found.append(allowance(rounding_between_runs(made, "y", rounding), rounding.rtol))
    return found


def passes(model: onnx.ModelProto, noise: Any) -> bool:
    """Return what ``run --rtol auto --atol auto`` says."""
    runners = [
        OnnxReferenceRunner(with_noise(model, noise), name="a"),
        OnnxReferenceRunner(model, name="b"),
    ]
    results = Comparator.run(runners, data_loader=[FEED], streaming=True)
    return bool(Comparator.compare_accuracy(results, compare_func=AUTO))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 99),
    depth=st.integers(1, 6),
    last=st.sampled_from(["Identity", "Softmax", "Sigmoid", "Exp"]),
    scale=st.sampled_from([1e-8, 1.0, 8.0]),
    level=st.sampled_from([0.02, 0.3, 0.7, 1.5, 4.0, 30.0, 1e3, 1e5]),
)
@pytest.mark.slow
def test_every_command_says_the_same(
    seed: int, depth: int, last: str, scale: float, level: float
) -> None:
    model = network(seed, depth, last, scale)
    exact = plain(model)
    is_bounded = last in ("Softmax", "Sigmoid")
    size = 1.0 if is_bounded else float(np.sqrt(np.mean(np.square(exact, dtype=np.float64))))
    noise = np.float32(level * 16 * 2.0**-23 * size) * np.sign(
        np.random.RandomState(seed).randn(4, 16)
    ).astype(np.float32)
    excess = deviation(exact + noise, exact, is_bounded=is_bounded).excess
    limits = [1.0, *allowed(model, noise, exact, is_bounded)]
    assume(not any(0.9 < excess / limit < 1.1 for limit in limits))
    assume(not limits[1] < excess < limits[2] and not limits[2] < excess < limits[1])
    words = {
        "run": passes(model, noise),
        "verify": bool(verify(model, with_noise(model, noise), [FEED], AUTO)),
        "diagnose": is_agreed(model, noise),
    }
    assert len(set(words.values())) == 1, (words, excess)
    if excess < 1:
        assert words["run"]
    if level >= 1e5:
        assert not words["run"]
