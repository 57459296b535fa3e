"""ctrl-C while ONNX Runtime works."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, parser

from polygraphy.adapters.onnxruntime import runner as module
from polygraphy.adapters.onnxruntime import session
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.onnxruntime.quantizer import measure_ranges
from polygraphy.adapters.onnxruntime.trial import OnnxrtTrial, evaluate_constants
from polygraphy.backend.onnxrt import OnnxrtRunner, session_from_onnx
from tests.support import models
from tests.support.signals import send_later


def causes(error: BaseException | None) -> list[str]:
    """Return what was being handled when an error was raised."""
    found = []
    while error is not None:
        found.append(f"{type(error).__name__}: {error}")
        error = error.__context__
    return found


@pytest.mark.skipif(
    not hasattr(onnxruntime.SessionOptions, "set_load_cancellation_flag"),
    reason="before version 1.23, loading cannot be cancelled",
)
def test_what_a_diagnosis_loads_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """ctrl-C ends the loading of its models as it does that of others."""
    made: list[Any] = []
    real = session.cancellable

    def cancellable(load: Callable[[], Any], cancel: Callable[[], None]) -> Any:
        made.append(cancel)
        return real(load, cancel)

    monkeypatch.setattr(session, "cancellable", cancellable)
    model = models.make(
        "one",
        [helper.make_node("Relu", ["x"], ["y"])],
        [models.value("x", [1])],
        [models.value("y", [1])],
    )
    OnnxrtParty().load(model, plain=True)
    assert OnnxrtParty().runtime_graph(model) is not None
    assert len(made) == 2


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 31),
    reason="before version 1.31, ONNX Runtime lets no other thread run while it loads a model",
)
def test_ctrl_c_ends_the_loading_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime looks now and then whether it is to stop, last in the middle of the loading: a
    signal at one of these moments comes before that, on a slow machine and on a quick one.
    """
    names = [f"r{i}" for i in range(12_000)]
    nodes = [helper.make_node("Relu", ["x"], [name]) for name in names]
    nodes.append(helper.make_node("Concat", names, ["y"], axis=0))
    values = [models.value("x", [1])], [models.value("y", [len(names)])]
    model = models.make("fan", nodes, *values).SerializeToString()
    native = onnxruntime.capi.onnxruntime_pybind11_state.InferenceSession
    initialize = native.initialize_session

    def is_ended_after(seconds: float) -> bool:
        def initializing(*args: Any) -> Any:
            send_later(seconds)
            made = initialize(*args)
            time.sleep(seconds + 1)  # A signal that comes too late ends this.
            return made

        monkeypatch.setattr(native, "initialize_session", initializing)
        with pytest.raises(KeyboardInterrupt) as caught:
            session_from_onnx(model)
        return any("ModelLoadCanceled" in text for text in causes(caught.value))

    assert any(map(is_ended_after, (0.1, 0.03, 0.2, 0.05, 0.01)))


_BODY = """<body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        d = Identity(c)
        w = Abs(v)
    }>
}"""
LONG = """<ir_version: 8, opset_import: ["": 17]>
m (float[2] x, int64 n) => (float[2] y) <bool go = {1}> {
    y = Loop(n, go, x) """ + _BODY
LONG_CONSTANT = """<ir_version: 8, opset_import: ["": 17]>
m () => (float[2] y) <bool go = {1}, int64 n = {5000000}, float[2] x = {1, 1}> {
    y = Loop(n, go, x) """ + _BODY
X = np.ones(2, np.float32)
FEED = {"x": X, "n": np.array(5_000_000)}


@pytest.mark.parametrize("before", [0, 3])
def test_ctrl_c_ends_an_inference(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, and each after one that took long."""
    monkeypatch.setattr(module, "_LONG", 0.0)
    with OnnxrtRunner(session_from_onnx(parser.parse_model(LONG))) as runner:
        for _ in range(before):
            runner.infer({"x": X, "n": np.array(1)})
        send_later(0.3)
        with pytest.raises(KeyboardInterrupt) as caught:
            runner.infer(FEED)
        assert any("terminate" in text for text in causes(caught.value))
        assert runner.infer({"x": X, "n": np.array(1)})["y"].tolist() == [1, 1]


def test_ctrl_c_ends_an_inference_after_a_long_one_that_came_after_quick_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with OnnxrtRunner(session_from_onnx(parser.parse_model(LONG))) as runner:
        for long in (0.5, 0.0):  # Neither takes half a second; the second one takes more than none.
            monkeypatch.setattr(module, "_LONG", long)
            runner.infer({"x": X, "n": np.array(1)})
        send_later(0.3)
        with pytest.raises(KeyboardInterrupt) as caught:
            runner.infer(FEED)
    assert any("terminate" in text for text in causes(caught.value))


@pytest.mark.parametrize(
    "run",
    [
        lambda: evaluate_constants(parser.parse_model(LONG_CONSTANT), ["y"]),
        lambda: OnnxrtTrial().run(parser.parse_model(LONG).SerializeToString(), FEED, ["y"]),
        lambda: measure_ranges(parser.parse_model(LONG), ["y"], [FEED], "minmax"),
    ],
    ids=["constant", "trial", "calibration"],
)
def test_ctrl_c_ends_what_else_is_run(run: Callable[[], Any]) -> None:
    send_later(0.3)
    with pytest.raises(KeyboardInterrupt) as caught:
        run()
    assert any("terminate" in text for text in causes(caught.value))


def test_quick_inferences_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Any] = []
    terminable = module.run_terminable
    monkeypatch.setattr(
        module, "run_terminable", lambda run: watched.append(run) or terminable(run)
    )
    with OnnxrtRunner(session_from_onnx(parser.parse_model(LONG))) as runner:
        for _ in range(3):
            runner.infer({"x": X, "n": np.array(1)})
            assert 0 < (runner.last_inference_time() or 0) < 0.5
    assert len(watched) == 1
