"""What every profiler of a backend has to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx import helper

from polygraphy.adapters.fake import FakeNodeProfiler
from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx
from polygraphy.adapters.openvino.compiled import CompiledModelFromOnnx
from polygraphy.adapters.openvino.runner import OpenvinoRunner
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.domain.profiling.table import profile_table
from polygraphy.ports.running import NodeProfiler, model_nodes
from tests.support import models
from tests.support.engines import fake_machine
from tests.support.fake_tensorrt import Tensor

MODEL = models.make(
    "chain",
    [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Relu", ["a"], ["y"], name="relu"),
    ],
    [models.value("x", ["n", 3])],
    [models.value("y", ["n", 3])],
    weights={"w": np.eye(3, dtype=np.float32)},
)


def _fake() -> tuple[NodeProfiler, Callable[[], object]]:
    return FakeNodeProfiler({"product": 3.0, "relu": 1.0}), lambda: None


def _onnxrt() -> tuple[NodeProfiler, Callable[[], object]]:
    runner = OnnxrtRunner(SessionFromOnnx(MODEL))
    runner.activate()
    return runner.open_profiler(), runner.deactivate


def _openvino() -> tuple[NodeProfiler, Callable[[], object]]:
    pytest.importorskip("openvino")
    runner = OpenvinoRunner(CompiledModelFromOnnx(MODEL.SerializeToString()))
    runner.activate()
    return runner.open_profiler(), runner.deactivate


def _tensorrt(generation: int) -> tuple[NodeProfiler, Callable[[], object]]:
    machine = ExitStack()
    trt = machine.enter_context(fake_machine(generation))
    layers = [
        {"Name": name, "LayerType": kind, "Metadata": f"[ONNX Layer: {name}]"}
        for name, kind in (("product", "MatrixMultiply"), ("relu", "PointWise"))
    ]
    engine = trt.engine(
        [
            Tensor("x", "FLOAT", (-1, 3), profiles=[((1, 3), (1, 3), (2, 3))]),
            Tensor("y", "FLOAT", (-1, 3)),
        ],
        lambda feed: {"y": np.maximum(feed["x"], 0)},
        outputs=["y"],
        layers=layers,
    )
    runner = TrtRunner(engine)
    runner.activate()

    def end() -> None:
        assert runner.context.profiler is None and runner.context.enqueue_emits_profile
        assert runner.infer({"x": np.ones((1, 3), np.float32)})["y"].shape == (1, 3)
        runner.deactivate()
        assert trt.cuda.outstanding == {} and trt.log == []
        machine.close()

    return runner.open_profiler(), end


PROFILERS = {
    "fake": _fake,
    "onnxrt": _onnxrt,
    "openvino": _openvino,
    "tensorrt 8": partial(_tensorrt, 8),
    "tensorrt 10": partial(_tensorrt, 10),
}


@pytest.mark.parametrize("make", PROFILERS.values(), ids=PROFILERS)
def test_each_group_of_runs_has_a_profile(make: Callable[[], Any]) -> None:
    profiler, end = make()
    for rows in (1, 2, 2, 2):
        profiler.infer({"x": np.ones((rows, 3), np.float32)})
    one, two = profiler.finish([[0], [2, 3]])
    end()
    rows = profile_table([two], model_nodes(MODEL)).rows
    assert sorted(name for row in rows for name in row.nodes) == ["product", "relu"]
    assert {len(node.times) for node in two.nodes} == {2}
    assert (len(one.run_times), len(two.run_times)) == (1, 2)
    assert 0 <= two.node_time <= sum(two.run_times)
    profiler.close()
    profiler.close()
