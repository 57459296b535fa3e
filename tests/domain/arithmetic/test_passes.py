"""How passes are made: threads, memory, and that nothing is computed without need."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

from polygraphy.domain.arithmetic import Difference, histogram, summarize
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes import blocks as scratch
from polygraphy.domain.arithmetic.passes.blocks import Scratch
from polygraphy.domain.arithmetic.passes.streams import Kernel
from polygraphy.domain.arithmetic.similarity import dot_metrics
from tests.domain.arithmetic.strategies import tiny_blocks
from tests.support.examples import spread

Array = np.ndarray[Any, Any]
MIB = 1 << 20


def noisy(size: int, seed: int = 0, scale: float = 1e-3) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    a = generator.standard_normal(size, dtype=np.float32)
    return a, a + generator.standard_normal(size, dtype=np.float32) * np.float32(scale)


def everything(a: Array, b: Array, threads: int) -> str:
    difference = Difference(a, b, threads=threads)
    return str(
        [
            difference.mismatches(1e-3, 1e-3),
            difference.mismatches(1e-3, 1e-3, "sum"),
            difference.max_abs(),
            difference.mean_rel(),
            difference.median_abs(),
            difference.quantile_rel(0.3),
            difference.summaries(),
            difference.absolute_histogram(),
            summarize(a, threads=threads),
            histogram(b, 40, threads=threads),
            dot_metrics(a, b, threads=threads),
        ]
    )


@pytest.mark.parametrize("kind", ["noise", "nan", "sorted", "ties"])
def test_threads_change_no_bit(kind: str) -> None:
    a, b = noisy(5001)
    if kind == "nan":
        a[::7], b[5::11], b[100:300] = np.nan, np.inf, 0
    elif kind == "sorted":
        a.sort()
    elif kind == "ties":
        a, b = np.round(a), np.round(b * 2)
    with tiny_blocks(block=64, sample=200):
        assert everything(a, b, 1) == everything(a, b, 2) == everything(a, b, 3)


def test_no_more_threads_than_asked_for_and_none_for_small_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: set[int] = set()
    load = Kernel.load

    def spy(self: Kernel, start: int, stop: int) -> None:
        seen.add(threading.get_ident())
        load(self, start, stop)

    monkeypatch.setattr(Kernel, "load", spy)
    a, b = noisy(5000)
    with tiny_blocks(block=64):
        Difference(a, b, threads=2).max_abs()
        assert len(seen) <= 2 and threading.get_ident() not in seen
        seen.clear()
        Difference(a, b).max_abs()
        assert seen == {threading.get_ident()}
    with tiny_blocks(block=64, threads_from=10_000):
        Difference(a, b, threads=8).max_abs()
    assert seen == {threading.get_ident()}


def test_errors_in_a_thread_are_raised() -> None:
    def make(scratch: Scratch) -> Any:
        def fail(start: int, stop: int) -> None:
            raise RuntimeError("lost")

        return fail

    with tiny_blocks(), pytest.raises(RuntimeError, match="lost"):
        blocks.scan(1000, make, threads=2)


def test_blocks_cover_everything_once_and_in_order() -> None:
    for threads in (1, 2):
        with tiny_blocks(block=16):
            found = blocks.scan(1000, lambda scratch: lambda start, stop: (start, stop), threads)
        assert found[0] == (0, 16) and found[-1] == (992, 1000)
        assert all(left[1] == right[0] for left, right in itertools.pairwise(found))


class Counted:
    """Counts the blocks that kernels load and the relative differences that they form."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loads = self.divisions = 0
        load, divide = Kernel.load, Kernel._divide

        def counted_load(kernel: Kernel, start: int, stop: int) -> None:
            self.loads += 1
            load(kernel, start, stop)

        def counted_divide(kernel: Kernel, out: Any) -> None:
            self.divisions += 1
            divide(kernel, out)

        monkeypatch.setattr(Kernel, "load", counted_load)
        monkeypatch.setattr(Kernel, "_divide", counted_divide)

    def since(self) -> tuple[int, int]:
        found = self.loads, self.divisions
        self.loads = self.divisions = 0
        return found


def test_nothing_is_computed_without_need_or_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = noisy(1000)
    counted = Counted(monkeypatch)
    with tiny_blocks(block=100):
        difference = Difference(a, b)
        assert counted.since() == (0, 0), "nothing is asked for yet"
        difference.max_abs()
        assert counted.since() == (10, 0), "an absolute difference needs no division"
        difference.mean_abs()
        assert counted.since() == (0, 0), "the mean came with the maximum"
        difference.mismatches(1.0, 1e-9)
        assert counted.since() == (0, 0), "the maximum shows that nothing can mismatch"
        difference.mismatches(1e-9, 1e-9)
        loads, divisions = counted.since()
        # 2 elements are looked up in the end.
        assert (loads, divisions) == (12, 12)
        difference.mismatches(1e-9, 1e-9)
        difference.max_rel()
        assert counted.since() == (0, 0)
        difference.summaries()
        counted.since()
        difference.median_abs()
        difference.quantile_rel(0.99)
        difference.absolute()
        assert counted.since() == (0, 0), "a summary has all of these"


