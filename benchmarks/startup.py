"""How long commands take to start, as multiples of what Python and ONNX Runtime need by themselves.

    python benchmarks/startup.py

Uses the `polygraphy` that is installed beside the running interpreter; measure an installed
package, not an editable one, whose import hook alone costs milliseconds. Packages are compiled
first, as pip does when it installs them. With POLYGRAPHY_NVIDIA_PYTHON naming an interpreter that
has NVIDIA's tool, that is measured in the same run, and imports of published modules are measured
beside its imports, in CPU time: they must take at most 1.1 times as long.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = int(os.environ.get("POLYGRAPHY_BENCHMARK_RUNS", "21"))

RAW = """
import numpy as np
import onnxruntime as ort
session = ort.InferenceSession("identity.onnx", providers=["CPUExecutionProvider"])
print(session.run(None, {"x": np.random.RandomState(1).rand(1, 1, 2, 2).astype(np.float32)})[0])
"""


def save_identity(folder: Path) -> None:
    """Save a model with one Identity node."""

    from onnx import TensorProto, helper, save

    def tensor(name: str) -> object:
        """Return the description of a float tensor."""
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 1, 2, 2))

    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [tensor("x")], [tensor("y")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, str(folder / "identity.onnx"))


def compile_packages(python: Path) -> None:
    """Compile the installed packages of an interpreter.

    Not every installer does, and if Python writes no bytecode, each start would compile them.
    """
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    folder = subprocess.run([str(python), "-c", where], check=True, capture_output=True, text=True)
    # Errors are ignored, because some packages contain files for other versions of Python.
    subprocess.run([str(python), "-m", "compileall", "-qq", folder.stdout.strip()], check=False)


def seconds(command: list[str], folder: Path) -> float:
    """Return the wall time of a command, in seconds."""
    start = time.perf_counter()
    subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - start


IMPORTS = ("polygraphy.backend.onnxrt", "polygraphy.backend.trt", "polygraphy.comparator")


def cpu_seconds(command: list[str]) -> float:
    """Return the CPU time of a command, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure_imports(python: Path, other_python: Path) -> None:
    """Print the CPU time of imports with both tools, measured in turns."""
    print(f"{'import':40} {'median ms':>10} {'NVIDIA':>10} {'ratio':>7}")
    for module in IMPORTS:
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(RUNS + 1):
            for seconds, interpreter in zip(times, (python, other_python)):
                seconds.append(cpu_seconds([str(interpreter), "-c", f"import {module}"]))
        ours, nvidia = (statistics.median(seconds[1:]) for seconds in times)
        print(f"{module:40} {ours * 1e3:10.1f} {nvidia * 1e3:10.1f} {ours / nvidia:7.2f}")


def commands_of(interpreter: Path) -> dict[str, list[str]]:
    """Return the measured commands of an environment, by label."""
    script = str(interpreter.parent / "polygraphy")
    return {
        "-h": [script, "-h"],
        "run -h": [script, "run", "-h"],
        "run identity.onnx --onnxrt": [script, "run", "identity.onnx", "--onnxrt"],
    }


def main() -> None:
    """Print the times of commands and imports."""
    python = Path(sys.executable)
    floors = {"python -c pass": [str(python), "-c", "pass"], "raw script": [str(python), "raw.py"]}
    measured = {**floors, **commands_of(python)}
    compile_packages(python)
    nvidia_python = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON")
    if nvidia_python:
        compile_packages(Path(nvidia_python))
        measured |= {
            f"NVIDIA: {name}": command for name, command in commands_of(Path(nvidia_python)).items()
        }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_identity(folder)
        (folder / "raw.py").write_text(RAW)
        times: dict[str, list[float]] = {label: [] for label in measured}
        for _ in range(RUNS + 1):  # The first round warms the file cache.
            for label, command in measured.items():
                times[label].append(seconds(command, folder))
    medians = {label: statistics.median(seconds[1:]) for label, seconds in times.items()}
    print(f"{'command':40} {'median ms':>10} {'ratio':>7}  floor")
    for label, median in medians.items():
        floor = "raw script" if "identity" in label else "python -c pass"
        print(f"{label:40} {median * 1e3:10.1f} {median / medians[floor]:7.2f}  {floor}")
    if nvidia_python:
        measure_imports(python, Path(nvidia_python))


if __name__ == "__main__":
    main()
