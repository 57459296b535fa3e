"""How long comparing two arrays takes, beside the least that numpy needs for the same question.

    python benchmarks/compare_simple.py                    # 10 million elements
    python benchmarks/compare_simple.py --size 100e6       # what the targets are meant for
    python benchmarks/compare_simple.py --peer PYTHON      # also an interpreter with NVIDIA's tool

Floors and arithmetic run in this process, in turns, on the same arrays; times are medians. The
floors are numpy as its users would write it at best, in float32 and without a check:

* a verdict: the largest difference and the number of mismatches, fused in cache-sized blocks;
* everything: both differences as whole arrays, built in blocks; of these and of both operands the
  mean, variance, extremes and their places, mean magnitude, median and three quantiles;
* medians (for information): the same differences, and nothing but a median of each of the four.
  How long that takes depends on whether numpy selects with AVX2 or AVX-512: it is six times slower
  without (try NPY_DISABLE_CPU_FEATURES="AVX512_ICL X86_V4 X86_V3").

A ratio is time by floor; the exit code is 1 if one is above its target.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polygraphy.domain.arithmetic import Difference, summarize
from polygraphy.domain.arithmetic.similarity import dot_metrics

Array = np.ndarray[Any, Any]
BLOCK = 1 << 16
MIB = 1 << 20


class Row(NamedTuple):
    name: str
    seconds: float
    floor: float
    target: float
    extra: float
    """MiB of memory beyond the arrays, at most; NaN where that cannot be measured."""

    def __str__(self) -> str:
        """Return the row as Markdown."""
        ratio = self.seconds / self.floor
        return (
            f"| {self.name} | {self.seconds:.4f} | {self.floor:.4f} | {ratio:.2f}"
            f" | {self.target:g} | {self.extra:.0f} |"
        )

    def passed(self) -> bool:
        """Return whether the time is within its limit."""
        return self.seconds <= self.target * self.floor


def noisy(size: int, scale: float = 1e-6) -> tuple[Array, Array]:
    """Return two float32 arrays that differ by normal noise of a scale."""
    generator = np.random.default_rng(0)
    a = generator.standard_normal(size, dtype=np.float32)
    b = generator.standard_normal(size, dtype=np.float32)
    b *= np.float32(scale)
    b += a
    return a, b


def spoil(kind: str, a: Array, b: Array) -> None:
    """Change the arrays in place to a kind of data, such as sorted numbers or ties."""
    if kind == "ties":
        np.round(a, out=a)
        np.round(b * 2, out=b)
    elif kind == "rectified":
        np.maximum(a, 0, out=a)
        np.maximum(b, 0, out=b)
    elif kind == "sorted":
        a.sort()
        b.sort()
    elif kind == "reversed":
        a[:] = np.sort(a)[::-1]
        b[:] = np.sort(b)[::-1]
    elif kind == "equal":
        a[:] = b[:] = 0.1
    elif kind == "nan":
        a[np.random.default_rng(1).random(a.size, dtype=np.float32) < 0.3] = np.nan


# The next functions do the same work in plain NumPy. Their times are lower limits.


def fuse_statistics(a: Array, b: Array) -> float:
    """Return the largest absolute difference plus the number of mismatches, in blocks."""
    out, mask = np.empty(BLOCK, a.dtype), np.empty(BLOCK, np.bool_)
    largest, count = 0.0, 0
    for i in range(0, a.size, BLOCK):
        x, y = a[i : i + BLOCK], b[i : i + BLOCK]
        d = np.subtract(x, y, out=out[: x.size])
        np.abs(d, out=d)
        largest = max(largest, float(d.max()))
        count += int(np.count_nonzero(np.greater(d, np.float32(1e-3), out=mask[: x.size])))
    return largest + count


def differences(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the absolute and relative differences of two arrays, computed in blocks."""
    absolute, relative = np.empty_like(a), np.empty_like(a)
    with np.errstate(all="ignore"):
        for i in range(0, a.size, BLOCK):
            x, y = a[i : i + BLOCK], b[i : i + BLOCK]
            d = np.subtract(x, y, out=absolute[i : i + BLOCK])
            np.abs(d, out=d)
            np.divide(d, np.abs(y), out=relative[i : i + BLOCK])
    return absolute, relative


def medians(a: Array, b: Array) -> float:
    """Return a sum of the medians of both differences and both operands."""
    middle = a.size // 2
    return sum(float(np.partition(x, middle)[middle]) for x in (*differences(a, b), a, b))


def describe(x: Array) -> float:
    """Return a sum of the statistics of an array, computed in blocks."""
    total = magnitude = squares = 0.0
    for i in range(0, x.size, BLOCK):
        block = x[i : i + BLOCK].astype(np.float64)
        total += float(block.sum())
        magnitude += float(np.abs(block, out=block).sum())
        squares += float(np.square(block, out=block).sum())
    places = int(x.argmin()) + int(x.argmax())
    ordered, start, picked = x.copy(), 0, 0.0
    for probability in (0.5, 0.9, 0.95, 0.99):
        # Only what is above the last quantile needs to be searched for the next one.
        rank = int(probability * (x.size - 1))
        ordered[start:].partition(rank - start)
        picked += float(ordered[rank])
        start = rank
    return total + squares + magnitude + picked + places


def statistics_of_all(a: Array, b: Array) -> float:
    """Return a sum of the statistics of both differences and both operands."""
    return fuse_statistics(a, b) + sum(describe(x) for x in (*differences(a, b), a, b))


def dots(a: Array, b: Array) -> float:
    """Return the sum of the dot products that a cosine similarity needs."""
    return float(a.dot(a) + b.dot(b) + a.dot(b))


# The next functions measure the times.


