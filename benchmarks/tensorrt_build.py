"""How long a command that builds an engine takes outside TensorRT.

    python benchmarks/tensorrt_build.py model.onnx [options of polygraphy convert ...]

Runs ``polygraphy convert`` in processes of its own and subtracts from each one's time what TensorRT
takes: for starting CUDA and making the first builder, which loads its kernels, for parsing the
model, for building, and for releasing the builder. The rest is to start, to import, to read
the model, and to save the plan. The median of three counts; compiled modules must be kept, that is
PYTHONDONTWRITEBYTECODE unset. Beside it, once, the least that a program can do: to import TensorRT,
parse the file, build, and write the plan. POLYGRAPHY_USE_TENSORRT_RTX=1 builds with TensorRT-RTX,
which needs no GPU.
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
from polygraphy.adapters.tensorrt.library import module as gpu
from polygraphy.adapters.tensorrt.library.module import tensorrt_module

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

timed(gpu, "_driver", "driver")
timed(trt.Builder, "__init__", "builder")
timed(trt.Builder, "build_serialized_network", "build")
for name in ("parse", "parse_from_file", "parse_with_weight_descriptors"):
    if hasattr(trt.OnnxParser, name):
        timed(trt.OnnxParser, name, "parse")

def finish():
    start = time.perf_counter()
    builders.clear()
    spent["release"] = time.perf_counter() - start
    print("SPENT", *(f"{what}={seconds}" for what, seconds in spent.items()))
"""
OURS = """
from polygraphy.cli.main import main

try:
    sys.exit(main(sys.argv[1:]))
finally:
    finish()
"""
BARE = """
_, model, _, plan, *_ = sys.argv[1:]
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
flags = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
network = builder.create_network(0 if flags is None else 1 << int(flags))
assert trt.OnnxParser(network, logger).parse_from_file(model)
config, profile = builder.create_builder_config(), builder.create_optimization_profile()
for index in range(network.num_inputs):
    tensor = network.get_input(index)
    shape = [max(dim, 1) for dim in tensor.shape]
    profile.set_shape(tensor.name, shape, shape, shape)
config.add_optimization_profile(profile)
with open(plan, "wb") as stream:
    stream.write(builder.build_serialized_network(network, config))
del config, network, builder
finish()
"""


def outside(code: str, model: str, options: list[str]) -> float:
    """Run a conversion, print its times, and return the seconds outside TensorRT."""
    with tempfile.TemporaryDirectory() as folder:
        plan = str(Path(folder) / "model.plan")
        command = [sys.executable, "-c", TIMED + code, "convert", model, "-o", plan, *options]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        total = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    reported = next(line for line in done.stdout.splitlines() if line.startswith("SPENT"))
    parts = {
        what: float(seconds)
        for what, _, seconds in (w.partition("=") for w in reported.split()[1:])
    }
    outside = total - sum(parts.values())
    listed = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in parts.items())
    print(f"  {total:.2f} s; in TensorRT: {listed}; outside {outside:.2f} s")
    return outside


def main() -> int:
    """Print the time of a build inside and outside TensorRT; return 1 if a limit is exceeded."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    model, *options = sys.argv[1:]
    print("polygraphy convert")
    median = statistics.median(outside(OURS, model, options) for _ in range(REPEATS))
    print("TensorRT alone")
    bare = outside(BARE, model, [])
    print(f"outside TensorRT: {median:.2f} s, of at most {TARGET:g} s; bare {bare:.2f} s")
    return int(median > TARGET)


if __name__ == "__main__":
    sys.exit(main())
