"""Answers of two runs to samples, and what their numbers say."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.accuracy.samples import (
    Labels,
    SampleCounts,
    answers_of,
    labels_in,
    mcnemar,
    share_interval,
    task_metrics,
)
from polygraphy.domain.errors import InputError


def test_the_answer_of_scores_is_the_place_of_the_largest() -> None:
    scores = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]], np.float32)
    assert answers_of(scores, "y", is_single=False) == [("1",), ("0",)]
    assert answers_of(scores[:1, :, None, None], "y", is_single=True) == [("1",)]
    assert answers_of(scores[0], "y", is_single=False) == [("1",)]
    assert answers_of(np.array([[3, 9]], np.uint8), "y", is_single=True) == [("1",)]
    assert answers_of(np.array([[1.0, np.nan]]), "y", is_single=True) == [("NaN",)]
    assert answers_of(np.array([[-np.inf, np.inf]]), "y", is_single=True) == [("1",)]


def test_the_answer_of_indices_and_texts_is_what_they_are() -> None:
    assert answers_of(np.array([[4, 2]]), "y", is_single=True) == [("4", "2")]
    assert answers_of(np.array([4, 2]), "y", is_single=False) == [("4",), ("2",)]
    assert answers_of(np.array(["cat", "dog"]), "y", is_single=False) == [("cat",), ("dog",)]


def test_of_one_number_none_is_the_largest() -> None:
    with pytest.raises(InputError, match=r"'y' has one number per sample.*--postprocess"):
        answers_of(np.array([[0.3]]), "y", is_single=True)


def test_labels_come_in_order_or_by_name() -> None:
    names = ["cat/1.png", "cat/2.png", "dog/1.png"]
    assert labels_in("0\n0\n1\n", "l", names).texts == ["0", "0", "1"]
    named = "file,label\ndog/1.png,dog\ncat/2.png,cat\ncat/1.png,cat\n"
    assert labels_in(named, "l", names) == Labels(["0", "0", "1"], ["cat", "dog"])
    assert labels_in("1,7\n2.png,8\n", "l", ["a/1.png", "a/2.png"]).texts == ["7", "8"]
    assert labels_in("3\n", "l", None).texts == ["3"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0\n1\n", "l.csv: there are 2 labels, but 3 samples"),
        ("a,0\n", "l.csv: 2 samples of 3 have no label, such as 'b'"),
        ("a,0\na,1\n", "l.csv: sample 'a' has two labels"),
        ("a,0,1\n", "l.csv: 'a,0,1' is not a label"),
        ("", "l.csv: there are 0 labels, but 3 samples"),
    ],
)
def test_labels_that_cannot_be_meant_are_one_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        labels_in(text, "l.csv", ["a", "b", "c"])


def test_samples_that_changed_are_listed_with_what_is_right() -> None:
    counts = SampleCounts(Labels(["0", "1", "1"], ["cat", "dog"]))
    for name, first, second in (("a", "0", "0"), ("b", "0", "1"), ("c", "0", "0")):
        counts.add(name, (first,), (second,))
    found = counts.result(("new", "old"), "y")
    assert (found.total, found.agreed, found.right_alone) == (3, 2, (0, 1))
    [change] = found.changed
    assert (change.name, change.answers, change.label) == ("b", ("cat", "dog"), "dog")
    assert change.right == (False, True)
    assert [metric.name for metric in found.metrics] == ["accuracy", "balanced accuracy"]
    assert found.metrics[0].values == pytest.approx((1 / 3, 2 / 3))
    assert found.metrics[1].values == pytest.approx((1 / 2, 3 / 4))
    with pytest.raises(InputError, match="3 labels, but more samples, such as 'd'"):
        counts.add("d", ("0",), ("0",))
    few = SampleCounts(Labels(["0", "1"]))
    few.add("a", ("0",), ("0",))
    with pytest.raises(InputError, match="2 labels, but 1 sample"):
        few.result(("new", "old"), "y")


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_a_probability_that_falls_with_the_difference(first: int, second: int) -> None:
    found = mcnemar(first, second)
    assert found == mcnemar(second, first)
    assert 0 < found <= 1
    if first == second:
        assert found == 1
    if abs(first - second) > 1:
        assert found <= mcnemar(min(first, second) + 1, max(first, second) - 1)


def test_mcnemar_is_the_binomial_test() -> None:
    assert mcnemar(0, 16) == pytest.approx(2 / 2**16)
    assert mcnemar(1, 6) == pytest.approx(2 * (1 + 7) / 2**7)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_of_a_share_holds_it(pair: tuple[int, int]) -> None:
    count, total = pair
    low, high = share_interval(count, total)
    assert 0 <= low <= count / total + 1e-12
    assert count / total - 1e-12 <= high <= 1


@given(st.lists(st.tuples(st.sampled_from("012"), st.booleans(), st.booleans()), min_size=1))
def test_the_interval_of_a_difference_is_one(samples: list[tuple[str, bool, bool]]) -> None:
    for metric in task_metrics(Counter(samples)):
        low, high = metric.interval
        assert metric.difference == pytest.approx(metric.values[0] - metric.values[1])
        assert -1 <= low <= high <= 1
    accuracy = task_metrics(Counter(samples))[0]
    expected = [sum(each[side] for each in samples) / len(samples) for side in (1, 2)]
    assert accuracy.values == pytest.approx(tuple(expected))


def test_the_interval_is_that_of_the_normal_distribution_for_many_samples() -> None:
    table = {("0", True, True): 800, ("0", True, False): 30, ("0", False, True): 90,
             ("0", False, False): 80}  # fmt: skip
    [metric] = task_metrics(table)
    error = math.sqrt((0.03 + 0.09 - 0.06**2) / 1000)
    assert metric.difference == pytest.approx(-0.06)
    assert metric.interval == pytest.approx((-0.06 - 1.96 * error, -0.06 + 1.96 * error), abs=3e-3)
