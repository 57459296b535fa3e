"""Pickles that were written once load after any move: those of NVIDIA's Polygraphy 0.53.6, and ours.

`tests/data/pickles` holds them. They were written by ``pickle.dump`` of objects such as those that
the tests expect; nothing in them is NVIDIA's but the names of classes and attributes.
"""

from __future__ import annotations

import pickle
import pickletools
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy import comparator
from polygraphy.backend.trt import Profile, ShapeTuple
from polygraphy.common import FormattedArray, TensorMetadata
from polygraphy.comparator import (
    AccuracyResults,
    Comparator,
    IndicesCompareFunc,
    IterationResult,
    OutputCompareResult,
    RunResults,
    SimpleCompareFunc,
    SimpleThreshold,
)
from polygraphy.datatype import DataType

FOLDER = Path(__file__).parents[1] / "data" / "pickles"


def kept(name: str) -> Any:
    return pickle.loads((FOLDER / f"{name}.pkl").read_bytes())


def test_results_of_nvidia() -> None:
    results = kept("nvidia_results")
    assert type(results) is RunResults
    assert results.keys() == ["a", "b"]
    first, second = results["a"]
    assert first.runner_name == "a" and first.runtime is None
    np.testing.assert_array_equal(first["y"], np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(second["z"], [3, 4])
    assert first["z"].dtype == np.int64
    assert results["b"][0] == IterationResult({"y": np.ones((2, 3), np.float32)})
    assert results["b"][0].runtime == 0.5
    assert results["b"][0].compute_dtype("y") is None


def test_results_of_nvidia_can_be_compared_and_saved(tmp_path: Path) -> None:
    results = kept("nvidia_results")
    del results["a"][1]
    assert not Comparator.compare_accuracy(RunResults(list(results)))
    results.save(tmp_path / "r.json")
    assert RunResults.load(tmp_path / "r.json") == results


def test_metadata_and_profiles_of_nvidia() -> None:
    assert kept("nvidia_metadata") == TensorMetadata().add("x", DataType.FLOAT32, ("N", 3))
    profile = kept("nvidia_profile")
    assert type(profile) is Profile
    assert profile == {"x": ShapeTuple((1, 2), (1, 2), (3, 4))}
    assert profile.add("z", max=(2,))["z"].max == (2,)


def test_verdicts_of_nvidia() -> None:
    accuracy = kept("nvidia_accuracy_simple")
    assert type(accuracy) is AccuracyResults and not accuracy
    answer = accuracy[0]["c", "d"][0]["y"]
    assert type(answer) is OutputCompareResult and answer == False  # noqa: E712
    assert answer.max_absdiff == pytest.approx(1e-3, rel=1e-3)
    assert answer.thresholds == SimpleThreshold("elemwise", 1e-5, 1e-5)
    assert (answer.output0_name, answer.output1_name) == ("y", "y")
    assert accuracy[0].stats() == (0, 1, 1)


def test_verdicts_of_nvidia_follow_from_metrics() -> None:
    by_maximum = kept("nvidia_accuracy_max")
    assert not by_maximum
    assert by_maximum[0].reevaluate(SimpleThreshold("max", 0.5, 0))
    assert kept("nvidia_accuracy_cosine")
    assert not kept("nvidia_accuracy_cosine").reevaluate(
        type(kept("nvidia_accuracy_cosine")[0]["a", "b"][0]["y"].thresholds)(2.0)
    )


def test_ours() -> None:
    results, accuracy, metadata = kept("ours")
    assert type(results) is RunResults and results.keys() == ["a", "b"]
    np.testing.assert_array_equal(results["a"][0]["y"], np.arange(3, dtype=np.float32))
    assert results["b"][0].runtime == 0.5
    assert type(accuracy) is AccuracyResults and not accuracy
    assert accuracy[0].stats() == (0, 1, 1)
    assert metadata == TensorMetadata().add("x", DataType.FLOAT16, (1, "N"))


def named_modules(pickled: bytes) -> set[str]:
    """Return the modules of this package that a pickle of protocol 2 names."""
    named = {
        str(arg).split()[0] for op, arg, _ in pickletools.genops(pickled) if op.name == "GLOBAL"
    }
    return {module for module in named if module.startswith("polygraphy")}


def compared(function: Any, *, whole: bool) -> AccuracyResults:
    values = (np.array([1, 2]), np.array([2, 1])) if whole else (np.ones(3), np.ones(3) * 2)
    results = RunResults((name, [IterationResult({"y": each})]) for name, each in zip("ab", values))
    return Comparator.compare_accuracy(results, compare_func=function)


FUNCTIONS = [
    SimpleCompareFunc(),
    SimpleCompareFunc(atol=5),
    SimpleCompareFunc(check_error_stat="quantile"),
    *(
        getattr(comparator, name)()
        for name in comparator.__all__
        if name.endswith("CompareFunc")
        and name not in ("BaseCompareFunc", "CompareFunc", "PerceptualMetricsCompareFunc")
    ),
]


@pytest.mark.parametrize(
    "made",
    [
        RunResults([("a", [IterationResult({"y": np.ones(3)})])]),
        TensorMetadata().add("x", np.float32, (1, 2), min_shape=(1, 1), max_shape=(2, 2)),
        Profile().add("x", (1,), (2,), (3,)),
        FormattedArray(np.ones(3), (3,)),
        DataType.BFLOAT16,
    ],
    ids=lambda made: type(made).__name__,
)
def test_pickles_name_published_modules(made: Any) -> None:
    pickled = pickle.dumps(made, protocol=2)
    assert named_modules(pickled)
    for module in named_modules(pickled):
        assert module.split(".")[1] not in ("adapters", "application", "domain")
    again = pickle.loads(pickled)
    assert type(again) is type(made) and repr(again) == repr(made)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@given(
    st.lists(
        st.tuples(
            st.text(max_size=5),
            st.lists(st.dictionaries(st.text(max_size=3), st.integers(-5, 5)), max_size=3),
        ),
        max_size=3,
    )
)
def test_results_come_back(protocol: int, runs: list[tuple[str, list[dict[str, int]]]]) -> None:
    results = RunResults(
        (
            name,
            [
                IterationResult({key: np.array(value) for key, value in each.items()})
                for each in its
            ],
        )
        for name, its in runs
    )
    again = pickle.loads(pickle.dumps(results, protocol))
    assert type(again) is RunResults and again == results
    assert [it.runner_name for _, its in again for it in its] == [
        it.runner_name for _, its in results for it in its
    ]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
def test_verdicts_name_published_modules_and_come_back(function: Any) -> None:
    made = compared(function, whole=isinstance(function, IndicesCompareFunc))
    pickled = pickle.dumps(made, protocol=2)
    assert {module.split(".")[1] for module in named_modules(pickled)} == {"comparator"}
    again = pickle.loads(pickled)
    assert bool(again) == bool(made) and repr(again) == repr(made)


def test_every_class_is_where_its_pickles_look_for_it() -> None:
    """A runner in another process answers with them."""
    root = Path(comparator.__file__).parents[1]
    pattern = re.compile(r'@pickle_as\("([\w.]+)"\)\n(?:@.*\n)*class (\w+)')
    found = [pair for path in root.rglob("*.py") for pair in pattern.findall(path.read_text())]
    assert len(found) > 20
    for module, name in found:
        assert hasattr(import_module(module), name), f"{module}.{name}"
