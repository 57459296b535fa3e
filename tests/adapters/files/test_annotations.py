from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

from polygraphy.adapters.files.store import writers as annotations
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.domain.errors import FileError
from polygraphy.domain.results.results import IterationResult, RunResults


def saved(path: Path, *steps: dict[str, Any], runners: tuple[str, ...] = ("a",)) -> Any:
    with FileResultStore().writer(path, RunResults) as writer:
        for step in steps:
            writer.add(RunResults((name, [IterationResult(step, 0.5, name)]) for name in runners))
    return json.loads(path.read_text())


def test_small_outputs_of_the_first_iteration_are_listed(tmp_path: Path) -> None:
    runners = ("trt-runner-N0-11/20/26-10:00:00", "trt-runner-N1-11/20/26-10:00:00", "mine")
    path = tmp_path / "o.json"
    tree = saved(path, {"y": np.eye(2)}, {"y": np.zeros((2, 2))}, runners=runners)
    rows = {"y": [[1.0, 0.0], [0.0, 1.0]]}
    assert tree["inference_results"] == {"trt-runner": rows, "trt-runner-2": rows, "mine": rows}
    assert list(tree)[-1] == "polygraphy_class"
    assert [len(iterations) for _, iterations in RunResults.load(str(path))] == [2, 2, 2]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array(3), 3),
        (np.array([True, False]), [True, False]),
        (np.array(["a", "ü"]), ["a", "ü"]),
        (np.array([1.5, -2], ml_dtypes.bfloat16), [1.5, -2.0]),
        (np.array([1 + 2j]), [[1.0, 2.0]]),
        (np.zeros((0, 2)), []),
        (np.array([math.inf]), [math.inf]),
        (np.zeros(10_000), [0.0] * 10_000),
    ],
)
def test_every_kind_of_element_has_a_form(tmp_path: Path, array: Any, expected: Any) -> None:
    tree = saved(tmp_path / "o.json", {"y": array})
    assert tree["inference_results"]["a"]["y"] == expected


def test_large_outputs_are_described(tmp_path: Path) -> None:
    tree = saved(tmp_path / "o.json", {"y": np.arange(10_001.0)})
    found = tree["inference_results"]["a"]["y"]
    assert found["shape"] == [10_001]
    assert (found["min"], found["max"], found["mean"], found["median"]) == (0, 10_000, 5000, 5000)


def test_what_is_added_stands_beside_the_results(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    before = saved(path, {"y": np.ones(3)})
    record = {"y": {"max_error": math.nan, "passed": False, "error_distribution": None}}
    FileResultStore().add_comparison(path, record)
    tree = json.loads(path.read_text())
    assert tree.pop("comparison_results")["y"]["passed"] is False
    assert tree == before
    assert (RunResults.load(str(path))[0][1][0]["y"] == 1).all()


def test_a_crash_while_adding_leaves_the_results_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    saved(path, {"y": np.ones(3)})
    before = path.read_bytes()
    with (
        patch.object(annotations, "write_json", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        FileResultStore().add_comparison(path, {"y": {}})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["o.json"]


def test_nothing_is_added_to_results_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    saved(path, {"y": np.ones(3)})
    saved(other := tmp_path / "other.json", {"y": np.zeros(3)})
    other.replace(path)
    with pytest.raises(FileError, match="another process has replaced it"):
        FileResultStore().add_comparison(path, {"y": {}})
    FileResultStore().save(RunResults.load(str(path)), path)
    assert "comparison_results" not in path.read_text()


@pytest.mark.parametrize("text", ["", "{}", '{"lst": []}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "o.json"
    path.write_text(text)
    with pytest.raises(FileError, match="Cannot append"):
        FileResultStore().add_comparison(path, {})
    assert path.read_text() == text
    with pytest.raises(FileError, match="Could not read"):
        FileResultStore().add_comparison(tmp_path / "missing.json", {})


def test_folders_and_files_of_tensors_stay_as_they_are(tmp_path: Path) -> None:
    for name in ("folder", "o.safetensors"):
        with FileResultStore().writer(tmp_path / name, RunResults) as writer:
            writer.add(RunResults([("a", [IterationResult({"y": np.ones(2)})])]))
        FileResultStore().add_comparison(tmp_path / name, {"y": {}})
        assert [len(its) for _, its in next(FileResultStore().iterate(tmp_path / name, RunResults))]
