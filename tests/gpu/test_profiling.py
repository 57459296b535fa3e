"""Profiles of nodes on a real GPU, with real TensorRT and ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.backend.trt import CreateConfig, EngineFromNetwork, NetworkFromOnnxPath
from polygraphy.comparator import Comparator, ProfileNodes
from polygraphy.domain.profiling.execution import DEVICE, ExecutionProfile, ModelNodes
from polygraphy.domain.profiling.joining import join_profile
from polygraphy.domain.profiling.table import OUTSIDE
from tests.gpu import engines
from tests.gpu.commands import Run, run
from tests.gpu.engines import engine
from tests.support import models
from tests.support.networks import resnet50

__all__ = ["run"]  # The fixture that is used here.

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

BATCH = 16
"""So large that kernels, not their launches, take the time."""


def test_layers_are_measured_on_the_device_and_the_runner_works_as_before() -> None:
    feed = {"X": np.ones((3, 16), np.float32)}
    profiling = ProfileNodes(runs=5)
    runner = TrtRunner(engine(engines.identity))
    with runner:
        profiling.note_feed(runner, feed)
        profiling.measure()
        assert runner.last_device_times() is None
        for _ in range(4):  # The last ones may be a CUDA graph.
            np.testing.assert_array_equal(runner.infer(feed)["Y"], feed["X"])
        assert runner.context.profiler is None
    (profile,) = profiling.profiles
    assert profile.nodes and all(node.clock == DEVICE for node in profile.nodes)
    assert all(len(node.times) == 5 and min(node.times) >= 0 for node in profile.nodes)
    assert 0 < profile.node_time < 10 * profile.run_time
    assert len(profile.plain_times) == len(profile.run_times) == 5


def check_join(model: ModelNodes, profile: ExecutionProfile) -> None:
    """Check that each node is in exactly one group, or reported as gone."""
    join = join_profile(model, profile)
    counts = Counter(index for group in join.groups for index in group.nodes)
    assert set(counts.values()) == {1}
    assert counts.keys() | join.gone.keys() == set(range(len(model.nodes)))
    assert not counts.keys() & join.gone.keys()
    assert len(join.unmatched) == 0, [profile.nodes[index].name for index in join.unmatched]


def test_resnet50_in_fp32_and_fp16(tmp_path: Path) -> None:
    path = str(tmp_path / "resnet50.onnx")
    onnx.save(resnet50(BATCH), path)
    profiling = ProfileNodes(path, runs=20)
    runners = [
        TrtRunner(
            EngineFromNetwork(
                NetworkFromOnnxPath(path), CreateConfig(builder_optimization_level=2, **precision)
            ),
            name=name,
        )
        for name, precision in (("fp32", {}), ("fp16", {"fp16": True}))
    ]
    data = [{"x": np.random.default_rng(0).standard_normal((BATCH, 3, 224, 224), np.float32)}]
    for _ in Comparator.run(runners, data, streaming=True, profiling=profiling):
        pass
    profiling.report(sort="difference", rows=0)  # For those who read the output.
    for profile in profiling.profiles:
        assert profile.model is not None and profile.plain_time is not None
        print(
            f"{profile.runner}: layers {profile.node_time:.0f} us, run {profile.run_time:.0f} us,"
            f" without the profiler {profile.plain_time:.0f} us, {len(profile.nodes)} layers"
        )
        check_join(profile.model, profile)
        assert profile.node_time == pytest.approx(profile.plain_time, rel=0.1)
    (table,) = profiling.tables()
    for at, side in enumerate(table.sides):
        rows = [row.cells[at].time for row in table.rows]
        inside = [row.cells[at].time for row in table.rows if row.kind != OUTSIDE]
        assert sum(rows) == pytest.approx(side.profiled)
        assert sum(inside) == pytest.approx(side.microseconds, rel=0.1)
    first, second = table.sides
    assert first.time > second.time
    assert table.sentence.startswith("fp16 is ") and " times as fast as fp32" in table.sentence


def test_a_small_model_from_the_command_line(run: Run) -> None:
    models.save(models.conv_net(), Path("model.onnx"))
    code, said = run(
        "run model.onnx --runner cpu=--onnxrt --runner gpu=--trt --profile 5"
        " --save-profile saved.json --rtol 1e-2 --atol 1e-2 --report page.html"
    )
    print(said)
    assert code == 0, said[-3000:]
    assert all(word in said for word in ("nodes of the model", "cpu us", "gpu us", "difference"))
    code, again = run("inspect profile saved.json saved.json --sort difference")
    print(again)
    assert code == 0, again[-3000:]
