"""polygraphy.comparator.util and util.array: what is expected was printed by NVIDIA's 0.53.6."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.comparator import IterationResult, util
from polygraphy.datatype import DataType
from polygraphy.exception import PolygraphyException
from polygraphy.util import array

A = np.array([[1, -2, 3], [4, 5.5, -6]], np.float32)
STATS = (
    "mean=0.91667, std-dev=3.8989, var=15.201, median=2, min=-6 at (1, 2), max=5.5 at (1, 1),"
    " avg-magnitude=3.5833, p90=4.75, p95=5.125, p99=5.425\n"
)

EXPECTED = {
    "compute_max": (5.5, 4, True, 0),
    "compute_min": (-6.0, 1, False, 0),
    "compute_mean": (0.9166667, 2.5, 2 / 3, float("nan")),
    "compute_median": (2.0, 2.5, 1.0, 0),
    "compute_std": (3.8988957, 1.118033988749895, 0.4714045207910317, 0),
    "compute_variance": (15.201388, 1.25, 2 / 9, 0),
    "compute_argmax": ((1, 1), (3,), (0,), 0),
    "compute_argmin": ((1, 2), (0,), (1,), 0),
    "compute_average_magnitude": (3.5833333, 2.5, 2 / 3, float("nan")),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_statistics(name: str) -> None:
    arrays = (A, np.array([1, 2, 3, 4]), np.array([True, False, True]), np.zeros(0, np.float32))
    for values, expected in zip(arrays, EXPECTED[name]):
        found = getattr(util, name)(values)
        assert found == pytest.approx(expected, rel=1e-6, nan_ok=True)
    with_nan = getattr(util, name)(np.array([1, np.nan, -3], np.float32))
    assert with_nan == (1,) if name.startswith("compute_arg") else np.isnan(with_nan)


def test_quantiles() -> None:
    assert util.compute_quantile(A, 0.9) == pytest.approx(4.75)
    np.testing.assert_allclose(util.compute_quantile(A, [0.1, 0.5]), [-4, 2])


@given(
    hnp.arrays(np.float16, hnp.array_shapes(max_dims=3), elements=st.floats(-6e4, 6e4, width=16))
)
def test_statistics_of_narrow_numbers_do_not_overflow(values: Any) -> None:
    wide = values.astype(np.float64)
    assert util.compute_mean(values) == pytest.approx(wide.mean(), rel=1e-12)
    assert util.compute_variance(values) == pytest.approx(wide.var(), rel=1e-12)
    assert util.compute_average_magnitude(values) == pytest.approx(np.abs(wide).mean(), rel=1e-6)
    assert values[util.compute_argmax(values)] == wide.max() == util.compute_max(values)


def test_texts(capsys: pytest.CaptureFixture[str]) -> None:
    assert util.str_output_stats(A) == STATS
    assert util.str_output_stats(A, "r") == f"r | Stats: {STATS}"
    booleans = util.str_output_stats(np.array([True, False]))
    assert booleans == (
        "mean=0.5, std-dev=0.5, var=0.25, median=0.5, min=0 at (1,), max=1 at (0,),"
        " avg-magnitude=0.5\n"
    )
    lines = util.str_histogram(A, (0, 10)).splitlines()
    assert lines[0] == "---- Histogram ----" and len(lines) == 12
    assert [int(line.split("|")[1]) for line in lines[2:]] == [0, 1, 0, 1, 1, 1, 0, 0, 0, 0]
    assert lines[2].startswith("(0, 1 ) ") and lines[-1].startswith("(9, 10) ")
    assert util.str_histogram(np.array([True])) == util.str_histogram(np.zeros(0)) == ""
    util.log_output_stats(A, True, "run")
    logged = capsys.readouterr().out
    assert f"[I] run | Stats: {STATS}" in logged and "Histogram" in logged
    util.log_output_stats(A)
    assert capsys.readouterr().out == f"[I] {STATS}"
    pair = IterationResult({"y": A}), IterationResult({"y": A + 1})
    util.log_compared_output_stats(*pair, {"y": False}, "a", "b")
    logged = capsys.readouterr().out
    assert "'y' | FAILED" in logged and "a | Stats:" in logged and "b | Stats:" in logged


def test_wider_types() -> None:
    types = {"float16": "float32", "float32": "float32", "int8": "int32", "uint8": "int32"}
    types |= {"bool": "bool", "int64": "int64"}
    assert {kind: util.cast_up(np.ones(2, kind)).dtype.name for kind in types} == types


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    util.build_heatmaps(np.ones((2, 3, 4)), 0, 1, "one", str(tmp_path))
    util.build_heatmaps(A, 0.1, 1, "two", str(tmp_path), use_lognorm=True)
    util.scatter_plot_error_magnitude(
        np.abs(A), np.abs(A), A, 0, 1, "a", "b", "y", "y", str(tmp_path)
    )
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".png", ".svg", ".svg"]


X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
Y = np.array([[1, 1, 2], [0, 5, 7]], np.float32)

ARRAYS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("abs", (X,), [[1, 2, 3], [4, 5, 6]]),
    ("argwhere", (X > 2,), [[0, 2], [1, 0], [1, 1]]),
    ("divide", (X, Y), [[1, -2, 1.5], [np.inf, 1, -0.85714287]]),
    ("greater", (X, 2), [[False, False, True], [True, True, False]]),
    ("logical_and", (X > 0, Y > 0), [[True, False, True], [False, True, False]]),
    ("logical_not", (X > 0,), [[False, True, False], [False, False, True]]),
    ("logical_xor", (X > 0, Y > 0), [[False, True, False], [True, False, True]]),
    ("multiply", (X, Y), [[1, -2, 6], [0, 25, -42]]),
    ("pad", (X, [(0, 1), (1, 0)]), [[0, 1, -2, 3], [0, 4, 5, -6], [0, 0, 0, 0]]),
    ("power", (X, 2), [[1, 4, 9], [16, 25, 36]]),
    ("ravel", (X,), [1, -2, 3, 4, 5, -6]),
    ("reshape", (X, (3, 2)), [[1, -2], [3, 4], [5, -6]]),
    ("sqrt", (Y,), [[1, 1, 1.4142135], [0, 2.236068, 2.6457512]]),
    ("subtract", (X, Y), [[0, -3, 1], [4, 0, -13]]),
    ("transpose", (X, (1, 0)), [[1, 4], [-2, 5], [3, -6]]),
    ("unravel_index", (4, (2, 3)), (1, 1)),
    ("where", (X > 0, X, Y), [[1, 1, 3], [4, 5, 7]]),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), ARRAYS)
def test_arithmetic(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    found = getattr(array, name)(*arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    if name != "unravel_index":
        assert isinstance(found, np.ndarray)


def test_arrays_in_parts() -> None:
    counts, edges = array.histogram(X, (0, 4))
    assert counts.tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 0, 1] and edges[-1] == 4
    values, places = array.topk(X, 2, 1)
    assert values.tolist() == [[3, 1], [5, 4]] and places.tolist() == [[2, 0], [1, 0]]
    values, places = array.topk(X, 9, 0)
    assert values.tolist() == [[4, 5, 3], [1, -2, -6]]
    assert array.view(X, DataType.INT32, (6,))[1] == -1073741824
    with pytest.raises(PolygraphyException, match="Only a contiguous array"):
        array.view(X.T, DataType.INT32, (6,))
    memory = np.zeros(4, np.float32)
    assert array.resize_or_reallocate(memory, (2,)) is memory and memory.shape == (2,)
    assert array.resize_or_reallocate(memory.view(), (5, 2)).shape == (5, 2)
