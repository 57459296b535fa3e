from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import MemoryResultStore
from polygraphy.binding import bind
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults, PairResult
from polygraphy.domain.compare import OutputCompareResult, SimpleCompareFunc
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import IterationResult

AB, BC = ("a", "b"), ("b", "c")


def accuracy(*iterations: Mapping[str, Any], pair: tuple[str, str] = AB) -> AccuracyResult:
    return AccuracyResult([(pair, iterations)])


GOOD, BAD = {"y": True, "z": True}, {"y": True, "z": False}


@pytest.mark.parametrize(
    ("iterations", "passed"),
    [
        ([GOOD, GOOD], True),
        ([GOOD, BAD], False),
        ([], False),
        ([{}], False),
        ([{}, GOOD], False),
    ],
)
def test_passed_means_that_something_was_compared_and_all_matched(
    iterations: list[Any], passed: bool
) -> None:
    assert bool(accuracy(*iterations)) is passed


def test_every_pair_must_pass() -> None:
    assert AccuracyResult([(AB, [GOOD]), (BC, [GOOD])])
    assert not AccuracyResult([(AB, [GOOD]), (BC, [BAD])])
    assert not AccuracyResult()


def test_pairs_are_found_by_names_and_position() -> None:
    made: Any = AccuracyResult([(AB, [GOOD]), (BC, [BAD, BAD])])
    assert made.keys() == [AB, BC]
    assert made[BC] == [BAD, BAD]
    assert made["b", "c"] == [BAD, BAD]
    assert made[0] == (AB, [GOOD])
    assert BC in made
    with pytest.raises(UnknownNameError, match="Pair of runners"):
        made["a", "c"]


def test_matches_are_counted_per_pair() -> None:
    made = AccuracyResult([(AB, [GOOD, BAD, GOOD, {}]), (BC, [])])
    assert made.stats() == made.stats(AB) == (2, 2, 4)
    assert made.percentage() == 0.5
    assert made.stats(BC) == (0, 0, 0)
    assert made.percentage(BC) == 0


def test_outputs_are_named_once_and_yielded_with_their_place() -> None:
    made = AccuracyResult([(AB, [{"y": True}, {"z": False}]), (BC, [{"y": 1}])])
    assert made.output_names() == ["y", "z"]
    assert list(made.outputs()) == [(AB, 0, "y", True), (AB, 1, "z", False), (BC, 0, "y", 1)]


def test_the_label_is_that_of_the_function() -> None:
    assert AccuracyResult().label == "simple"
    made = accuracy(GOOD)
    made.label = "mine"
    assert AccuracyResult.label == "simple"


# The worst output.


def measured(absolute: float, atol: float = 1.0) -> OutputCompareResult:
    limits = Tolerance("max", atol=atol, rtol=0)
    return OutputCompareResult(absolute, math.inf, thresholds=limits)


def test_the_worst_output_exceeds_its_tolerance_the_most() -> None:
    made = AccuracyResult(
        [
            (AB, [{"y": measured(0.5)}, {"y": measured(4.0, atol=4.0), "z": measured(3.0)}]),
            (BC, [{"y": measured(2.0)}]),
        ]
    )
    worst = made.worst()
    assert worst is not None
    assert (worst.runners, worst.iteration, worst.name, worst.excess) == (AB, 1, "z", 3.0)
    assert worst.result is made[AB][1]["z"]


def test_the_worst_of_what_passed_comes_closest() -> None:
    worst = accuracy({"y": measured(0.5), "z": measured(0.25)}).worst()
    assert worst is not None
    assert (worst.name, worst.excess) == ("y", 0.5)


def test_nan_is_the_worst_of_all() -> None:
    worst = accuracy({"y": measured(1e300), "z": measured(math.nan)}).worst()
    assert worst is not None
    assert (worst.name, worst.excess) == ("z", math.inf)


def test_there_is_no_worst_without_metrics() -> None:
    assert AccuracyResult().worst() is None
    assert accuracy(GOOD).worst() is None
    only = accuracy({"y": False, "z": measured(0.5)}).worst()
    assert only is not None
    assert only.name == "z"


def test_the_worst_output_is_one_that_failed_if_any_did() -> None:
    first = IterationResult({"good": np.array([1e-6, 100.0009]), "bad": np.array([1.00002])})
    second = IterationResult({"good": np.array([0.0, 100.0]), "bad": np.array([1.0])})
    results = SimpleCompareFunc()(first, second)
    assert {name: bool(result) for name, result in results.items()} == {"good": True, "bad": False}
    worst = accuracy(results).worst()
    assert worst is not None
    assert worst.name == "bad"


# Several functions, one iteration, and files.


def test_all_functions_must_pass() -> None:
    assert AccuracyResults([accuracy(GOOD), accuracy(GOOD)])
    assert not AccuracyResults([accuracy(GOOD), accuracy(BAD)])
    assert not AccuracyResults()
    assert isinstance(AccuracyResults(), list)


def test_verdicts_are_saved_and_loaded() -> None:
    made = AccuracyResults([accuracy(GOOD), accuracy(BAD, pair=BC)])
    with bind(ResultStore, MemoryResultStore()):
        made.save("accuracy.json")
        assert AccuracyResults.load("accuracy.json") == made
        assert AccuracyResults.from_json(made.to_json()) == made


def test_a_pair_knows_what_failed() -> None:
    outputs = (IterationResult(), IterationResult())
    pair = PairResult(AB, 3, "simple", {"y": True, "z": False, "w": None}, outputs)
    assert pair.failed_outputs == ["z", "w"]
    with pytest.raises(AttributeError):
        pair.iteration = 4  # type: ignore[misc]
