"""ONNX Runtime in other environments."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from polygraphy.adapters.onnxruntime.environments import open_environment
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.domain.diagnosis.commands import run_command
from polygraphy.domain.errors import BackendError, FileError
from tests.support import models

X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(1, 512)


def script(folder: Path, text: str) -> str:
    """An interpreter that does something else."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("level", [None, "disable"])
def test_a_model_is_run_as_here(level: str | None) -> None:
    model = models.mlp(features=512)
    party = OnnxrtParty(graph_optimization_level=level, threads=1)
    found = open_environment(sys.executable)
    assert found.version == onnxruntime.__version__
    made = found.run(model, {"x": X}, party.settings)
    np.testing.assert_array_equal(made["y"], party.load(model)({"x": X})["y"])


def test_the_executed_graph_is_saved_with_and_without_rewrites() -> None:
    model, settings = models.mlp(features=512), OnnxrtParty(threads=1).settings
    found = open_environment(sys.executable)
    fused, plain = (
        [node.op_type for node in found.runtime_graph(model, {**settings, **how}).graph.node]
        for how in ({}, {"plain": True})
    )
    here = OnnxrtParty(threads=1).runtime_graph(model)
    assert fused == [node.op_type for node in here.graph.node] != plain
    assert plain == [node.op_type for node in model.graph.node]


def test_a_model_that_is_refused_is_one_line() -> None:
    model = models.mlp(features=512)
    model.graph.node[0].op_type = "NoSuchOperator"
    found = open_environment(sys.executable)
    with pytest.raises(BackendError, match="NoSuchOperator") as caught:
        found.run(model, {"x": X}, OnnxrtParty().settings)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'No module named onnxruntime' >&2; exit 1", "No module named onnxruntime"),
        ("exit 7", "exit code 7"),
        ("echo hello", "does not report its version of ONNX Runtime"),
    ],
)
def test_a_broken_environment_says_why(text: str, said: str, tmp_path: Path) -> None:
    path = script(tmp_path, text)
    with pytest.raises(BackendError, match=said) as caught:
        open_environment(path)
    assert str(tmp_path) in str(caught.value)


def test_what_is_no_environment_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="has no bin/python"):
        open_environment(str(tmp_path))
    plain = tmp_path / "notes.txt"
    plain.write_text("x")
    with pytest.raises(FileError, match="is not an executable interpreter"):
        open_environment(str(plain))


def test_the_interpreter_of_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin", "echo version 9.8.7")
    assert open_environment(str(tmp_path)).version == "9.8.7"


def test_what_a_party_is_asked_stands_on_printed_command_lines() -> None:
    providers = ["cpu", ("mine", {"device_id": "1", "config": '{"a": 1}'})]
    party = OnnxrtParty(providers, "basic", 2, ["ConstantFolding"], {"mine": "lib.so"})
    assert run_command("m.onnx", [("onnxrt", "onnxrt", party.options)], {}) == (
        "polygraphy run m.onnx --onnxrt --provider-library mine=lib.so --providers cpu"
        """ 'mine:device_id=1,config={"a": 1}' --graph-optimization-level ENABLE_BASIC"""
        " --intra-op-threads 2 --disabled-optimizers ConstantFolding"
    )
    assert OnnxrtParty().options == {}
    plain = run_command("m.onnx", [("onnxrt", "onnxrt", party.remedy(plain=True, without=()))], {})
    assert plain.endswith("--graph-optimization-level DISABLE_ALL --intra-op-threads 2")
