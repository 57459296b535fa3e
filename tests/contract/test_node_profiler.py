"""What every profiler of a backend has to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from polygraphy.adapters.fake import FakeNodeProfiler
from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx
from polygraphy.adapters.openvino.compiled import CompiledModelFromOnnx
from polygraphy.adapters.openvino.runner import OpenvinoRunner
from polygraphy.domain.profiling.table import profile_table
from polygraphy.ports.running import NodeProfiler, model_nodes
from tests.support import models

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


PROFILERS = {"fake": _fake, "onnxrt": _onnxrt, "openvino": _openvino}


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
