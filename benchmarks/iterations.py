"""How memory grows over many small iterations that are run, compared and saved.

    python benchmarks/iterations.py             # 100,000 iterations
    python benchmarks/iterations.py 20000

Two runners stream, every iteration is compared and its outputs are saved to a file; the log is
silent. Shown is the memory of the process after each tenth of the iterations.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.backend.onnxrt import OnnxrtRunner
from polygraphy.comparator import Comparator
from polygraphy.logger import G_LOGGER

sys.path.insert(0, str(Path(__file__).parent))

from runner import tiny_session


def resident() -> int:
    """Return the resident memory of the process in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def feeds(count: int) -> Iterator[dict[str, Any]]:
    """Yield `count` equal feeds, and print the resident memory ten times."""
    array = np.ones((1, 16), np.float32)
    for index in range(count):
        if index % (count // 10) == 0:
            gc.collect()
            print(f"{index:8} iterations: {resident() / 2**20:7.1f} MiB", flush=True)
        yield {"x": array}


def main() -> None:
    """Print the time and memory of many iterations."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    session = tiny_session()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        results = Comparator.run(
            [OnnxrtRunner(session), OnnxrtRunner(session)],
            feeds(count),
            streaming=True,
            save_outputs_path=f"{folder}/results.json",
        )
        verdicts = Comparator.compare_accuracy(results)
        assert verdicts
        microseconds = (time.perf_counter() - start) / count * 1e6
    print(f"{count:8} iterations: {resident() / 2**20:7.1f} MiB; {microseconds:.0f} us each")


if __name__ == "__main__":
    main()
