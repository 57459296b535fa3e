"""Where input data may come from, and how it may be kept, as users run it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

Run = Callable[..., Any]


@pytest.fixture
def embedding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make embedding.onnx: a table of 50 rows, looked up by ``ids``, where ``mask`` is not 0."""
    monkeypatch.chdir(tmp_path)
    table = np.arange(50, dtype=np.float32).reshape(50, 1)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["is_kept"], to=TensorProto.BOOL),
        helper.make_node("Where", ["is_kept", "rows", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "embedding",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, [40]),
            helper.make_tensor_value_info("mask", TensorProto.INT32, [40, 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [40, 1])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.float32(0), "zero"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, "embedding.onnx")
    return tmp_path


RUN = "polygraphy run embedding.onnx --onnxrt"


@pytest.mark.parametrize("runner", ["--onnxrt", "--onnx"])
def test_indices_are_legal_and_the_log_says_so(
    embedding: Path, polygraphy: Run, runner: str
) -> None:
    from polygraphy.json import load_json

    done = polygraphy(f"polygraphy run embedding.onnx {runner} --save-inputs i.json")
    assert done.code == 0
    assert "ids | Using whole numbers from 0 to 49" in done.out
    assert "50 entries of 'table'" in done.out
    assert "mask | Using whole numbers from 0 to 1" in done.out
    [feed] = load_json("i.json")
    assert 20 < feed["ids"].max() < 50
    assert set(feed["mask"].ravel()) == {0, 1}


@pytest.mark.parametrize("runner", ["--onnxrt", "--onnx"])
def test_a_mask_of_real_numbers_is_0_or_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run, runner: str
) -> None:
    """Where ``(1 - mask) * -10000`` is added to scores, as in many language models."""
    from polygraphy.json import load_json

    monkeypatch.chdir(tmp_path)
    onnx.save(
        onnx.parser.parse_model("""
            <ir_version: 9, opset_import: ["" : 17]>
            attention (float[2, 64] scores, float[2, 64] mask) => (float[2, 64] y)
            <float one = {1}, float large = {-10000}>
            {
                inverted = Sub (one, mask)
                bias = Mul (inverted, large)
                masked = Add (scores, bias)
                y = Softmax (masked)
            }
            """),
        "attention.onnx",
    )
    run = f"polygraphy run attention.onnx {runner} --save-inputs i.json"
    done = polygraphy(run)
    assert done.code == 0
    assert "mask | Using whole numbers from 0 to 1" in done.out
    assert "scores | Using" not in done.out
    [feed] = load_json("i.json")
    assert feed["mask"].dtype == np.float32
    assert set(feed["mask"].ravel()) == {0, 1}
    assert len(set(feed["scores"].ravel())) > 64
    done = polygraphy(f"{run} --val-range mask:[0.25,0.5]")
    assert "mask | Using" not in done.out
    [feed] = load_json("i.json")
    assert 0.25 <= feed["mask"].min() < feed["mask"].max() <= 0.5


def test_a_range_that_is_given_wins(embedding: Path, polygraphy: Run) -> None:
    from polygraphy.json import load_json

    for given in ("[3,4]", "ids:[3,4]"):
        done = polygraphy(f"{RUN} --val-range {given} --save-inputs i.json")
        assert done.code == 0
        assert "ids | Using" not in done.out
        [feed] = load_json("i.json")
        assert set(feed["ids"]) == {3, 4}


def test_bare_bytes_there_and_back(embedding: Path, polygraphy: Run) -> None:
    options = "--save-outputs a.json --save-input-blob blobs --iterations 2"
    assert polygraphy(f"{RUN} {options}").code == 0
    assert Path("blobs/0000000001/ids.bin").stat().st_size == 320
    assert polygraphy(f"{RUN} --load-inputs blobs --load-outputs a.json").code == 0
    assert polygraphy(f"{RUN} --load-inputs blobs/0000000001 --load-outputs a.json").code == 1
    Path("blobs/0000000001/ids.bin").write_bytes(b"123")
    done = polygraphy(f"{RUN} --load-inputs blobs")
    assert done.code == 2
    assert "elements of 8 bytes, but the data has 3" in done.err


def test_without_a_folder_bytes_go_to_the_current_one(embedding: Path, polygraphy: Run) -> None:
    assert polygraphy(f"{RUN} --save-input-blob").code == 0
    assert Path("0000000000/ids.bin").exists()
    alone = polygraphy("polygraphy run --save-input-blob --load-outputs a.json b.json")
    assert alone.code == 2


def test_data_sets_of_the_onnx_project(embedding: Path, polygraphy: Run) -> None:
    Path("test_data_set_0").mkdir()
    for place, array in enumerate((np.full(40, 7), np.ones((40, 1), np.int32))):
        tensor = numpy_helper.from_array(array)
        Path(f"test_data_set_0/input_{place}.pb").write_bytes(tensor.SerializeToString())
    done = polygraphy(f"{RUN} --load-inputs . --save-outputs o.json")
    assert done.code == 0
    from polygraphy.comparator import RunResults

    assert (RunResults.load("o.json")[0][1][0]["y"] == 7).all()


def test_tensors_need_their_library(embedding: Path, polygraphy: Run) -> None:
    from importlib.util import find_spec

    done = polygraphy(f"{RUN} --data-loader-backend-module torch")
    if find_spec("torch") is None:
        assert done.code == 3
        assert "pip install torch" in done.err
    else:
        assert done.code == 0


def test_data_sets_can_be_looked_at_and_converted(embedding: Path, polygraphy: Run) -> None:
    for index in range(2):
        folder = Path(f"test_data_set_{index}")
        folder.mkdir()
        array = numpy_helper.from_array(np.full(3, index, np.int32), "ids")
        (folder / "input_0.pb").write_bytes(array.SerializeToString())
    shown = polygraphy("polygraphy inspect data . --all -s")
    assert shown.code == 0
    assert "2 iteration" in shown.out
    assert "[1 1 1]" in shown.out
    assert polygraphy("polygraphy data convert . inputs.json").code == 0
    assert polygraphy("polygraphy inspect diff . inputs.json").code == 0
    assert "1 iteration" in polygraphy("polygraphy inspect data test_data_set_1").out


def test_bare_bytes_tell_nothing_alone(embedding: Path, polygraphy: Run) -> None:
    assert polygraphy(f"{RUN} --save-input-blob blobs").code == 0
    for command in ("inspect data blobs", "data convert blobs inputs.json"):
        done = polygraphy(f"polygraphy {command}")
        assert done.code == 3
        assert "blobs contains raw bytes, without data types and shapes" in done.err