def test_one_pass_gives_the_whole_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = noisy(1000)
    counted = Counted(monkeypatch)
    with tiny_blocks(block=100):
        difference = Difference(a, b)
        assert difference.mismatches(10.0, 10.0).count == 0
        difference.max_abs(), difference.max_rel(), difference.mean_abs(), difference.mean_rel()
        assert counted.since() == (10, 10)


def test_differences_of_a_small_array_are_formed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = noisy(100)
    counted = Counted(monkeypatch)
    everything_of = Difference(a, b)
    everything_of.mismatches(0, 0)
    everything_of.summaries()
    everything_of.median_abs()
    everything_of.absolute_histogram()
    assert counted.since() == (1, 1)


@pytest.mark.parametrize("kind", ["noise", "nan"])
@pytest.mark.parametrize("size", [60, 3000])
def test_measuring_in_one_pass_changes_no_bit(
    kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = noisy(size)
    if kind == "nan":
        a[::7], b[5::11] = np.nan, np.inf
    counted = Counted(monkeypatch)
    with tiny_blocks(block=100, sample=300, kept=3000):
        once, apart = Difference(a, b), Difference(a, b)
        mismatches = once.measure(1e-3, 1e-3)
        loads, _ = counted.since()
        # A pass, a sample, the blocks of 4 extremes and 2 elements.
        assert loads <= -(-size // 100) + 1 + 4 + 2
        for name in ("abs", "rel"):
            for statistic in ("max", "mean", "median"):
                metric = f"{statistic}_{name}"
                found, expected = getattr(once, metric)(), getattr(apart, metric)()
                assert found == expected or (np.isnan(found) and np.isnan(expected)), metric
        assert str(mismatches) == str(apart.mismatches(1e-3, 1e-3))
        assert str(once.summaries()) == str(apart.summaries())
        counted.since()
        once.measure(1e-3, 1e-3)
        once.mismatches(1e-3, 1e-3)
        assert counted.since() == (0, 0)


def test_measuring_infinite_differences() -> None:
    a, b = np.array([np.inf, np.inf]), np.array([1.0, 2.0])
    difference = Difference(a, b)
    assert difference.measure(1, 1).count == 2
    assert difference.max_abs() == difference.mean_abs() == difference.max_rel() == np.inf


def test_measuring_nothing() -> None:
    empty = np.empty((2, 0), np.float32)
    difference = Difference(empty, empty)
    assert difference.measure(0, 0).count == 0
    assert difference.max_abs() == difference.mean_abs() == 0
    difference.summaries()
    assert difference.max_abs() == difference.mean_abs() == 0


def test_quantiles_may_be_asked_for_later() -> None:
    a, b = noisy(3000)
    distances = np.abs(a.astype(np.float64) - b)
    for small in (False, True):
        size = 60 if small else 3000
        with tiny_blocks(block=100, sample=300):
            difference = Difference(a[:size], b[:size])
            assert difference.quantile_abs(0.7) == np.quantile(distances[:size], 0.7)
            assert difference.absolute((0.2,)).quantiles == {
                0.2: np.quantile(distances[:size], 0.2)
            }
            assert list(difference.absolute().quantiles) == [0.9, 0.95, 0.99]
            assert difference.median_abs() == np.median(distances[:size])


def test_quantiles_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = noisy(3000)
    counted = Counted(monkeypatch)
    with tiny_blocks(block=100, sample=300):
        difference = Difference(a, b)
        first = difference.median_abs(), difference.quantile_abs(0.7), difference.quantile_abs(0.1)
        counted.since()
        again = difference.median_abs(), difference.quantile_abs(0.7), difference.quantile_abs(0.1)
        assert first == again
        assert counted.since() == (0, 0)


def peak_of(work: Any) -> int:
    """The most memory that was allocated at once, beyond what was there."""
    scratch._idle.clear()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", spread(["nan", "pass", "sorted", "fail", "strided", "ties"], 3))
def test_memory_does_not_grow_with_the_arrays(kind: str) -> None:
    size = 4_000_000
    a, b = noisy(size, scale=1e-7 if kind == "pass" else 1e-2)
    if kind == "ties":
        a, b = np.round(a), np.round(b)
    elif kind == "nan":
        a[::3] = np.nan
    elif kind == "sorted":
        a.sort()
    elif kind == "strided":
        a, b = a.reshape(-1, 1000)[:, ::2], b.reshape(-1, 1000)[:, ::2]

    def work() -> None:
        difference = Difference(a, b, threads=2)
        difference.mismatches(1e-5, 1e-5)
        difference.summaries()
        difference.absolute_histogram()
        summarize(a, threads=2)
        dot_metrics(a, b, threads=2)

    # Each of the differences would take 30 MiB as a whole.
    assert peak_of(work) < 25 * MIB


def test_operands_are_not_written_to() -> None:
    a, b = noisy(300_000)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    for operands in ((a, b), (a64, b64)):
        copies = [x.copy() for x in operands]
        for x in operands:
            x.flags.writeable = False
        everything(*operands, 1)
        assert all(np.array_equal(x, y) for x, y in zip(operands, copies, strict=True))
