from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.errors import UsageError
from polygraphy.domain.limits import STATISTICS, Tolerance

limits = st.floats(min_value=0, allow_nan=False)
measured = st.floats(min_value=0)
NAMED = [statistic for statistic in STATISTICS if statistic != "elemwise"]
statistics = st.sampled_from(NAMED)


def metrics(statistic: str, absolute: float | None, relative: float | None) -> dict[str, Any]:
    return {f"{statistic}_absdiff": absolute, f"{statistic}_reldiff": relative}


def test_the_default() -> None:
    tolerance = Tolerance()
    assert (tolerance.atol, tolerance.rtol) == (1e-5, 1e-5)
    assert tolerance.check_error_stat == ("elemwise",)
    assert tolerance.reason == "the default"


@given(statistics, limits, limits, measured, measured)
def test_one_satisfied_limit_is_enough(
    statistic: str, atol: float, rtol: float, absolute: float, relative: float
) -> None:
    found = metrics(statistic, absolute, relative)
    passed = Tolerance(statistic, atol, rtol).passed(found)
    if not math.isnan(absolute) and not math.isnan(relative):
        assert passed == (absolute <= atol or relative <= rtol)


@given(statistics, limits, limits)
def test_nan_never_passes(statistic: str, atol: float, rtol: float) -> None:
    assert not Tolerance(statistic, atol, rtol).passed(metrics(statistic, math.nan, math.nan))


@pytest.mark.parametrize("found", [(math.nan, 0.0), (0.0, math.nan)], ids=str)
def test_one_nan_is_enough_to_fail(found: tuple[float, float]) -> None:
    assert not Tolerance("max").passed(metrics("max", *found))


def test_a_limit_is_inclusive() -> None:
    tolerance = Tolerance("max", atol=0.5, rtol=0.25)
    assert tolerance.passed(metrics("max", 0.5, 9))
    assert tolerance.passed(metrics("max", 9, 0.25))
    assert not tolerance.passed(metrics("max", 0.5000001, 0.2500001))
    assert Tolerance("max", 0, 0).passed(metrics("max", 0, 0))


def test_an_infinite_limit_lets_infinity_pass() -> None:
    assert Tolerance("max", math.inf, 0).passed(metrics("max", math.inf, math.inf))


@given(st.lists(statistics, min_size=1, max_size=4), st.sets(statistics))
def test_every_statistic_must_pass(checked: list[str], good: set[str]) -> None:
    found: dict[str, Any] = {}
    for statistic in NAMED:
        found |= metrics(statistic, *((0.0, 0.0) if statistic in good else (1.0, 1.0)))
    assert Tolerance(checked).passed(found) == (set(checked) <= good)


def test_at_least_one_statistic_is_checked() -> None:
    with pytest.raises(UsageError):
        Tolerance(check_error_stat=())


def test_the_metrics_that_decide() -> None:
    assert Tolerance().metric_fields() == ()
    assert Tolerance(["max", "elemwise", "mean"]).metric_fields() == (
        "max_absdiff", "max_reldiff", "mean_absdiff", "mean_reldiff",
    )  # fmt: skip


def test_metrics_cannot_answer_for_every_element() -> None:
    for checked in ("elemwise", ["max", "elemwise"]):
        with pytest.raises(UsageError, match="Single elements can be checked only"):
            Tolerance(checked).passed(metrics("max", 0.0, 0.0))


@pytest.mark.parametrize("found", [{}, metrics("max", None, 0.0), metrics("max", 0.0, None)])
def test_a_metric_that_is_missing_is_reported(found: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="do not contain the max difference"):
        Tolerance("max").passed(found)


@pytest.mark.parametrize(
    ("field", "value"), list(product(["atol", "rtol"], [-1, -1e-300, math.nan, "a lot", None, [1]]))
)
def test_what_is_no_tolerance_is_refused(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match="tolerance must be a number"):
        Tolerance(**{field: value})


@pytest.mark.parametrize("checked", ["average", ["max", "average"], ("Max",)])
def test_an_unknown_statistic_is_refused(checked: Any) -> None:
    with pytest.raises(UsageError, match=r"(?i)(average|max).*elemwise, max, mean"):
        Tolerance(checked)


def test_numbers_may_be_written_in_any_way() -> None:
    assert Tolerance(atol=1, rtol="1e-3") == Tolerance(atol=1.0, rtol=0.001)
    assert isinstance(Tolerance(atol=1).atol, float)
    assert Tolerance("max") == Tolerance(["max"]) == Tolerance(("max",))


def test_tolerances_are_values_whatever_the_reason() -> None:
    assert Tolerance(reason="given") == Tolerance()
    assert hash(Tolerance(reason="given")) == hash(Tolerance())
    assert Tolerance(atol=1) != Tolerance()
    with pytest.raises(AttributeError):
        Tolerance().atol = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        Tolerance(reason=5)  # type: ignore[arg-type]


def test_no_digit_is_lost() -> None:
    assert str(Tolerance(atol=1e-5, rtol=0.1)) == "(rel=0.1, abs=1e-05)"
    assert str(Tolerance(atol=0.123456789012345, rtol=0)) == "(rel=0, abs=0.123456789012345)"
