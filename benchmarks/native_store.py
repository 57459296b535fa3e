"""How long a gigabyte of results takes in the native format, against NumPy's own archive.

    python benchmarks/native_store.py

Saving includes that the file is on the disk (fsync), for both. Opening reads the header; the last
line also reads, and so checks, every byte. POLYGRAPHY_BENCHMARK_MB sets the size (1000),
POLYGRAPHY_BENCHMARK_RUNS the number of runs (5), of which medians are shown; the two take turns.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from polygraphy.comparator import IterationResult, RunResults
from polygraphy.logger import G_LOGGER

MEGABYTES = int(os.environ.get("POLYGRAPHY_BENCHMARK_MB", "1000"))
RUNS = int(os.environ.get("POLYGRAPHY_BENCHMARK_RUNS", "5"))
OUTPUTS = 10


def sync_file(path: Path) -> None:
    """Write the cached data of a file to its disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def seconds(act: Callable[[], object]) -> float:
    """Return the wall time of a function, in seconds."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def main() -> None:
    """Print the times of saving and loading results."""
    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    random = np.random.default_rng(0)
    outputs = {
        f"output{index}": random.random(MEGABYTES * 250_000 // OUTPUTS, dtype=np.float32)
        for index in range(OUTPUTS)
    }
    results = RunResults()
    results.append(("runner", [IterationResult(outputs=outputs, runner_name="runner")]))
    with tempfile.TemporaryDirectory() as folder:
        ours, npz_file = Path(folder, "results.safetensors"), Path(folder, "results.npz")

        def savez() -> None:  # Write to a temporary file first, as `polygraphy` does.
            """Save the outputs as NPZ, safely on disk."""
            part = Path(folder, "part.npz")
            np.savez(part, **outputs)
            sync_file(part)
            part.replace(npz_file)

        def load_npz() -> None:
            """Read each array of the NPZ file."""
            with np.load(npz_file) as archive:
                for name in archive.files:
                    archive[name].sum()

        def read_ours() -> None:
            """Read each array of our file."""
            for _, iterations in RunResults.load(str(ours)):
                for array in iterations[0].values():
                    array.sum()

        measured: dict[str, list[float]] = {}
        for _ in range(RUNS):
            for name, act in (
                ("np.savez", savez),
                ("save", lambda: results.save(str(ours))),
                ("open", lambda: RunResults.load(str(ours))),
                ("np.load and sum", load_npz),
                ("open, check and sum", read_ours),
            ):
                measured.setdefault(name, []).append(seconds(act))
                if name in ("np.savez", "save"):
                    os.sync()
    medians = {name: statistics.median(times) for name, times in measured.items()}
    print(f"{MEGABYTES} MB in {OUTPUTS} outputs")
    for name, median in medians.items():
        print(f"{name:22} {median:8.4f} s")
    print(f"save: {medians['save'] / medians['np.savez']:.2f} times np.savez")
    print(f"read: {medians['open, check and sum'] / medians['np.load and sum']:.2f} times np.load")


if __name__ == "__main__":
    main()
