"""What a comparison found stays as it is, whatever becomes of the outputs and of the settings."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.application.compare import accuracy
from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.domain import compare
from polygraphy.domain.compare import OutputCompareResult, PairwiseCompareFunc, SimpleCompareFunc
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.results.postprocess import TopKPostprocessFunc
from polygraphy.domain.results.results import IterationResult, RunResults

FUNCTIONS: dict[str, Callable[[], PairwiseCompareFunc]] = {
    **{
        f"simple, {stat}": lambda stat=stat: SimpleCompareFunc(check_error_stat=stat, rtol=0.1)
        for stat in ("elemwise", "max", "mean", "median", "quantile")
    },
    "simple, auto": lambda: SimpleCompareFunc(rtol="auto", atol="auto"),
    "simple, fail fast": lambda: SimpleCompareFunc(fail_fast=True),
    "simple, reshaped": lambda: SimpleCompareFunc(check_shapes=False),
    "indices": compare.IndicesCompareFunc,
    "l2": compare.L2CompareFunc,
    "normalized_l2": compare.NormalizedL2CompareFunc,
    "cosine_similarity": compare.CosineSimilarityCompareFunc,
    "psnr": compare.PsnrCompareFunc,
    "snr": compare.SnrCompareFunc,
    "sqnr": compare.SqnrCompareFunc,
    "ulp": compare.UlpCompareFunc,
    "top_k": compare.TopKCompareFunc,
    "bias": compare.BiasCompareFunc,
    "non_finite": compare.NonFiniteCompareFunc,
    "error_distribution": compare.ErrorDistributionCompareFunc,
}


def every_number(result: Any) -> str:
    """Return all that can be found out about an answer."""
    found: list[Any] = [bool(result), result.metric_values(), result.excess, vars(result).keys()]
    if isinstance(result, OutputCompareResult):
        assert result.difference is not None
        difference = result.difference
        found += [
            result.mismatches,
            result.rounding,
            result.is_rounding,
            difference.summaries(),
            difference.operands(),
            difference.absolute_histogram(),
            difference.relative_histogram(),
            difference.quantile_abs(0.3),
            difference.mismatches(0.5, 0.25),
            difference.element(0),
            [array.tolist() for array in result.arrays or ()],
        ]
        result.set_thresholds(Tolerance(atol=0.25, rtol=0.01))
        found.append(bool(result))
    else:
        found += [repr(result), getattr(result, "details", None)]
    return repr(found)


@given(
    function=st.sampled_from(sorted(FUNCTIONS)),
    size=st.integers(2, 40),
    seed=st.integers(0, 99),
    strided=st.booleans(),
)
def test_answers_are_settled_when_they_are_returned(
    function: str, size: int, seed: int, strided: bool
) -> None:
    random = np.random.RandomState(seed)
    made = random.standard_normal((2, size, 3)).astype(np.float32)
    made[1] = made[0] + random.choice([0.0, 1e-7, 1.0], (size, 3)) * made[1]
    value, reference = made[:, :, ::-2] if strided else made

    def answers() -> Any:
        first = IterationResult({"y": value}, runner_name="a")
        return FUNCTIONS[function]()(first, IterationResult({"y": reference}))["y"]

    expected = every_number(answers())
    answered = answers()
    value[...], reference[...] = 7.0, np.nan
    assert every_number(answered) == expected


@pytest.mark.parametrize("own_function", [False, True])
@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_answers_about_results_in_memory_are_settled_when_they_are_returned(
    monkeypatch: pytest.MonkeyPatch, own_function: bool, kept: int
) -> None:
    """Arrays of results are kept for a closer look, but only so many."""
    monkeypatch.setattr(accuracy, "_MOST_KEPT", kept)
    simple = SimpleCompareFunc(check_error_stat="median", atol=0.5)
    function = partial(simple) if own_function else simple
    arrays = [np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.25, 9.0])]
    results = RunResults((str(i), [IterationResult({"y": a})]) for i, a in enumerate(arrays))
    [verdict] = compare_accuracy(results, compare_func=function)
    arrays[0][...], arrays[1][...] = 0, 99
    [[answers]] = verdict.values()
    answer = answers["y"]
    assert verdict
    assert (answer.median_absdiff, answer.max_absdiff) == (0.25, 5.0)
    assert (answer.arrays is not None) == bool(kept)
    if kept:
        assert answer.mismatches.count == 1


def test_streams_may_reuse_their_arrays() -> None:
    buffer = np.zeros(3)

    def runs() -> Iterator[RunResults]:
        for number in (1.0, 2.0, 3.0):
            buffer[...] = number
            yield RunResults(
                [(n, [IterationResult({"y": buffer * f})]) for n, f in (("a", 1), ("b", 2))]
            )

    [verdict] = compare_accuracy(runs())
    [answers] = verdict.values()
    assert [answer["y"].max_absdiff for answer in answers] == [1.0, 2.0, 3.0]


def test_settings_are_those_that_were_given() -> None:
    one, other = IterationResult({"y": np.ones(9)}), IterationResult({"y": np.full(9, 2.0)})
    tolerances, stats, limits = {"": 1e-5}, ["max", "mean"], {"y": 0.5}
    functions = [
        SimpleCompareFunc(rtol=tolerances, check_error_stat={"": stats}),
        SimpleCompareFunc(atol=tolerances, check_error_stat=stats, error_quantile=limits),
        compare.L2CompareFunc(limits),
        compare.BiasCompareFunc(limits),
        compare.IndicesCompareFunc(places := {"": 0}),
        compare.TopKCompareFunc(shares := {"": 1.0}, margin=(margins := {"": 0.0})),
    ]
    before = [repr(function(one, other)["y"]) for function in functions]
    tolerances[""] = limits["y"] = margins[""] = 1e9
    tolerances["nothing"] = 1.0
    shares[""], places[""] = 0.0, 8
    stats.clear()
    assert [repr(function(one, other)["y"]) for function in functions] == before


def test_settings_of_data_and_postprocessing_are_those_that_were_given() -> None:
    from polygraphy.domain.tensors.metadata import TensorMetadata

    ranges, asked = {"": (0.0, 1.0)}, TensorMetadata().add("x", np.float32, [2])
    data, highest = DataLoader(val_range=ranges, input_metadata=asked), {"": 1}
    postprocess = TopKPostprocessFunc(highest)
    ranges[""], highest[""] = (50.0, 60.0), 2
    asked.add("x", np.float32, [5])
    [made] = data
    assert made["x"].shape == (2,)
    assert made["x"].max() <= 1
    assert postprocess(IterationResult({"y": np.arange(3.0)}))["y"].shape == (1,)


def test_answers_about_results_in_memory_go_to_other_processes() -> None:
    arrays = np.array([1.0, 2.0]), np.array([1.0, 2.5])
    for function in (
        SimpleCompareFunc(),
        SimpleCompareFunc(rtol="auto"),
        compare.PsnrCompareFunc(),
    ):
        results = RunResults((str(i), [IterationResult({"y": a})]) for i, a in enumerate(arrays))
        made = compare_accuracy(results, compare_func=function)
        there = pickle.loads(pickle.dumps(made))
        assert bool(there) is bool(made) is False
        answer, other = made[0][0][1][0]["y"], there[0][0][1][0]["y"]
        assert repr(other) == repr(answer)
        assert other.excess == answer.excess
        direct = function(*(results[at][1][0] for at in (0, 1)))["y"]
        assert repr(pickle.loads(pickle.dumps(direct))) == repr(direct)
        assert not isinstance(direct, OutputCompareResult) or direct.difference is not None


def test_one_function_may_be_used_by_many_threads() -> None:
    function = SimpleCompareFunc()
    found: list[float] = []

    def work(number: float) -> None:
        for _ in range(20):
            value = np.full(1000, number)
            answer = function(IterationResult({"y": value}), IterationResult({"y": value + number}))
            value[...] = 0
            found.append(answer["y"].max_absdiff - number)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1.0, 2.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0.0] * 60