def verdict(a: Array, b: Array, tolerance: float, threads: int) -> None:
    """Compute the mismatches and the maxima, as `run` does for its verdict."""
    difference = Difference(a, b, threads=threads)
    difference.mismatches(tolerance, tolerance)
    difference.max_abs(), difference.max_rel(), difference.mean_abs()


def everything(a: Array, b: Array, tolerance: float, threads: int) -> None:
    """Compute all metrics of two arrays."""
    difference = Difference(a, b, threads=threads)
    difference.measure(tolerance, tolerance)
    difference.max_abs(), difference.max_rel(), difference.mean_abs(), difference.mean_rel()
    difference.summaries()
    difference.median_abs(), difference.median_rel()
    summarize(a, threads=threads), summarize(b, threads=threads)


def median_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the median wall time of a function, in seconds."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def resident(field: str) -> float:
    """Return a field of `/proc/self/status` in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return math.nan


def extra_memory(work: Callable[[], Any]) -> float:
    """Return the largest growth of this process in MiB while `work` runs (Linux)."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = resident("VmRSS:")
        work()
        return resident("VmHWM:") - before
    except OSError:
        return math.nan


def measure_large(size: int, threads: int, repeats: int) -> list[Row]:
    """Return rows for two large arrays of `size` elements, with their lower limits."""
    a, b = noisy(size)
    floors = {
        name: median_seconds(lambda floor=floor: floor(a, b), repeats)
        for name, floor in (
            ("fused", fuse_statistics),
            ("all", statistics_of_all),
            ("medians", medians),
            ("dots", dots),
        )
    }
    rows = [Row("(medians only)", floors["medians"], floors["all"], math.inf, math.nan)]
    for name, tolerance in (("pass", 1e-3), ("fail", 1e-7)):
        took = median_seconds(
            lambda tolerance=tolerance: verdict(a, b, tolerance, threads), repeats
        )
        rows.append(Row(f"verdict, {name}", took, floors["fused"], 6, math.nan))
        rows.append(measure_all(name, a, b, tolerance, threads, repeats, floors["all"]))
    took = median_seconds(lambda: dot_metrics(a, b, threads=threads), repeats)
    rows.append(Row("dot metrics", took, floors["dots"], 4, math.nan))
    for kind in ("rectified", "ties", "equal", "sorted", "reversed", "nan"):
        del a, b
        a, b = noisy(size)
        spoil(kind, a, b)
        floor = median_seconds(partial(statistics_of_all, a, b), repeats)
        rows.append(measure_all(kind, a, b, 1e-3, threads, repeats, floor))
    return rows


def measure_all(
    name: str, a: Array, b: Array, tolerance: float, threads: int, repeats: int, floor: float
) -> Row:
    """Return the row for all metrics of two arrays; `floor` is the lower limit in seconds."""

    def work() -> None:
        """Compute all metrics once."""
        everything(a, b, tolerance, threads)

    extra = extra_memory(work)
    return Row(f"everything, {name}", median_seconds(work, repeats), floor, 0.7, extra)


def measure_small(pairs: int, repeats: int) -> Row:
    """Return the row for many pairs of small arrays."""
    operands = [noisy(100) for _ in range(pairs)]

    def work() -> None:
        """Compute all metrics of each pair."""
        for a, b in operands:
            everything(a, b, 1e-3, 1)

    # The lower limit is a constant: a tenth of a millisecond for each pair.
    return Row(f"{pairs} pairs of 100", median_seconds(work, repeats), pairs * 1e-4, 1.2, math.nan)


PEER = """
import sys, time
import numpy as np
from polygraphy.comparator import CompareFunc, IterationResult
from polygraphy.logger import G_LOGGER
G_LOGGER.severity = G_LOGGER.CRITICAL
generator = np.random.default_rng(0)
a = generator.standard_normal(int(sys.argv[1]), dtype=np.float32)
b = a + generator.standard_normal(a.size, dtype=np.float32) * np.float32(1e-6)
start = time.perf_counter()
CompareFunc.simple(atol=1e-3, rtol=1e-3)(IterationResult({"x": a}), IterationResult({"x": b}))
large = time.perf_counter() - start
pairs = [(a[i : i + 100], b[i : i + 100]) for i in range(0, 20000, 100)]
start = time.perf_counter()
for x, y in pairs:
    CompareFunc.simple(atol=1e-3, rtol=1e-3)(IterationResult({"x": x}), IterationResult({"x": y}))
print(large, (time.perf_counter() - start) / len(pairs))
"""


def peer(python: str, size: int) -> tuple[float, float]:
    """Return the seconds of another Polygraphy for arrays of a size, and for a pair of 100."""
    result = subprocess.run(
        [python, "-c", PEER, str(size)], capture_output=True, text=True, check=True, cwd="/"
    )
    large, small = map(float, result.stdout.split()[-2:])
    return large, small


def main() -> int:
    """Print the table; return 1 if a row exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=10e6, help="elements of a large array")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter with NVIDIA's Polygraphy")
    options = parser.parse_args()
    size = int(options.size)
    rows = [
        *measure_large(size, options.threads, options.repeats),
        measure_small(1000, options.repeats),
    ]
    print(f"float32, {size:,} elements, {options.threads} threads, numpy {np.__version__}\n")
    print("| what | s | floor s | ratio | target | extra MiB |\n|---|---:|---:|---:|---:|---:|")
    print(*rows, sep="\n")
    if options.peer:
        large, small = peer(options.peer, size)
        print(
            f"\nNVIDIA's simple comparison: {large:.3f} s for {size:,} elements,"
            f" {small * 1000:.2f} ms for a pair of 100"
        )
    return 0 if all(row.passed() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
