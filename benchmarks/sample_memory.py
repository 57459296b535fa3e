"""Peak memory of a comparison of two classifiers over a folder of 500 samples, and of 5,000.

python benchmarks/sample_memory.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_COUNTS = (500, 5000)
_MOST = 20.0
"""MB by which the larger folder may take more."""


def peak(command: list[str], folder: Path) -> float:
    """Return the peak memory of a command in MB."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), command
    return usage.ru_maxrss / 1024


def main() -> int:
    """Print the peak memory of runs with few and many samples."""
    polygraphy = [sys.executable, "-m", "polygraphy", "run"]
    peaks = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, ROOT / "examples/shapes/make.py", folder], check=True)
        for count in _COUNTS:
            samples = folder / f"samples{count}"
            for kind in sorted((folder / "samples").iterdir()):
                (samples / kind.name).mkdir(parents=True)
                pictures = sorted(kind.iterdir())
                for number in range(count // 4):
                    target = samples / kind.name / f"{number:04}.png"
                    shutil.copy(pictures[number % len(pictures)], target)
            data = ["--load-inputs", samples.name, "--preprocess", "scale=1/255", "layout=nchw"]
            saved = f"{count}.json"
            runs = {
                "saved": ["float32.onnx", "--onnxrt", *data, "--save-outputs", saved],
                "compared": ["int8.onnx", "--onnxrt", *data, "--load-outputs", saved, "--samples",
                             "--compare", "top_k", "--report", f"{count}.report.json"],
            }  # fmt: skip
            peaks[count] = [peak([*polygraphy, *words], folder) for words in runs.values()]
            sizes = ", ".join(f"{what} {size:.1f} MB" for what, size in zip(runs, peaks[count]))
            print(f"{count} samples: {sizes}", flush=True)
    more = max(large - small for small, large in zip(*peaks.values()))
    print(f"{more:.1f} MB more")
    return int(more > _MOST)


if __name__ == "__main__":
    sys.exit(main())
