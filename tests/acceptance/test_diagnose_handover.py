"""Kernels that are wrong and nodes that are refused, handed over: what is saved is run by hand."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import models
from tests.support.forked import Ended, ForkServer

WRONG_KERNEL = """
import onnx, onnxruntime

made = onnxruntime.InferenceSession.__init__

def planted(self, model, *args, **options):
    model = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
    for node in model.graph.node:
        if node.op_type == "Softplus":
            node.op_type = "Relu"
    made(self, model.SerializeToString(), *args, **options)

onnxruntime.InferenceSession.__init__ = planted
"""
"""What a Python imports at its start: ONNX Runtime computes Softplus wrongly there."""


def network(middle: list[onnx.NodeProto], weights: dict[str, Any]) -> onnx.ModelProto:
    """Ten nodes, and others in the middle, which make ``after`` of ``before``."""
    rng = np.random.default_rng(5)
    nodes, tensor = [], "x"
    for layer in range(5):
        if layer == 3:
            nodes += middle
            tensor = "after"
        weights[f"w{layer}"] = rng.normal(size=(6, 6)).astype(np.float32) / 2
        made = "before" if layer == 2 else f"t{layer}"
        nodes.append(helper.make_node("MatMul", [tensor, f"w{layer}"], [f"m{layer}"], f"mm{layer}"))
        nodes.append(helper.make_node("Tanh", [f"m{layer}"], [made], f"tanh{layer}"))
        tensor = made
    nodes[-1].doc_string = "/home/me/net.py(7): forward\n"
    for node in middle:
        node.doc_string = "/home/me/net.py(42): forward\n"
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 6]) for n in ("x", tensor)]
    stored = [numpy_helper.from_array(np.asarray(v), name) for name, v in weights.items()]
    graph = helper.make_graph(nodes, "network", values[:1], values[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def softplus() -> onnx.ModelProto:
    return network([helper.make_node("Softplus", ["before"], ["after"], "softplus")], {})


def run(words: list[str], site: Path | None, fork_server: ForkServer) -> Ended:
    """Run a command or program: in a fork, or with a module that is imported at the start, in a new
    interpreter.
    """
    if site is None:
        return fork_server.run(words, Path.cwd())
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if words[0] == "polygraphy":
        words = ["-m", *words]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, env=environment
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(("make", "cause", "node"), [(softplus, "kernel", "softplus")])
def test_what_is_saved_shows_the_fault_by_itself(
    make: Any,
    cause: str,
    node: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fork_server: ForkServer,
) -> None:
    monkeypatch.chdir(tmp_path)
    models.save(make(), tmp_path / "model.onnx")
    site = None
    if cause == "kernel":
        site = tmp_path / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(WRONG_KERNEL)
    words = ["polygraphy", "diagnose", "model.onnx", "--onnxrt", "--onnx"]
    first = run(words, site, fork_server)
    [command] = re.findall(r"TRY +(polygraphy .*)", first.out)
    done = run([*shlex.split(command), "--report", "r.json"], site, fork_server)
    assert done.code == 1, done.out + done.err
    assert "TRY" not in done.out, "it is done"
    assert "SAVED" in done.out and "From net.py:42" in done.out
    [culprit] = json.loads(Path("r.json").read_text())["culprits"]
    assert (culprit["cause"], culprit["nodes"], culprit["party"]) == (cause, [node], "onnxrt")
    assert culprit["origin"] == "net.py:42"
    assert [one.name for one in onnx.load("model_culprit/model.onnx").graph.node] == [node]
    program = [str(tmp_path / "model_culprit" / "reproduce.py")]
    shown = run(program, site, fork_server)
    assert shown.code == 1 and "FAILED as is" in shown.out, shown.out + shown.err
    assert cause == "refusal" or run(program, None, fork_server).code == 0
    assert culprit["op"] in Path("model_issue.md").read_text()
