"""Order statistics of many blocks: exact for any data, whatever the sample was."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.arithmetic import Difference, summarize
from polygraphy.domain.arithmetic.passes import selection
from polygraphy.domain.arithmetic.passes.blocks import Scratch
from polygraphy.domain.arithmetic.passes.selection import Search, Tally, sample_positions
from tests.domain.arithmetic import oracle
from tests.domain.arithmetic.strategies import floats_with_ties, tiny_blocks
from tests.support.examples import scaled, spread

Array = np.ndarray[Any, Any]
PROBABILITIES = (0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0)


def search_in(values: Array, sample: Array, passes: int = 40) -> tuple[Search, int]:
    """Search `values` with a given sample, in blocks of 16; also the number of passes."""
    search = Search((0.5, *PROBABILITIES), np.array(sample, np.float64))
    valid = int(np.count_nonzero(~np.isnan(values)))
    for used in range(1, passes + 1):
        with np.errstate(all="ignore"):
            tally = Tally(search, Scratch(16))
            counts = [tally(values[i : i + 16]) for i in range(0, values.size, 16)]
        if search.settle(counts, valid):
            return search, used
    raise AssertionError(f"not settled after {passes} passes")


def check(search: Search, values: Array) -> None:
    valid = np.sort(values[~np.isnan(values)])
    assert search.valid == valid.size
    for probability in (0.5, *PROBABILITIES):
        if valid.size:
            rank = math.floor((valid.size - 1) * probability)
            assert search.element(rank) == valid[rank]
            assert (
                search.element(min(rank + 1, valid.size - 1))
                == valid[min(rank + 1, -1 + valid.size)]
            )


def shaped(kind: str, size: int) -> Array:
    generator = np.random.default_rng(size)
    normal = generator.standard_normal(size)
    return {
        "normal": normal,
        "sorted": np.sort(normal),
        "reversed": np.sort(normal)[::-1].copy(),
        "constant": np.full(size, 2.5),
        "two values": np.where(normal > 0, 1.0, 0.0),
        "few values": np.round(normal * 2),
        "rectified": np.maximum(normal, 0),
        "periodic": np.tile(np.arange(64.0), size // 64 + 1)[:size],
        "mostly nan": np.where(generator.random(size) < 0.999, np.nan, normal),
        "some nan": np.where(generator.random(size) < 0.3, np.nan, normal),
        "all nan": np.full(size, np.nan),
        "infinities": np.where(normal > 0.5, np.inf, np.where(normal < -1, -np.inf, normal)),
        "steep": np.exp(normal * 100),
        "zeros of both signs": np.where(normal > 0, 0.0, -0.0),
        "subnormal": normal * 1e-310,
    }[kind]


KINDS = [
    "normal",
    "sorted",
    "reversed",
    "constant",
    "two values",
    "few values",
    "rectified",
    "periodic",
    "mostly nan",
    "some nan",
    "all nan",
    "infinities",
    "steep",
    "zeros of both signs",
    "subnormal",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [1 << 20, 100, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_distribution(
    kind: str, kept: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "KEPT", kept)
    with np.errstate(all="ignore"):
        values = shaped(kind, 3000).astype(dtype)
    sample = values[:: len(values) // 200]
    search, _ = search_in(values, sample)
    check(search, values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", spread([np.float32, np.float64], 1))
def test_one_pass_is_enough_with_a_fair_sample(
    kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "SAMPLE", 2000)
    with np.errstate(all="ignore"):
        values = shaped(kind, 60_000).astype(dtype)
    search, passes = search_in(values, values[sample_positions(values.size)])
    check(search, values)
    assert passes == 1


@pytest.mark.parametrize("kept", [1 << 20, 50])
@pytest.mark.parametrize(
    "sample", [[], [np.nan] * 50, [1e9] * 50, [-1e9, 1e9], np.linspace(5, 6, 200), [0.0] * 7]
)
def test_a_sample_that_misleads_costs_passes_only(
    sample: Any, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "KEPT", kept)
    values = shaped("normal", 3000)
    search, _ = search_in(values, np.array(sample))
    check(search, values)


@settings(max_examples=scaled(200), deadline=None)
@given(
    st.lists(floats_with_ties(), min_size=1, max_size=200),
    st.lists(floats_with_ties(), max_size=30),
    st.sampled_from([1, 7, 1 << 20]),
)
def test_any_values_and_any_sample(values: list[float], sample: list[float], kept: int) -> None:
    array = np.array(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "KEPT", kept)
        search, _ = search_in(array, np.array(sample), passes=200)
    check(search, array)


@pytest.mark.parametrize("kind", ["constant", "two values", "few values"])
def test_frequent_values_are_counted_not_kept(kind: str) -> None:
    values = shaped(kind, 20_000)
    search = Search(PROBABILITIES, values[sample_positions(values.size)])
    tally = Tally(search, Scratch(16))
    for i in range(0, values.size, 16):
        tally(values[i : i + 16])
    assert sum(piece.size for piece in search._pieces) < values.size / 100


def test_memory_of_a_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "KEPT", 50)
    search = Search((0.5,), np.array([]))
    tally = Tally(search, Scratch(16))
    for _ in range(20):
        tally(np.arange(16.0))
    assert sum(piece.size for piece in search._pieces) <= 50


def test_sample_is_spread_and_repeatable() -> None:
    drawn = sample_positions(1_000_000)
    assert drawn.size == 31_250
    assert np.array_equal(drawn, sample_positions(1_000_000))
    assert drawn[0] < 32 and drawn[-1] >= 1_000_000 - 32
    assert np.all(np.diff(drawn) >= 0) and drawn[-1] < 1_000_000
    assert np.array_equal(sample_positions(5), np.minimum(sample_positions(5), 4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [130, 4000])
def test_summaries_of_many_blocks(kind: str, size: int) -> None:
    values = shaped(kind, size)
    reference = shaped("normal", size)[::-1]
    with tiny_blocks(sample=300, kept=1000):
        summary = summarize(values, quantiles=PROBABILITIES)
        absolute = Difference(values, reference).absolute(PROBABILITIES)
        median = Difference(values, reference).median_abs()
    with np.errstate(all="ignore"):
        distances = np.abs(values - reference)
    for found, array in ((summary, values), (absolute, distances)):
        for probability in PROBABILITIES:
            expected = oracle.quantile(array.tolist(), probability)
            assert found.quantiles[probability] == expected or (
                math.isnan(expected) and math.isnan(found.quantiles[probability])
            )
    if np.isnan(distances).any():
        assert math.isnan(median)
    else:
        assert median == absolute.median == np.median(distances)


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(0, 1))
def test_the_quantile_of_a_whole_array_is_that_of_numpy(
    values: list[float], probability: float
) -> None:
    array = np.array(values)
    expected = float(np.quantile(array, probability))
    assert selection.quantile(array, probability) == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert selection.quantile(array, 0.5) == pytest.approx(np.median(array), rel=1e-12, abs=1e-9)


def test_nothing_that_a_quantile_takes_imports_masked_arrays() -> None:
    code = (
        "import sys, numpy as np; from polygraphy.domain.arithmetic.passes import selection;"
        "selection.quantile(np.ones(5), 0.5); assert 'numpy.ma' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_quantile_of_nothing_is_not_a_number() -> None:
    assert math.isnan(selection.quantile(np.empty(0), 0.5))
