"""How long a command that builds an engine takes outside TensorRT.

    python benchmarks/tensorrt_build.py model.onnx [options of polygraphy convert ...]

Runs ``polygraphy convert`` in processes of its own and subtracts from each one's time what TensorRT
takes: for making its first builder, which loads its kernels, for parsing the model, for building,
and for releasing the builder, which unloads the kernels. The rest is to start, to import, to read
the model, and to save the plan. The median of three counts; compiled modules must be kept, that is
PYTHONDONTWRITEBYTECODE unset. POLYGRAPHY_USE_TENSORRT_RTX=1 builds with TensorRT-RTX, which needs
no GPU.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEATS = 3
TARGET = 1.0
TIMED = """
import sys, time
from polygraphy.adapters.tensorrt.module import tensorrt_module

trt, spent, builders = tensorrt_module(), {}, []

def timed(owner, name, what):
    call = getattr(owner, name)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        if what == "builder":
            builders.append(args[0])
        try:
            return call(*args, **kwargs)
        finally:
            spent[what] = spent.get(what, 0.0) + time.perf_counter() - start
    setattr(owner, name, wrapper)

timed(trt.Builder, "__init__", "builder")
timed(trt.Builder, "build_serialized_network", "build")
for name in ("parse", "parse_from_file", "parse_with_weight_descriptors"):
    if hasattr(trt.OnnxParser, name):
        timed(trt.OnnxParser, name, "parse")

from polygraphy.cli.main import main

try:
    sys.exit(main(sys.argv[1:]))
finally:
    start = time.perf_counter()
    builders.clear()
    spent["release"] = time.perf_counter() - start
    print("SPENT", *(f"{what}={seconds}" for what, seconds in spent.items()))
"""


def main() -> int:
    model, *options = sys.argv[1:]
    outside = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            plan = str(Path(folder) / "model.plan")
            command = [sys.executable, "-c", TIMED, "convert", model, "-o", plan, *options]
            start = time.perf_counter()
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=os.environ
            )
            whole = time.perf_counter() - start
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
        told = next(line for line in done.stdout.splitlines() if line.startswith("SPENT"))
        parts = {
            what: float(seconds)
            for what, _, seconds in (w.partition("=") for w in told.split()[1:])
        }
        outside.append(whole - sum(parts.values()))
        listed = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in parts.items())
        print(f"whole command {whole:.2f} s; in TensorRT: {listed}; outside {outside[-1]:.2f} s")
    median = statistics.median(outside)
    print(f"outside TensorRT: {median:.2f} s, of at most {TARGET:g} s")
    return int(median > TARGET)


if __name__ == "__main__":
    sys.exit(main())
