"""Objects of the domain, field by field: the text of each, and the complaint about each that is damaged."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.files.store import json_io
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.compare.indices import IndicesResult, Misplaced
from polygraphy.domain.compare.metric import MetricResult
from polygraphy.domain.compare.metrics import L2Result, L2Threshold
from polygraphy.domain.compare.result import OutputCompareResult, UncomparedResult
from polygraphy.domain.compare.simple import SimpleCompareFunc
from polygraphy.domain.errors import FileError, MissingDependencyError
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo


def fields_of(value: Any) -> Any:
    return json.loads(json_io.dumps(value))


def with_marker(marker: str, **fields: Any) -> dict[str, Any]:
    return {**fields, "polygraphy_class": marker}


def read(tree: Any) -> Any:
    return json_io.loads(json.dumps(tree), object)


# Results.


def test_outputs_are_wrapped() -> None:
    saved = fields_of(IterationResult({"y": np.zeros(2)}, 0.25, "mine"))
    assert list(saved) == ["outputs", "runtime", "runner_name", "polygraphy_class"]
    assert list(saved["outputs"]["y"]) == ["values", "polygraphy_class"]
    assert saved["outputs"]["y"]["polygraphy_class"] == "LazyArray"
    assert saved["outputs"]["y"]["values"]["polygraphy_class"] == "ndarray"
    assert (saved["runtime"], saved["runner_name"]) == (0.25, "mine")


def test_outputs_that_are_numbers_become_arrays() -> None:
    loaded = json_io.loads(json_io.dumps(IterationResult({"y": 3.5, "n": [1, 2]})), IterationResult)
    np.testing.assert_array_equal(loaded["y"], np.array(3.5))
    np.testing.assert_array_equal(loaded["n"], np.array([1, 2]))


@pytest.mark.parametrize("keys", ["ab", (2, 1)])
def test_maps_of_a_classifier_stay_maps(keys: Sequence[Any]) -> None:
    maps = [dict(zip(keys, row, strict=True)) for row in ([0.25, 0.75], [0.5, 0.5])]
    loaded = json_io.loads(json_io.dumps(IterationResult({"y": maps})), IterationResult)
    assert loaded["y"] == maps


def test_a_subclass_is_saved_as_its_base() -> None:
    class Mine(RunResults):
        pass

    assert type(json_io.loads(json_io.dumps(Mine([("a", [])])), object)) is RunResults


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "'lst' is missing"),
        ({"lst": 3}, "an object of type 'RunResults' in it is damaged"),
        ({"lst": [["a"]]}, "an object of type 'RunResults' in it is damaged"),
        ({"lst": [["a", [{"y": 1}]]]}, "dict found where IterationResult is expected"),
    ],
)
def test_damaged_results(fields: Any, complaint: str) -> None:
    with pytest.raises(FileError, match=complaint):
        read(with_marker("RunResults", **fields))


# Verdicts.


@pytest.mark.parametrize(
    ("statistics", "saved"),
    [("max", "max"), (("elemwise",), "elemwise"), (("max", "mean"), ["max", "mean"])],
)
def test_tolerances(statistics: Any, saved: Any) -> None:
    tolerance = Tolerance(check_error_stat=statistics, atol=0.5, rtol=float("inf"))
    expected = {"check_error_stat": saved, "atol": 0.5, "rtol": float("inf")}
    assert fields_of(tolerance) == with_marker("SimpleThreshold", **expected)
    assert json_io.loads(json_io.dumps(tolerance), Tolerance) == tolerance


@pytest.mark.parametrize("statistics", ["elemwise", "max", "quantile", ["mean", "median"]])
@pytest.mark.parametrize("offset", [0.0, 0.5, np.nan])
def test_a_verdict_is_the_same_when_it_is_read(statistics: Any, offset: float) -> None:
    compare = SimpleCompareFunc(check_error_stat={"": statistics}, atol=1e-3, rtol=1e-3)
    values = np.linspace(1, 2, 50, dtype=np.float32)
    answers = compare(
        IterationResult({"y": values + np.float32(offset)}), IterationResult({"y": values})
    )
    saved = answers["y"]
    loaded = json_io.loads(json_io.dumps(saved), OutputCompareResult)
    assert bool(loaded) == bool(saved) == (offset == 0)
    assert repr(fields_of(loaded)) == repr(fields_of(saved))  # As NaN does not equal itself.
    assert (loaded.as_fields()["passed"] is None) == (statistics != "elemwise")


def test_a_failure_without_metrics_is_a_bare_false() -> None:
    verdict = AccuracyResult(
        [(("a", "b"), [{"y": UncomparedResult("shapes"), "z": np.bool_(True)}])]
    )
    assert fields_of(verdict) == with_marker(
        "AccuracyResult",
        lst=[[["a", "b"], [{"y": False, "z": True}]]],
        aggregation="per_sample",
    )
    loaded = json_io.loads(json_io.dumps(verdict), AccuracyResult)
    assert loaded[("a", "b")] == [{"y": False, "z": True}]
    assert not loaded


@pytest.mark.parametrize(
    ("kind", "field", "threshold", "good", "bad", "function"),
    [
        ("L2", "l2_norm", 0.5, 0.5, 0.51, "l2"),
        ("CosineSimilarity", "cosine_similarity", 0.9, 0.9, 0.89, "cosine_similarity"),
        ("Psnr", "psnr", 30, float("inf"), 29, "psnr"),
        ("Snr", "snr", 20, 20, -float("inf"), "snr"),
        ("PerceptualMetrics", "lpips", 0.1, 0, 0.2, "perceptual_metrics"),
        ("NormalizedL2", "normalized_l2", 0.5, 0.5, 0.6, "normalized_l2"),
        ("Sqnr", "sqnr", 20, 20, 19, "sqnr"),
    ],
)
def test_single_metrics(
    kind: str, field: str, threshold: float, good: float, bad: float, function: str
) -> None:
    limit = "Lpips" if kind == "PerceptualMetrics" else kind
    thresholds = with_marker(f"{limit}Threshold", threshold=threshold)
    for value, passes in ((good, True), (bad, False), (float("nan"), False), (None, False)):
        tree = with_marker(f"{kind}Result", **{field: value, "thresholds": thresholds})
        loaded = read(tree)
        assert bool(loaded) is passes
        assert loaded.metric_fields() == (field,)
        assert repr(fields_of(loaded)) == repr(tree)  # As NaN does not equal itself.
    unlimited = read(with_marker(f"{kind}Result", **{field: good, "thresholds": None}))
    assert isinstance(unlimited, MetricResult)
    assert not unlimited
    result = with_marker("AccuracyResult", lst=[[["a", "b"], [{"y": tree}]]])
    assert read(result).label == function


def test_the_aggregation_is_kept() -> None:
    iterations = [{"y": L2Result(value, L2Threshold(1.0))} for value in (0.0, 1.5)]
    verdict = AccuracyResult([(("a", "b"), iterations)])
    for aggregation, passes in (("per_sample", False), ("average", True)):
        verdict.aggregation = aggregation
        assert fields_of(verdict)["aggregation"] == aggregation
        loaded = json_io.loads(json_io.dumps(verdict), AccuracyResult)
        assert loaded.aggregation == aggregation
        assert bool(loaded) is passes
    assert read(with_marker("AccuracyResult", lst=[])).aggregation == "per_sample"


def test_verdicts_about_indices_are_bare() -> None:
    misplaced = Misplaced((0,), 3, None)
    verdicts = {"y": IndicesResult(2, 0, None, 0), "z": IndicesResult(2, 1, misplaced, 0)}
    loaded = json_io.loads(
        json_io.dumps(AccuracyResult([(("a", "b"), [verdicts])])), AccuracyResult
    )
    assert loaded[("a", "b")] == [{"y": True, "z": False}]


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        (with_marker("AccuracyResults", lst=[3]), "int found where AccuracyResult is expected"),
        (
            with_marker("AccuracyResult", lst=[[["a"], []]]),
            "an object of type 'AccuracyResult' in it is damaged",
        ),
        (with_marker("AccuracyResult", lst=[[["a", "b"], [3]]]), "found where dict is expected"),
        (with_marker("OutputCompareResult", passed=True), "'thresholds' is missing"),
        (
            with_marker("OutputCompareResult", passed=True, thresholds=3),
            "int found where Tolerance is expected",
        ),
        (
            with_marker("SimpleThreshold", check_error_stat="mode", atol=0, rtol=0),
            "an object of type 'SimpleThreshold' in it is damaged: Error statistic 'mode' does not exist",
        ),
        (
            with_marker("AccuracyResult", lst=[], aggregation="median"),
            "its verdicts are aggregated by 'median', not by per_sample or average",
        ),
        (with_marker("L2Result", thresholds=None), "'l2_norm' is missing"),
        (
            with_marker("L2Result", l2_norm=1, thresholds=3),
            "int found where MetricThreshold is expected",
        ),
    ],
)
def test_damaged_verdicts(tree: Any, complaint: str) -> None:
    with pytest.raises(FileError, match=complaint):
        read(tree)


def test_all_verdicts_together() -> None:
    verdicts = AccuracyResults([AccuracyResult(), AccuracyResult()])
    assert fields_of(verdicts)["polygraphy_class"] == "AccuracyResults"
    assert json_io.loads(json_io.dumps(verdicts), AccuracyResults) == verdicts


# Tactics.

INFO = TensorInfo("DataType.FLOAT", (4, 4, 2, 1), -1, 1)
OLD_INFO = TensorInfo("DataType.HALF", (1,), None, None)


def test_replays() -> None:
    replay = TacticReplay().add("conv", Algorithm(2147483661, -5, [INFO], [OLD_INFO, INFO]))
    info = with_marker(
        "TensorInfo",
        dtype="DataType.FLOAT",
        strides=[4, 4, 2, 1],
        vectorized_dim=-1,
        components_per_element=1,
    )
    saved = fields_of(replay)
    assert list(saved) == ["replay", "polygraphy_class"]
    assert saved["polygraphy_class"] == "TacticReplayData"
    algorithm = saved["replay"]["conv"]
    assert list(algorithm) == ["implementation", "tactic", "inputs", "outputs", "polygraphy_class"]
    assert algorithm["inputs"] == [info]
    assert list(algorithm["inputs"][0]) == list(info)
    assert json_io.loads(json_io.dumps(replay), TacticReplay) == replay


def test_fields_of_other_versions_are_passed_over() -> None:
    tree = fields_of(Algorithm(1, 2, [INFO], []))
    tree["workspace"] = tree["inputs"][0]["format"] = 3
    assert read(tree) == Algorithm(1, 2, [INFO], [])


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        (with_marker("TacticReplayData", replay={"a": 3}), "int found where Algorithm is expected"),
        (
            with_marker("Algorithm", implementation=1, tactic=2, inputs=[3], outputs=[]),
            "TensorInfo",
        ),
        (with_marker("Algorithm", implementation=1), "'tactic' is missing"),
        (with_marker("TensorInfo", dtype="DataType.FLOAT"), "'strides' is missing"),
        (with_marker("TensorInfo", **{**fields_of(INFO), "strides": [4, []]}), "list found where"),
        (
            with_marker("Algorithm", implementation=1, tactic={}, inputs=[], outputs=[]),
            "dict found",
        ),
        (with_marker("TacticReplayData", replay=json.loads("[" * 500 + "]" * 500)), "too deeply"),
    ],
)
def test_damaged_replays(tree: Any, complaint: str) -> None:
    with pytest.raises(FileError, match=complaint):
        read(tree)


# PyTorch, of which a small double stands in.


class _Tensor:
    def __init__(self, values: list[float]) -> None:
        self.values = values


_Tensor.__module__, _Tensor.__qualname__ = "torch", "Tensor"


class _Parameter(_Tensor):
    pass


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def save(tensor: _Tensor, stream: Any) -> None:
        stream.write(b"PK\x03\x04" + json.dumps(tensor.values).encode() + b" " * 5000)

    def load(stream: Any, *, weights_only: bool, map_location: str) -> _Tensor:
        assert weights_only
        assert map_location == "cpu"
        content = stream.read()
        assert content.startswith(b"PK\x03\x04")
        return _Tensor(json.loads(content[4:]))

    module: Any = ModuleType("torch")
    module.Tensor, module.save, module.load = _Tensor, save, load
    monkeypatch.setitem(sys.modules, "torch", module)
    return module  # type: ignore[no-any-return]


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("kind", [_Tensor, _Parameter])
def test_tensors_come_back(kind: type, tmp_path: Any) -> None:
    saved = fields_of(kind([1.5]))
    assert list(saved) == ["tensor", "polygraphy_class"]
    assert saved["polygraphy_class"] == "Tensor"
    json_io.save({"x": kind([1.5, 2])}, tmp_path / "tensor.json")
    assert json_io.load(tmp_path / "tensor.json", dict)["x"].values == [1.5, 2]


@pytest.mark.usefixtures("torch")
def test_tensors_are_outputs_as_they_are() -> None:
    saved = fields_of(IterationResult({"y": _Tensor([1.0])}))
    assert saved["outputs"]["y"]["values"]["polygraphy_class"] == "Tensor"
    loaded = json_io.loads(json_io.dumps(IterationResult({"y": _Tensor([1.0])})), IterationResult)
    assert loaded["y"].values == [1.0]


@pytest.mark.usefixtures("torch")
def test_a_damaged_tensor_is_reported() -> None:
    with pytest.raises(FileError, match="a tensor in it is damaged"):
        read(with_marker("Tensor", tensor="UEsDBAAA"))


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # As if it were not installed.
    with pytest.raises(
        MissingDependencyError, match="requires PyTorch, which is not installed"
    ) as caught:
        read([with_marker("Tensor", tensor="UEsDBAAA")])
    assert caught.value.install.endswith("pip install torch")


def test_saving_arrays_does_not_import_torch() -> None:
    before = set(sys.modules)
    json_io.dumps(IterationResult({"y": np.zeros(1)}))
    assert "torch" not in set(sys.modules) - before
