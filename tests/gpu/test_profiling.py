"""Profiles of nodes on a real GPU, with real TensorRT and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.comparator import Comparator, ProfileNodes
from polygraphy.domain.profiling.execution import DEVICE
from tests.gpu import engines
from tests.gpu.engines import engine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]


def test_layers_are_measured_on_the_device() -> None:
    data = [{"X": np.ones((3, 16), np.float32)}]
    profiling = ProfileNodes(runs=5)
    runner = TrtRunner(engine(engines.identity))
    for _ in Comparator.run([runner], data, streaming=True, profiling=profiling):
        pass
    (profile,) = profiling.profiles
    assert profile.nodes and all(node.clock == DEVICE for node in profile.nodes)
    assert 0 < profile.node_time < 10 * profile.run_time
