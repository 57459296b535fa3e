from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.compare import OutputCompareResult, SimpleCompareFunc, UncomparedResult
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.results.results import IterationResult
from tests.domain.strategies import names


def run(runner: str = "a", **outputs: Any) -> IterationResult:
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    return IterationResult(arrays, runner_name=runner)


def compare(value: Any, reference: Any, **settings: Any) -> Any:
    """Compare one output y."""
    return SimpleCompareFunc(**settings)(run("a", y=value), run("b", y=reference))["y"]


def _array_of(dtype: Any) -> Any:
    return lambda *values: np.array(values, dtype)


U8, I8, U64, F16 = map(_array_of, (np.uint8, np.int8, np.uint64, np.float16))


def test_the_share_of_the_tolerance_is_that_of_one_element() -> None:
    result = compare([0.0, 100.0005], [5e-6, 100.0], atol=1e-5, rtol=1e-5)
    assert result.excess == pytest.approx(0.5)  # 50 times if the maxima were of one element.
    result.settle()
    assert result and result.excess == pytest.approx(0.5)


# What older releases measure for the same arrays.


@pytest.mark.parametrize(
    ("value", "reference", "passed", "metrics"),
    [
        ([1.0, 2.0], [1.0, 2.1], False,
         [0.1, 1 / 21, 0.05, 1 / 42, 0.05, 1 / 42]),
        ([1, 2], [1, 3], False, [1, 1 / 3, 0.5, 1 / 6, 0.5, 1 / 6]),
        ([1, 2], [1.0, 2.0], True, [0, 0, 0, 0, 0, 0]),
        ([True], [False], False, [1, math.inf, 1, math.inf, 1, math.inf]),
        ([math.nan], [math.nan], False, [math.nan] * 6),
        ([math.inf], [math.inf], False, [math.nan] * 6),
        (U8(255), U8(0), False, [255, math.inf, 255, math.inf, 255, math.inf]),
        (I8(-128), I8(127), False, [255, 255 / 127] * 3),
        (F16(1e-30), F16(1), False, [1] * 6),
    ],
)  # fmt: skip
def test_metrics_are_those_of_older_releases(
    value: Any, reference: Any, passed: bool, metrics: list[float]
) -> None:
    result = compare(value, reference)
    assert bool(result) is passed
    assert list(result.metric_values().values())[:6] == pytest.approx(metrics, nan_ok=True)


def test_large_integers_are_exact() -> None:
    left, right = U64(2**63), U64(2**63 + 1)
    assert compare(left, right, rtol=0).max_absdiff == 1
    assert not compare(left, right, rtol=0, atol=0.5)
    assert compare(U64(0), U64(2**64 - 1)).max_absdiff == pytest.approx(2.0**64)


def test_two_infinities_may_count_as_equal() -> None:
    both, other = [math.inf, -math.inf], [math.inf, math.inf]
    assert not compare(both, both)
    assert compare(both, both, infinities_compare_equal=True)
    assert not compare(both, other, infinities_compare_equal=True)
    assert not compare([math.nan], [math.nan], infinities_compare_equal=True)
    assert compare([*both, 1.0], [*both, 1.0], rtol="auto")
    assert not compare([*both, 1.0], [*other, 1.0], rtol="auto")


@pytest.mark.parametrize(
    ("value", "reference", "passed"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a", "c"], False),
        (np.array(["a"], object), np.array(["a"]), True),
        (["1"], [1.0], False),
        (np.ones(2, ml_dtypes.bfloat16), np.ones(2, np.float32), True),
        (np.ones(2, ml_dtypes.int4), np.zeros(2, ml_dtypes.int4), False),
        ([1j], [1j], True),
        ([1j], [0j], False),
        (np.zeros((0, 3)), np.zeros((0, 3)), True),
        (1.0, 1.0, True),
        (1.0, 2.0, False),
    ],
)
def test_any_type_can_be_compared(value: Any, reference: Any, passed: bool) -> None:
    assert bool(compare(value, reference)) is passed


def test_the_second_run_is_the_reference() -> None:
    assert compare([0.0], [2.0]).max_reldiff == 1
    assert compare([2.0], [1.0]).max_reldiff == 1
    assert compare([1.0], [2.0]).max_reldiff == 0.5


# Settings.


def test_the_default_tolerances() -> None:
    limits = SimpleCompareFunc().tolerance_for("y")
    assert (limits.atol, limits.rtol, limits.check_error_stat) == (1e-5, 1e-5, ("elemwise",))
    assert limits.reason == "the default"
    assert SimpleCompareFunc(atol=1, rtol=1).tolerance_for("y").reason == "as given"
    assert SimpleCompareFunc().thresholds_for("y") == limits
    assert SimpleCompareFunc.label == "simple"


