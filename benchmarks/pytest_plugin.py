"""What the pytest plugin costs a session that does not use it, in processor seconds.

    python benchmarks/pytest_plugin.py [--tests 1 2000] [--rounds 9]

Sessions with the plugin and without it (`-p no:polygraphy`) in turn; the least counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sweep_cells import processor_seconds

_IMPORT = """
import sys, time, pytest
there, start = {*sys.modules}, time.perf_counter()
import pytest_polygraphy
print(f"import: {1e3 * (time.perf_counter() - start):.1f} ms; new:", *({*sys.modules} - there))
"""


def main() -> None:
    """Print the time of a session of pytest with and without the plugin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=int, nargs="+", default=[1, 2000])
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in args.tests:
            tests = "".join(f"def test_{n}():\n    pass\n\n\n" for n in range(count))
            (folder / "test_empty.py").write_text(tests)
            seconds: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(args.rounds + 1):  # The first round fills the caches of bytecode.
                for has_plugin, took in seconds.items():
                    without = [] if has_plugin else ["-p", "no:polygraphy"]
                    took.append(processor_seconds([*pytest, *without], folder))
            on, off = (min(took[1:]) for took in seconds.values())
            print(f"{count:5} empty tests: {off:.3f} s without the plugin, {on:.3f} s with it,"
                  f" {1e3 * (on - off):+.0f} ms")  # fmt: skip
    subprocess.run([sys.executable, "-c", _IMPORT], check=True)
    print(f"load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
