"""Whether outputs in half precision are close enough."""

from __future__ import annotations

import numpy as np
import pytest

from polygraphy.domain.diagnosis.closeness import OutputError, output_error


def error(exact: object, made: object, **options: object) -> OutputError:
    return output_error(
        {"y": np.asarray(exact)}, {"y": np.asarray(made)}, **{"rtol": 0.01, **options}  # type: ignore[arg-type]
    )


def test_errors_are_measured_against_the_size_of_an_output() -> None:
    assert error([100.0, 0.0], [100.0, 0.5]).is_tolerable
    assert not error([1e-9, -1e-9], [0.0, 0.0]).is_tolerable
    assert error([1e-9, 1e-9], [0.0, 0.0], bounded=["y"]).is_tolerable
    assert not error([100.0, 0.0], [100.0, 0.5], atol=0.1).is_tolerable


def test_what_became_infinite_is_never_close() -> None:
    for value in (np.inf, -np.inf, np.nan):
        found = error([1.0, 2.0], [1.0, value])
        assert (found.excess, found.broken) == (np.inf, 1)
    assert error([1.0, np.nan], [1.0, 5.0]).is_tolerable


def test_few_whole_numbers_may_change() -> None:
    classes = np.arange(1000)
    assert error(classes, np.where(classes == 7, 8, classes)).is_tolerable
    assert not error(classes, classes + 1).is_tolerable
    assert not error([3], [0]).is_tolerable


def test_the_worst_output_is_named() -> None:
    exact = {"a": np.ones(3), "b": np.ones(3)}
    found = output_error(exact, {"a": np.ones(3), "b": np.zeros(3)}, rtol=0.01)
    assert (found.name, found.error) == ("b", 1.0)
    assert found.excess == pytest.approx(50)
    assert output_error(exact, {**exact, "a": np.ones(2)}, rtol=0.01).name == "a"
