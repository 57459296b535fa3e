"""The programs that use the API as others do: the parts that need no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from tests.support.engines import fake_machine, identity
from tests.support.forked import ForkServer

Run = Callable[..., list[str]]

CLIENTS = Path(__file__).resolve().parents[2] / "examples" / "clients"
DIGITS = CLIENTS.parent / "digits" / "digits.onnx"


@pytest.fixture
def run(fork_server: ForkServer, tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that runs a program and returns the lines that it prints itself."""

    def lines_of(program: str, *words: str) -> list[str]:
        done = fork_server.run([str(CLIENTS / program), *words], tmp_path)
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        return [line for line in lines if line and not line.startswith(("[", " "))]

    return lines_of


def foldable() -> onnx.ModelProto:
    """Return a model whose second operand is computed from constants alone, and a dead node."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    weights = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    nodes = [
        helper.make_node("Exp", ["w"], ["e"]),
        helper.make_node("Add", ["e", "w"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
        helper.make_node("Sqrt", ["m"], ["dead"]),
    ]
    graph = helper.make_graph(nodes, "foldable", [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def infer(model: str, x: np.ndarray) -> dict[str, np.ndarray]:
    with OnnxrtRunner(SessionFromOnnx(model)) as runner:
        return {name: np.array(array) for name, array in runner.infer({"x": x}).items()}


@pytest.mark.parametrize(("outputs", "nodes"), [((), ["Mul", "Relu"]), (("m",), ["Mul"])])
def test_optimize_folds_and_selects(
    run: Run, tmp_path: Path, outputs: tuple[str, ...], nodes: list[str]
) -> None:
    onnx.save(foldable(), tmp_path / "model.onnx")
    lines = run("optimize.py", "model.onnx", "optimized.onnx", *outputs)
    assert lines[:3] == ["original: 5 nodes", "cleanup: 4 nodes", "fold constants: 2 nodes"]
    assert [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node] == nodes
    assert len(onnx.load(tmp_path / "model.onnx").graph.node) == 5
    x = np.array([[1, -2, 3, -4]], np.float32)
    scaled = x * (np.exp(np.arange(4)) + np.arange(4))
    [(name, found)] = infer(str(tmp_path / "optimized.onnx"), x).items()
    assert name == (outputs or ("y",))[0]
    np.testing.assert_allclose(found, scaled if outputs else np.maximum(scaled, 0), rtol=1e-5)


def test_a_runner_of_ones_own_is_compared(run: Run) -> None:
    assert run("own_runner.py") == ["equal", "not equal"]


def test_saved_inputs_and_results_are_compared(run: Run, tmp_path: Path) -> None:
    assert run("compare_saved.py", str(DIGITS), ".") == ["equal", "not equal"]
    assert {path.name for path in tmp_path.iterdir()} == {"inputs.json", "results.json"}


_ONE_BY_ONE = """
import json, runpy, sys
said = []
for path in sys.argv[1:]:
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        said.append(end.code)
print(json.dumps(said))
"""


def test_without_arguments_one_line_says_which(tmp_path: Path) -> None:
    for name in ("tensorrt.py", "onnx_graphsurgeon.py"):  # Which nothing is asked of.
        (tmp_path / name).touch()
    programs = ["calibrate", "compare_saved", "engine", "optimize"]
    paths = [str(CLIENTS / f"{program}.py") for program in programs]
    done = subprocess.run(
        [sys.executable, "-c", _ONE_BY_ONE, *paths],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    said = json.loads(done.stdout)
    assert len(said) == len(programs)
    for program, usage in zip(programs, said):
        assert usage.startswith(f"usage: python {program}.py ") and "\n" not in usage


@pytest.mark.parametrize("program", sorted(path.name for path in CLIENTS.glob("*.py")))
def test_the_readme_has_each_program(program: str) -> None:
    text = (CLIENTS / "README.md").read_text(encoding="utf-8")
    assert f"| `{program}` |" in text
    assert f"python examples/clients/{program}" in text


@pytest.mark.parametrize("generation", [8, 10])
def test_an_engine_with_buffers_of_its_own(
    generation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part that runs an engine, on fakes of TensorRT and CUDA; tests/gpu has the whole."""
    with fake_machine(generation) as trt:
        monkeypatch.setitem(sys.modules, "tensorrt", trt)
        monkeypatch.syspath_prepend(str(CLIENTS))
        monkeypatch.delitem(sys.modules, "engine", raising=False)
        client = import_module("engine").Engine("identity.plan")
        client.engine = identity(trt)
        client.activate()
        for rows in (3, 64, 3):
            client.allocate_buffers({"X": (rows, 2)})
            for value in (1.0, -2.0):
                x = np.full((rows, 2), value, np.float32)
                [(name, found)] = client.infer({"X": x}).items()
                assert name == "Y"
                np.testing.assert_array_equal(found, x)
        views = client.views()
        assert {name: (view.shape, view.dtype) for name, view in views.items()} == dict.fromkeys(
            ("X", "Y"), ((3, 2), np.float32)
        )
        assert client.buffers["X"].ptr == views["X"].ptr
        client.free()
        assert trt.cuda.outstanding == {}
    monkeypatch.delitem(sys.modules, "engine")
