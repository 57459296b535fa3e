"""How long results take to be saved and loaded, and how much memory beyond the arrays that needs.

    python benchmarks/json_store.py

Saving includes that the file is on the disk (fsync), for everybody. Measured are one array, and
many small ones. The floors are NumPy's own files, without JSON around them. Uses the `polygraphy`
that the running interpreter imports. With POLYGRAPHY_NVIDIA_PYTHON naming an interpreter that has
NVIDIA's tool, that is measured in the same run, in turns with ours.

POLYGRAPHY_BENCHMARK_MB sets the size of the one array (1000), POLYGRAPHY_BENCHMARK_RUNS the number
of runs (3), of which medians are shown.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

MEGABYTES = int(os.environ.get("POLYGRAPHY_BENCHMARK_MB", "1000"))
RUNS = int(os.environ.get("POLYGRAPHY_BENCHMARK_RUNS", "3"))
SMALL_ARRAYS = 10_000

# Each program runs in a separate process, and prints the seconds, and its memory before the
# measurement in bytes.
PROGRAM = """
import os, time
import numpy as np

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))

def synced(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())

def one():
    random = np.random.default_rng(0)
    return [random.random({megabytes} * 250_000, dtype=np.float32)]

def many():
    return list(np.random.default_rng(0).random(({many}, 1000), dtype=np.float32))

{prepare}
before = anonymous()
start = time.perf_counter()
{act}
print(time.perf_counter() - start, before)
"""

IMPORTS = """
from polygraphy.comparator import RunResults
from polygraphy.logger import G_LOGGER
G_LOGGER.module_severity = G_LOGGER.CRITICAL
"""

RESULTS = """
results = RunResults()
results.add([{{"y": array}} for array in {arrays}()], runner_name="runner")
"""


class Case(NamedTuple):
    """A program, and what it is compared with."""

    python: str
    prepare: str
    act: str
    arrays_after: bool
    """Whether the arrays come into being while the clock runs, and so are not counted."""


class Taken(NamedTuple):
    seconds: float
    extra_megabytes: float


def cases_of(python: str, imports: str, name: str) -> dict[str, Case]:
    """Return the cases of saving and loading with a package, by label."""
    cases = {}
    for arrays in ("one", "many"):
        results = imports + RESULTS.format(arrays=arrays)
        path = f"{name}-{arrays}.json"
        sync = f'results.save("{path}"); synced("{path}")'
        cases[f"save {arrays}: {name}"] = Case(python, results, sync, False)
        load = f'results = RunResults.load("{path}"); sum(len(it["y"]) for it in results[0][1])'
        cases[f"load {arrays}: {name}"] = Case(python, imports, load, True)
    return cases


def floors() -> dict[str, Case]:
    """Return the cases of saving and loading with plain NumPy, by label."""
    cases = {}
    for arrays in ("one", "many"):
        path = f"floor-{arrays}.npz"
        save = f'np.savez("{path}", *arrays); synced("{path}")'
        cases[f"save {arrays}: floor"] = Case(sys.executable, f"arrays = {arrays}()", save, False)
        load = f'with np.load("{path}") as file: arrays = [file[name] for name in file.files]'
        cases[f"load {arrays}: floor"] = Case(sys.executable, "", load, True)
    return cases


def measure_case(case: Case, label: str, folder: Path) -> Taken:
    """Run a case in its own process, and return its seconds and memory."""
    program = PROGRAM.format(
        megabytes=MEGABYTES, many=SMALL_ARRAYS, prepare=case.prepare, act=case.act
    )
    environment = dict(os.environ)
    if case.python != sys.executable:
        # The variable would make the other interpreter import this package instead of its own.
        environment.pop("PYTHONPATH", None)
    with subprocess.Popen(
        [case.python, "-c", program], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(0.005)
        assert process.stdout is not None
        output = process.stdout.read().split()
    if process.returncode != 0:
        raise SystemExit(f"{label} failed.")
    size = MEGABYTES * 1_000_000 if "one" in label else SMALL_ARRAYS * 4000
    extra = peak - int(output[1]) - case.arrays_after * size
    return Taken(float(output[0]), extra / 1e6)


def anonymous_bytes(process: int) -> int:
    """Return the anonymous resident memory of a process in bytes; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("RssAnon")]
    return int(lines[0].split()[1]) << 10 if lines else 0


def main() -> None:
    """Print the table of all cases."""
    cases = cases_of(sys.executable, IMPORTS, "ours") | floors()
    nvidia_python = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON")
    if nvidia_python:
        cases |= cases_of(nvidia_python, IMPORTS, "NVIDIA")
    figures: dict[str, list[Taken]] = {label: [] for label in cases}
    with tempfile.TemporaryDirectory(dir=".") as name:
        for _ in range(RUNS):
            for label, case in cases.items():
                figures[label].append(measure_case(case, label, Path(name)))
    print(f"one array of {MEGABYTES} MB, many of 4 kB: {SMALL_ARRAYS}; medians of {RUNS} runs")
    print(f"{'':20} {'seconds':>9} {'of floor':>9} {'of NVIDIA':>10} {'extra MB':>9}")
    seconds = {
        label: statistics.median(run.seconds for run in runs) for label, runs in figures.items()
    }
    for label in sorted(cases, key=lambda label: label.partition(":")[::2]):
        doing = label.partition(":")[0]
        nvidia_seconds = seconds.get(f"{doing}: NVIDIA")
        of_floor = seconds[label] / seconds[f"{doing}: floor"]
        of_theirs = f"{seconds[label] / nvidia_seconds:10.2f}" if nvidia_seconds else f"{'-':>10}"
        extra = statistics.median(run.extra_megabytes for run in figures[label])
        print(f"{label:20} {seconds[label]:9.2f} {of_floor:9.2f} {of_theirs} {extra:9.0f}")


if __name__ == "__main__":
    main()