def test_settings_per_output() -> None:
    function = SimpleCompareFunc(
        rtol={"a": 0.5, "": 0.25},
        atol={"b": 2},
        check_error_stat={"a": "max", "b": ["mean", "median"]},
        error_quantile={"a": 0.5},
    )
    a, b, c = (function.tolerance_for(name) for name in "abc")
    assert (a.rtol, a.atol, a.check_error_stat) == (0.5, 1e-5, ("max",))
    assert (b.rtol, b.atol, b.check_error_stat) == (0.25, 2, ("mean", "median"))
    assert (c.rtol, c.atol, c.check_error_stat) == (0.25, 1e-5, ("elemwise",))


def test_settings_reach_the_results() -> None:
    first, second = run(a=[0.0], b=[0.0]), run(a=[1.0], b=[1.0])
    results = SimpleCompareFunc(atol={"a": 1})(first, second)
    assert [bool(result) for result in results.values()] == [True, False]
    many = np.arange(101.0)
    result = compare(many, many * 0, check_error_stat="quantile", error_quantile=0.1, atol=10)
    assert result
    assert result.quantile_absdiff == pytest.approx(10)


@pytest.mark.parametrize("setting", ["rtol", "atol", "check_error_stat", "error_quantile"])
def test_a_setting_for_an_output_that_nobody_has_is_refused(setting: str) -> None:
    value = "max" if setting == "check_error_stat" else 0.5
    function = SimpleCompareFunc(**{setting: {"yy": value}})  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match=r"Output 'yy'.*'y'.*'z'"):
        function(run(y=[1.0]), run(z=[1.0]))


def test_a_setting_may_use_the_name_of_the_second_run() -> None:
    assert SimpleCompareFunc(atol={"z": 1})(run(y=[0.0]), run(z=[1.0]))["y"]


