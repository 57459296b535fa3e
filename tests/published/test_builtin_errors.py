"""What scripts catch and hand over in the classes of Python: files, keys, plain dictionaries."""

from __future__ import annotations

import pickle
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy import json
from polygraphy.backend.common import bytes_from_path
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.comparator import (
    AccuracyResult,
    AccuracyResults,
    Comparator,
    IterationResult,
    RunResults,
)
from polygraphy.exception import PolygraphyException


@pytest.mark.parametrize("results", [RunResults(), AccuracyResult()])
def test_a_key_that_results_lack(results: Any) -> None:
    for error in (KeyError, PolygraphyException):
        with pytest.raises(error, match=r"does not exist\. Available: none"):
            results["a", "b"]


FILES = [json.load_json, RunResults.load, AccuracyResults.load, onnx_from_path, bytes_from_path]


@pytest.mark.parametrize("load", FILES)
@pytest.mark.parametrize("error", [FileNotFoundError, PolygraphyException])
def test_a_file_that_does_not_exist(load: Any, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error, match=r"nothing\.json does not exist"):
        load(str(tmp_path / "nothing.json"))


@pytest.mark.parametrize("text", ["{", "[1,", "text", "hello", '{"a": 1}}'])
@pytest.mark.parametrize("error", [JSONDecodeError, ValueError, PolygraphyException])
def test_a_text_that_is_no_json(text: str, error: type[Exception], tmp_path: Path) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(text)
    for load, source in ((json.from_json, text), (json.load_json, path), (RunResults.load, path)):
        with pytest.raises(error) as caught:
            load(str(source))
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value) and str(again).startswith("Could not ")


def test_a_damaged_file_is_a_value_error(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    RunResults([("a", [IterationResult({"y": np.ones(3)})])]).save(str(path))
    path.write_text(path.read_text().replace("runner_name", "runner"))
    with pytest.raises(ValueError, match="is damaged: 'runner_name' is missing"):
        RunResults.load(str(path))


def test_iterations_may_be_plain_dictionaries(tmp_path: Path) -> None:
    plain, path = {"y": np.ones(3, np.float32)}, str(tmp_path / "results.json")
    results = RunResults([("a", [plain])])
    results["b"] = [plain]
    results.append(("c", [plain]))
    results.extend([("d", [plain])])
    assert bool(Comparator.compare_accuracy(results))
    results["d"].append(plain)
    results.save(path)
    loaded = RunResults.load(path)
    assert [len(iterations) for _, iterations in loaded] == [1, 1, 1, 2]
    assert loaded["c"][0].runner_name == "c" and loaded["d"][1]["y"].tolist() == [1, 1, 1]


def test_a_run_that_is_appended_stays_the_callers_list() -> None:
    results, iterations = RunResults(), [IterationResult({"y": np.ones(3)})]
    results.append(("a", iterations))
    iterations.append(IterationResult({"y": np.zeros(3)}))
    assert len(results["a"]) == 2 and len(RunResults(results)["a"]) == 2
