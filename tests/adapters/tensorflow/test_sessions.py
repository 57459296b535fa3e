"""Sessions and how they are configured; traces of inferences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from polygraphy.backend.tf import (  # noqa: E402
    CreateConfig,
    SessionFromGraph,
    TfRunner,
    create_config,
    session_from_graph,
)
from polygraphy.domain.errors import BackendError, InputError  # noqa: E402
from tests.adapters.tensorflow import graphs  # noqa: E402

X = np.random.RandomState(0).standard_normal((5, 4)).astype(np.float32)


def test_what_a_session_is_reported() -> None:
    config = create_config()
    assert config.gpu_options.per_process_gpu_memory_fraction == pytest.approx(0.9)
    assert not config.gpu_options.allow_growth
    assert config.graph_options.optimizer_options.global_jit_level == 0


def test_memory_of_the_gpu() -> None:
    config = create_config(gpu_memory_fraction=0.25, allow_growth=True)
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.25
    assert config.gpu_options.allow_growth


# A process of its own: TensorFlow reads once whether it may compile for the CPU. It compiles no
# graph that is smaller.
COMPILED = """
import sys
import numpy as np
from polygraphy.backend.tf import CreateConfig, SessionFromGraph, TfRunner
from tests.adapters.tensorflow import graphs
def build(tf, v1):
    y = v1.placeholder(tf.float32, [2, 4], name="x")
    for _ in range(5):
        y = tf.tanh(y * 2 + 1)
    tf.identity(y, name="y")
config = CreateConfig(use_xla=True)
graph = graphs.in_graph(build), ["y:0"]
with TfRunner(SessionFromGraph(graph, config), timeline_dir=sys.argv[1]) as runner:
    for _ in range(3):
        y = runner.infer({"x:0": np.zeros((2, 4), np.float32)})["y:0"]
    assert (0.99 < y).all() and (y < 1).all()
"""


def test_xla_compiles_the_graph(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TF_XLA_FLAGS"}
    subprocess.run([sys.executable, "-c", COMPILED, str(tmp_path)], check=True, env=environment)
    assert "_XlaRun" in "".join(path.read_text() for path in tmp_path.iterdir())


def test_nothing_is_compiled_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = COMPILED.replace("use_xla=True", "use_xla=False")
    monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path)])
    exec(code, {})
    assert "_XlaRun" not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_a_session_is_closed_by_whom_it_belongs_to() -> None:
    graph = graphs.two_layers(), ["y:0"]
    ours = session_from_graph(graph)
    with TfRunner(ours) as runner:
        assert runner.sess is ours[0]
    assert len(ours[0].run("y:0", {"x:0": X})) == 5
    with TfRunner(SessionFromGraph(graph)) as runner:
        theirs = runner.sess
    with pytest.raises(RuntimeError, match="closed"):
        theirs.run("y:0", {"x:0": X})


def test_traces_of_inferences(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    graph = graphs.two_layers(), ["y:0"]
    with TfRunner(SessionFromGraph(graph, CreateConfig()), timeline_dir=str(folder)) as runner:
        for _ in range(2):
            runner.infer({"x:0": X})
    assert sorted(path.name for path in folder.iterdir()) == ["run-0.json", "run-1.json"]
    events = json.loads((folder / "run-1.json").read_text())["traceEvents"]
    assert "y" in {event["args"].get("name") for event in events if "args" in event}


def test_inputs_are_described_as_the_graph_has_them() -> None:
    def build(tf: Any, v1: Any) -> None:
        v1.placeholder(tf.int64, [2, None], name="ids")
        v1.placeholder(tf.bfloat16, None, name="any")
        tf.zeros([], name="zero")

    with TfRunner(SessionFromGraph((graphs.in_graph(build), ["zero:0"]))) as runner:
        metadata = runner.get_input_metadata(use_numpy_dtypes=False)
    assert {name: (str(dtype), shape) for name, (dtype, shape) in metadata.items()} == {
        "ids:0": ("int64", [2, None]),
        "any:0": ("bfloat16", None),
    }


def test_errors_of_kernels_are_ours() -> None:
    def build(tf: Any, v1: Any) -> None:
        x = v1.placeholder(tf.float32, [None], name="x")
        tf.reshape(x, [3, -1], name="threes")
        tf.debugging.check_numerics(x, "not finite", name="checked")

    graph = graphs.in_graph(build)
    with (
        TfRunner(SessionFromGraph((graph, ["threes:0"]))) as runner,
        pytest.raises(InputError) as e,
    ):
        runner.infer({"x:0": X[0]})
    assert "TensorFlow rejected the data" in str(e.value)
    assert "\n" not in str(e.value)
    infinite = {"x:0": np.array([np.inf], np.float32)}
    with (
        TfRunner(SessionFromGraph((graph, ["checked:0"]))) as runner,
        pytest.raises((InputError, BackendError), match="not finite"),
    ):
        runner.infer(infinite)
