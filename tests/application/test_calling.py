from __future__ import annotations

from typing import Any

import pytest

from polygraphy.application.calling import check_takes
from polygraphy.comparator import Comparator, RunResults
from polygraphy.domain.errors import InconclusiveError, UsageError
from tests.application.runs import results


class Callable:
    def __call__(self, only: Any) -> dict[str, bool]:
        return {"y": True}


def test_a_function_that_takes_something_else_is_located_where_it_is() -> None:
    def mine(first: Any) -> dict[str, bool]:
        return {"y": True}

    for function in (mine, Callable()):
        with pytest.raises(UsageError, match=r"test_calling\.py, line \d+\).*too many positional"):
            Comparator.compare_accuracy(results(a=[1], b=[1]), compare_func=function)
    with pytest.raises(UsageError, match=r"post-processing function.*missing a required"):
        Comparator.postprocess(results(a=[1]), lambda one, two: one)
    check_takes(max, "function", "a number")
    check_takes(lambda *every: every, "function", "one", "two")


def test_an_error_inside_a_function_is_its_own() -> None:
    def broken(first: Any, second: Any) -> dict[str, bool]:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        Comparator.compare_accuracy(results(a=[1], b=[1]), compare_func=broken)


def test_a_function_that_answers_about_nothing_checks_nothing() -> None:
    for given in (results(a=[1], b=[1]), iter([results(a=[1], b=[1])])):
        with pytest.raises(InconclusiveError, match="answered about no output"):
            Comparator.compare_accuracy(given, compare_func=lambda first, second: {})


def test_sequences_are_not_compared() -> None:
    runs = RunResults(results(a=[1], b=[1]))
    runs[0][1][0]["y"] = [[1.0, 2.0], [1.0]]
    verdicts = Comparator.compare_accuracy(runs)
    assert not verdicts
    reason = verdicts[0][0][1][0]["y"].reason
    assert "is a sequence of tensors of different shapes" in reason
