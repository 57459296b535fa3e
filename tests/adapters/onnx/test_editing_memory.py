"""What edits of a model with large weights take of memory: less than these weights.

The model has 64 MiB of weights in a file, 8 MiB each.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.backend.onnx import onnx_from_path

resource = pytest.importorskip("resource", reason="memory is measured with it")

_SIDE, _LAYERS = 1448, 8
_BYTES = 4 * _SIDE**2
_ALLOWED = 3 * _BYTES
"""What an edit may take beyond the same edit of a tiny model: little more than one weight, as it is
looked at, and what is made of it."""

_LIMITED = """
import resource, runpy, sys
try:
    runpy.run_module("polygraphy", run_name="__main__", alter_sys=True)
except SystemExit as done:
    assert not done.code, done.code
print("PEAK", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def stack(folder: Path, side: int) -> Path:
    """Save a model of products with weights of that many rows and columns, in a file."""
    folder.mkdir()
    weight = np.random.default_rng(0).standard_normal((side, side), np.float32)
    tensors, nodes, taken = [], [], "x"
    with (folder / "weights").open("wb") as stream:
        for index in range(_LAYERS):
            tensor = onnx.TensorProto(
                name=f"w{index}", data_type=1, dims=weight.shape, data_location="EXTERNAL"
            )
            place = {"location": "weights", "offset": stream.tell(), "length": weight.nbytes}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
            stream.write(memoryview(weight).cast("B"))
            nodes += [
                helper.make_node("Shape", [taken], [f"s{index}"]),
                helper.make_node("Reshape", [taken, f"s{index}"], [f"r{index}"]),
                helper.make_node("MatMul", [f"r{index}", f"w{index}"], [f"h{index}"]),
            ]
            taken = f"h{index}"
    shape = [4, side]
    described = [helper.make_tensor_value_info(name, 1, shape) for name in ("x", taken)]
    graph = helper.make_graph(nodes, "stack", described[:1], described[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "m.onnx"))
    return folder / "m.onnx"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = stack(tmp_path_factory.mktemp("large") / "model", _SIDE)
    yield path
    (path.parent / "weights").unlink()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stack(tmp_path_factory.mktemp("tiny") / "model", 8)


def peak(words: list[str], folder: Path) -> int:
    """Return the peak memory of a command, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, *words],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return int(done.stdout.rpartition("PEAK")[2]) * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["surgeon", "extract", "--inputs", "h1:auto:auto", "--outputs", "h6:auto"],
        ["convert", "--fp-to-fp16", "--save-external-data", "out.data"],
    ],
    ids=["extract", "fp16"],
)
def test_an_edit_takes_no_more_than_one_weight(
    tmp_path: Path, large: Path, tiny: Path, words: list[str]
) -> None:
    first = 2 if words[0] == "surgeon" else 1
    used = []
    for model in (tiny, large):
        command = [*words[:first], str(model), *words[first:], "-o", "out.onnx"]
        used.append(peak(command, tmp_path))
    assert used[1] - used[0] < _ALLOWED
    made = onnx_from_path(str(tmp_path / "out.onnx"), map_weights=True)
    weights = [tensor for tensor in made.graph.initializer if len(tensor.dims) == 2]
    assert len(weights) == (5 if "extract" in words else _LAYERS)
    for path in tmp_path.iterdir():
        path.unlink()