@pytest.mark.parametrize(
    "settings",
    [
        {"rtol": -1}, {"atol": math.nan}, {"rtol": {"y": -1}}, {"atol": "much"},
        {"check_error_stat": "average"}, {"check_error_stat": {"y": "average"}},
        {"error_quantile": 1.1}, {"error_quantile": -0.1}, {"error_quantile": {"y": 2}},
        {"error_quantile": math.nan},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SimpleCompareFunc(**settings)


# Which outputs are compared.


def test_outputs_are_paired_by_name_in_the_order_of_the_first_run() -> None:
    results = SimpleCompareFunc()(run(b=[1.0], a=[2.0]), run(a=[2.0], b=[1.0]))
    assert list(results) == ["b", "a"]
    assert all(results.values())
    assert type(results) is dict


def test_outputs_of_other_names_are_paired_too() -> None:
    (result,) = SimpleCompareFunc()(run(out=[1.0]), run(my_out_0=[1.0])).values()
    assert isinstance(result, OutputCompareResult)
    assert result
    assert (result.output0_name, result.output1_name) == ("out", "my_out_0")


def test_an_output_without_partner_fails() -> None:
    results = SimpleCompareFunc()(run("one", a=[1.0], b=[1.0]), run("two", a=[1.0]))
    assert list(results) == ["a", "b"]
    failed = results["b"]
    assert isinstance(failed, UncomparedResult)
    assert failed.is_missing
    assert failed.reason == "Output 'b' of one has no counterpart in two, which has: 'a'."
    results = SimpleCompareFunc()(run("one"), run("two", a=[1.0]))
    failed = results["a"]
    assert isinstance(failed, UncomparedResult)
    assert failed.reason == "Output 'a' of two has no counterpart in one, which has: no outputs."


@given(st.lists(names, unique=True, max_size=4), st.lists(names, unique=True, max_size=4))
def test_every_output_gets_an_answer(first: list[str], second: list[str]) -> None:
    results = SimpleCompareFunc()(
        IterationResult({name: np.ones(1) for name in first}),
        IterationResult({name: np.ones(1) for name in second}),
    )
    assert len(results) == max(len(first), len(second)) or len(results) > len(first)
    compared = [r for r in results.values() if isinstance(r, OutputCompareResult)]
    missing = [r for r in results.values() if isinstance(r, UncomparedResult)]
    assert 2 * len(compared) + len(missing) == len(first) + len(second)
    assert all(compared)


def test_nothing_is_compared_with_nothing() -> None:
    assert SimpleCompareFunc()(IterationResult(), IterationResult()) == {}


def test_a_function_may_find_partners() -> None:
    calls = []

    def find(name: str, index: int, outputs: Any) -> Any:
        calls.append((name, index, list(outputs)))
        return {"a": "z", "b": ["y", "z"], "c": None}[name]

    results = SimpleCompareFunc(find_output_func=find)(
        run(a=[1.0], b=[1.0], c=[1.0]), run(z=[1.0], y=[2.0], unused=[0.0])
    )
    assert calls == [(name, i, ["z", "y", "unused"]) for i, name in enumerate("abc")]
    assert {name: bool(result) for name, result in results.items()} == {
        "a": True, "b": False, "b vs. z": True, "c": False,
    }  # fmt: skip


def test_a_partner_that_is_not_there_is_explained() -> None:
    function = SimpleCompareFunc(find_output_func=lambda name, index, outputs: "nope")
    with pytest.raises(UnknownNameError, match="'nope'"):
        function(run(y=[1.0]), run(y=[1.0]))


def test_no_partners_are_a_failure_too() -> None:
    function = SimpleCompareFunc(find_output_func=lambda name, index, outputs: [])
    assert "y" in function(run(y=[1.0]), run(y=[2.0]))


def test_the_first_failure_may_be_the_last_comparison() -> None:
    first, second = run(a=[1.0], b=[1.0], c=[1.0]), run(a=[1.0], b=[2.0], c=[2.0])
    assert list(SimpleCompareFunc(fail_fast=True)(first, second)) == ["a", "b"]
    assert list(SimpleCompareFunc()(first, second)) == ["a", "b", "c"]


# Shapes.


def test_shapes_must_be_equal_by_default() -> None:
    result = compare([[1.0, 2.0]], [1.0, 2.0])
    assert isinstance(result, UncomparedResult)
    assert not result.is_missing
    assert "(1, 2)" in result.reason
    assert "(2,)" in result.reason
    assert compare([[1.0, 2.0]], [1.0, 2.0], check_shapes=False)


def test_shapes_may_be_reconciled() -> None:
    image = np.arange(24.0).reshape(1, 2, 3, 4)
    result = compare(image, image.transpose(0, 2, 3, 1), check_shapes=False)
    assert result
    assert str(result.tensor1) == "'y' (dtype=float64, shape=(1, 3, 4, 2))"


def test_shapes_of_different_sizes_cannot_be_reconciled() -> None:
    result = compare([[1.0, 2.0]], [1.0, 2.0, 3.0], check_shapes=False)
    assert isinstance(result, UncomparedResult)
    assert (result.output0_name, result.output1_name) == ("y", "y")


def test_the_outputs_are_left_alone() -> None:
    value, reference = np.arange(4.0), np.arange(4.0) + 1
    compare(value, reference).metric_values()
    np.testing.assert_array_equal(value, np.arange(4.0))
    np.testing.assert_array_equal(reference, np.arange(4.0) + 1)


def test_as_people_read_it() -> None:
    text = repr(SimpleCompareFunc(atol=1, check_error_stat="max"))
    assert text == "SimpleCompareFunc(rtol=None, atol=1, check_error_stat='max')"


def test_no_more_threads_than_asked_for_or_granted() -> None:
    function = SimpleCompareFunc()
    assert function.threads == 1
    function.grant_threads(2)
    assert function.threads == 2
    function.threads = 1
    assert function.threads == 1
    function.grant_threads(8)
    assert function.threads == 1


def test_threads_reach_the_arithmetic_and_change_no_result() -> None:
    rng = np.random.default_rng(1)
    a = rng.random(1 << 20, dtype=np.float32)
    b = a + rng.random(1 << 20, dtype=np.float32) * np.float32(1e-5)
    found = []
    for threads in (1, 2):
        function = SimpleCompareFunc()
        function.threads = threads
        (result,) = function(IterationResult({"y": a}), IterationResult({"y": b})).values()
        assert isinstance(result, OutputCompareResult) and result.difference is not None
        assert result.difference.threads == threads
        found.append(result.metric_values())
    assert found[0] == found[1]


def test_a_tolerance_for_an_operation_is_for_its_only_output() -> None:
    value, reference = ({"y:0": np.array([base]), "z": np.array([base])} for base in (1.0, 1.1))
    one, other = IterationResult(value), IterationResult(reference)
    results = SimpleCompareFunc(atol={"y": 0.2})(one, other)
    assert {name: bool(result) for name, result in results.items()} == {"y:0": True, "z": False}
    results = SimpleCompareFunc(atol={"y": 0.2, "y:0": 0.01})(one, other)
    assert not results["y:0"]
    several = IterationResult({**value, "y:1": np.array([1.0])})
    with pytest.raises(UnknownNameError, match="'y' does not exist"):
        SimpleCompareFunc(atol={"y": 0.2})(several, other)


def test_settings_that_change_between_two_calls_count() -> None:
    function = SimpleCompareFunc()
    sides = [IterationResult({"y": np.array([each], np.float32)}) for each in (1.0, 1.5)]
    assert not function(*sides)["y"]
    function.atol = 1.0
    assert function(*sides)["y"]
    function.atol = {"y": 0.1}
    assert not function(*sides)["y"]
