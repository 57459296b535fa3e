"""Commands about large models show the essence, at most 25 lines of it; `-v`, `--log-format legacy`
and the log file have all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.comparator import IterationResult, RunResults

Run = Callable[..., Any]

MOST = 25


def chain(path: Path, nodes: int, *, undefined: bool = False, small: bool = False) -> None:
    """Save a model that adds a weight to its input in every node.

    Args:
        path: where.
        nodes: how many.
        undefined: whether every second weight is missing.
        small: whether the weights are too small for float16.
    """
    names = ["x", *(f"t{at}" for at in range(nodes))]
    made = [
        helper.make_node("Add", [names[at], f"w{at}"], [names[at + 1]], name=f"add{at}")
        for at in range(nodes)
    ]
    weights = [
        numpy_helper.from_array(
            np.full(4, 1e-11 * (at + 1) if small else 0.5, np.float32), f"w{at}"
        )
        for at in range(0, nodes, 2 if undefined else 1)
    ]
    shaped = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names]
    graph = helper.make_graph(made, "chain", shaped[:1], shaped[-1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def matrices(path: Path, nodes: int) -> None:
    """Save a model whose weights might be 2:4 sparse; that of the last node is."""
    weights = []
    for at in range(nodes):
        weight = np.ones((8, 8), np.float32)
        weight[:: 1 if at < nodes - 1 else 2] *= at < nodes - 1
        weights.append(numpy_helper.from_array(weight, f"w{at}"))
    names = ["x", *(f"t{at}" for at in range(nodes))]
    made = [
        helper.make_node("MatMul", [names[at], f"w{at}"], [names[at + 1]]) for at in range(nodes)
    ]
    shaped = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [8, 8]) for each in names]
    graph = helper.make_graph(made, "matrices", shaped[:1], shaped[-1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    chain(tmp_path / "m.onnx", 60)
    chain(tmp_path / "small.onnx", 60, small=True)
    chain(tmp_path / "broken.onnx", 60, undefined=True)
    matrices(tmp_path / "dense.onnx", 60)
    outputs = {f"y{at}": np.full((2, 3), float(at), np.float32) for at in range(60)}
    outputs["y50"][1, 2] = np.nan
    others = {name: array + np.float32(0.5) for name, array in outputs.items()}
    for path, found in (("a.json", outputs), ("b.json", others)):
        RunResults([("onnxrt-runner-N0-11/23/26-03:33:47", [IterationResult(found)])]).save(path)
    yield tmp_path


CASES = {
    "check lint broken.onnx": ("is not defined anywhere", 30, 1),
    "inspect data a.json": ("| Stats: mean=", 60, 0),
    "check accuracy acc.json": ("max_absdiff=", 60, 1),
    "inspect sparsity dense.onnx": ("sparse tensor: ", 60, 0),
    "convert small.onnx --fp-to-fp16 --verify -o half.onnx": ("too small and set to zero", 60, 0),
}


@pytest.mark.parametrize("command", CASES)
def test_a_large_case_fits_a_screen_and_more_is_there_for_who_asks(
    folder: Path, polygraphy: Run, command: str
) -> None:
    comparing = "--save-accuracy-results acc.json -q"
    polygraphy(f"polygraphy run --load-outputs a.json b.json {comparing}")
    text, count, code = CASES[command]
    brief = polygraphy(f"polygraphy {command} --log-file run.log --log-file-verbosity VERBOSE")
    assert brief.code == code
    assert len(brief.lines) <= MOST
    assert brief.out.count(text) < count / 2
    assert Path("run.log").read_text().count(text) >= count
    assert polygraphy(f"polygraphy {command} -v").out.count(text) >= count


def test_what_is_shown_of_many_tensors_are_those_that_hold_nan(
    folder: Path, polygraphy: Run
) -> None:
    done = polygraphy("polygraphy inspect data a.json")
    [row] = [line for line in done.lines if " y50 " in line]
    assert row.split()[0] == "x" and row.endswith("NaN 1 at [1,2]")
    assert done.lines[0] == "NaN or infinity in 1 of 60 tensors; 1 runner, 1 iteration."
    assert done.lines[-1] == "  20 of 60 tensors shown; all with -v or --log-file PATH"
    assert "| Stats: mean=" in polygraphy("polygraphy inspect data a.json --log-format legacy").out


def test_findings_of_a_kind_stand_together_each_kind_with_some(
    folder: Path, polygraphy: Run
) -> None:
    done = polygraphy("polygraphy check lint broken.onnx")
    assert done.out.count("is not defined anywhere") == 3
    assert "error    27 more like these; -v shows all" in done.lines


def test_of_many_weights_the_unusual_are_named_first(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy inspect sparsity dense.onnx")
    named = [line for line in done.lines if "sparse tensor: " in line]
    assert len(named) == 10
    assert "Found sparse tensor: w59" in named
    assert any("1 of 60 tensors are sparse; 50 are not listed" in line for line in done.lines)


def test_where_rows_are_cut_it_is_said_what_shows_them(folder: Path, polygraphy: Run) -> None:
    comparing = "--check-error-stat max --save-accuracy-results acc.json -q"
    polygraphy(f"polygraphy run --load-outputs a.json b.json {comparing}")
    done = polygraphy("polygraphy check accuracy acc.json")
    assert "  All 60 rows: add --report PATH.html, --log-file PATH, or -v" in done.lines


def test_the_weights_that_lose_most_are_named_and_the_others_counted(
    folder: Path, polygraphy: Run
) -> None:
    done = polygraphy("polygraphy convert small.onnx --fp-to-fp16 --verify -o half.onnx")
    named = [
        line.split("'")[1] for line in done.lines if "has values that become 0 in float16" in line
    ]
    assert named == ["w59", "w58", "w57"]
    assert any(
        line.startswith("[W] 57 more weights have values that become 0 in float16")
        for line in done.lines
    )
    assert any(line.startswith("Saving ONNX model to: ") for line in done.lines)
    assert done.lines[-1].startswith("PASSED  1 output matched in 3 iterations; ")


def test_two_runs_of_one_name_are_called_after_their_files(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy inspect diff a.json b.json")
    assert any(line.startswith("b.json vs. a.json") for line in done.lines)
