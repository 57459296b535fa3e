"""Answers of many iterations, of which the earlier ones are packed away."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.accuracy import answer_log
from polygraphy.domain.accuracy.accuracy import AccuracyResult
from polygraphy.domain.accuracy.answer_log import AnswerLog
from polygraphy.domain.compare import SimpleCompareFunc, UncomparedResult
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.errors import FileError
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.tensors.metadata import TensorMetadata
from tests.support.examples import scaled

AB = ("a", "b")


@pytest.fixture(autouse=True)
def few_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_log, "MOST", 4)


def settled(value: float, reference: float, function: Any = None) -> CompareResult:
    compare = function or SimpleCompareFunc()
    sides = [IterationResult({"y": np.array([each], np.float32)}) for each in (value, reference)]
    result: CompareResult = compare(*sides)["y"]
    result.settle()
    return result


def described(answer: Any) -> Any:
    """Return all that there is to know about an answer, as text: NaN equals NaN."""
    if isinstance(answer, bool):
        return answer
    facts = {**vars(copy.copy(answer))}  # A copy has every metric.
    facts |= facts.pop("_metrics", {})
    return type(answer).__name__, str(sorted(item for item in facts.items() if item[1] is not None))


NUMBERS = st.sampled_from([0.0, 1.0, 1.5, -2.0, math.nan, math.inf])
ANSWERS = st.one_of(
    st.booleans(),
    st.builds(settled, NUMBERS, NUMBERS),
    st.builds(settled, NUMBERS, NUMBERS, st.just(SimpleCompareFunc(check_error_stat="quantile"))),
    st.just(UncomparedResult("It is not there.", is_missing=True)),
)
ITERATIONS = st.lists(st.dictionaries(st.sampled_from("xyz"), ANSWERS, max_size=3), max_size=12)


class MemorySpool:
    """Keeps bytes in memory, as many as there is room for."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.kept: list[bytes] = []

    def put(self, data: bytes) -> int:
        if self.room is not None and sum(map(len, self.kept)) + len(data) > self.room:
            raise FileError("There is no room left.")
        self.kept.append(data)
        return len(self.kept) - 1

    def take(self, ticket: int) -> bytes:
        return self.kept[ticket]


def logged(iterations: list[Any], spool: MemorySpool | None = None) -> AccuracyResult:
    result = AccuracyResult()
    log = result.start(AB, lambda: spool or MemorySpool())
    for answers in iterations:
        log.add(answers)
    return result


def plain(iterations: Any) -> list[Any]:
    return [{name: described(each) for name, each in answers.items()} for answers in iterations]


@settings(max_examples=scaled(40), deadline=None)
@given(ITERATIONS)
def test_what_is_read_back_is_what_was_put(iterations: list[Any]) -> None:
    result, usual = logged(iterations), AccuracyResult([(AB, iterations)])
    for _ in range(2):  # Packed, then unpacked.
        [(pair, reading)] = result.read()
        assert (pair, len(reading), plain(reading)) == (AB, len(iterations), plain(iterations))
        assert bool(result) == bool(usual)
        assert result.stats() == usual.stats() == result.stats(AB)
        assert result.output_names() == usual.output_names()
        worst, expected = result.worst(), usual.worst()
        assert (worst is None) == (expected is None)
        if worst is not None and expected is not None:
            assert (worst.iteration, worst.name) == (expected.iteration, expected.name)
        assert plain(result[AB]) == plain(iterations)
    assert all(one is other for one, other in zip(result[AB], result[0][1]))


def ways_to_look() -> Iterator[Any]:
    yield "index", lambda result: result[AB]
    yield "position", lambda result: result[0][1]
    yield "items", lambda result: next(result.items())[1]
    yield "values", lambda result: result.values()[0]
    yield "pop", lambda result: result.pop()[1]
    yield "reversed", lambda result: next(reversed(result))[1]
    yield "pickle", lambda result: pickle.loads(pickle.dumps(result))[AB]
    yield "copy", lambda result: copy.deepcopy(result)[AB]
    yield "outputs", lambda result: [{n: answer} for _, _, n, answer in result.outputs()]


@pytest.mark.parametrize("look", [pytest.param(look, id=name) for name, look in ways_to_look()])
def test_whoever_looks_sees_a_list_of_all(look: Any) -> None:
    iterations = [{"y": index % 3 == 0} for index in range(20)]
    found = look(logged(iterations))
    assert isinstance(found, list)
    assert found == iterations
    assert AccuracyResult([(AB, iterations)]) == logged(iterations)


def test_memory_holds_few_until_somebody_looks() -> None:
    spool = MemorySpool()
    result = AccuracyResult()
    log = result.start(AB, lambda: spool)
    for _ in range(100):
        log.add({"y": True})
        assert list.__len__(log) <= 4
    assert result and result.stats() == (100, 0, 100)
    assert list.__len__(log) <= 4
    assert len(result[AB]) == 100
    kept = len(spool.kept)
    for _ in range(10):
        result[AB].append({"y": True})
        log.add({"y": True})  # A caller may hold on to what would be packed.
    assert (len(result[AB]), len(spool.kept)) == (120, kept)


def test_a_part_of_an_iteration_is_added_to_the_last() -> None:
    log = AnswerLog(MemorySpool)
    for index in range(10):
        log.add({"x": True})
        log.extend_last({"y": index % 2 == 0, "z": True})
    assert list(log.all_iterations()) == [
        {"x": True, "y": index % 2 == 0, "z": True} for index in range(10)
    ]


class Unusual(CompareResult):
    """An answer that cannot be packed."""

    def __init__(self) -> None:
        super().__init__()
        self.explain = lambda: "because"

    def __bool__(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["text", 1, None, TensorMetadata(), Unusual()])
def test_answers_of_other_functions_stay_the_same_objects(answer: Any) -> None:
    iterations = [{"y": answer} for _ in range(10)]
    result = logged(iterations)
    assert all(found is given for found, given in zip(result[AB], iterations, strict=True))


def test_without_room_nothing_is_lost() -> None:
    iterations = [{"y": index > 5} for index in range(40)]
    for room in (0, 100, 200):
        assert logged(iterations, MemorySpool(room))[AB] == iterations


def test_reevaluating_changes_all() -> None:
    result = logged([{"y": settled(1.0 + index, 1.0)} for index in range(20)])
    assert result.stats() == (1, 19, 20)
    result.reevaluate(Tolerance("max", atol=9.0))
    assert result.stats() == (10, 10, 20)


def test_answers_that_equal_those_before_take_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_log, "MOST", 120)
    spool, answers = MemorySpool(), {name: settled(1.5, 1.5) for name in "uvwxyz"}
    logged([dict(answers) for _ in range(30)], spool)
    numbers = 6 * 6 * 8  # Six numbers of each answer.
    assert len(spool.kept[0]) < 19 * (numbers + 60) + 2000
