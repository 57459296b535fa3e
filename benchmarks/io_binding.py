"""What ONNX Runtime's I/O binding would gain over `session.run` on the CPU.

    python benchmarks/io_binding.py

Ways, which take turns: `run` (the floor), `OnnxrtRunner`, `ortvalues` (run_with_ort_values),
`binding` (outputs that ONNX Runtime allocates), `reused` (outputs bound to the same arrays each
time, so that a result is overwritten by the next). Memory is that of processes of their own.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polygraphy.backend.onnxrt import OnnxrtRunner

MIB = 1 << 20
ROUNDS = 15
CASES = {"tiny": (16, 16), "64 MiB in": (64 * MIB // 4, 1), "256 MiB out": (1, 256 * MIB // 4)}
"""Elements in, elements out."""

Feed = Mapping[str, np.ndarray[Any, Any]]
Way = Callable[[Any, Feed, int], Callable[[], Any]]


def session(elements_in: int, elements_out: int) -> Any:
    """Return a session of a model that does almost nothing with a number of elements."""
    import onnxruntime
    from onnx import TensorProto, helper

    def tensor(name: str, size: int) -> Any:
        """Return the description of a float tensor of one axis."""
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (size,))

    weights = []
    if elements_in == elements_out:
        node = helper.make_node("Relu", ["x"], ["y"])
    elif elements_out == 1:
        node = helper.make_node("ReduceMax", ["x"], ["y"])
    else:
        weights = [helper.make_tensor("shape", TensorProto.INT64, [1], [elements_out])]
        node = helper.make_node("Expand", ["x", "shape"], ["y"])
    graph = helper.make_graph(
        [node], "g", [tensor("x", elements_in)], [tensor("y", elements_out)], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def run(session: Any, feed: Feed, size: int) -> Callable[[], Any]:
    """Return a function that runs a session with NumPy arrays, and returns the output."""
    return lambda: session.run(["y"], feed)[0]


def runner(session: Any, feed: Feed, size: int) -> Callable[[], Any]:
    """Return a function that runs `OnnxrtRunner`, and returns the output."""
    ours = OnnxrtRunner(session)
    ours.activate()
    return lambda: ours.infer(feed)["y"]


def ortvalues(session: Any, feed: Feed, size: int) -> Callable[[], Any]:
    """Return a function that runs a session with OrtValues, and returns the output."""

    import onnxruntime

    def infer() -> Any:
        """Return the output of one inference."""
        value = onnxruntime.OrtValue.ortvalue_from_numpy(feed["x"])
        return session.run_with_ort_values(["y"], {"x": value})[0].numpy()

    return infer


def binding(session: Any, feed: Feed, size: int) -> Callable[[], Any]:
    """Return a function that runs a session with bound inputs and outputs."""
    bound = session.io_binding()

    def infer() -> Any:
        """Return the output of one inference."""
        bound.bind_cpu_input("x", feed["x"])
        bound.bind_output("y")
        session.run_with_iobinding(bound)
        return bound.copy_outputs_to_cpu()[0]

    return infer


def reuse_binding(session: Any, feed: Feed, size: int) -> Callable[[], Any]:
    """Return a function that runs a session with the same binding and output array each time."""
    bound, out = session.io_binding(), np.empty(size, np.float32)
    bound.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)

    def infer() -> Any:
        """Return the output of one inference."""
        bound.bind_cpu_input("x", feed["x"])
        session.run_with_iobinding(bound)
        return out

    return infer


WAYS: dict[str, Way] = {
    "run": run,
    "OnnxrtRunner": runner,
    "ortvalues": ortvalues,
    "binding": binding,
    "reused": reuse_binding,
}


def median_milliseconds(case: str) -> dict[str, float]:
    """Return the milliseconds of an inference by way, including a read of large outputs."""
    elements_in, elements_out = CASES[case]
    opened = session(elements_in, elements_out)
    feed = {"x": np.ones(elements_in, np.float32)}
    times = 500 if case == "tiny" else 1
    infers = {name: way(opened, feed, elements_out) for name, way in WAYS.items()}
    milliseconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS + 1):
        for name, infer in infers.items():
            start = time.perf_counter()
            for _ in range(times):
                result = infer()
            if elements_out > elements_in:
                result.sum()
            milliseconds[name].append((time.perf_counter() - start) / times * 1e3)
            del result
    return {
        name: statistics.median(times_of_way[1:]) for name, times_of_way in milliseconds.items()
    }


def peak(case: str, way: str) -> float:
    """Return the MiB that inferences need in addition to the input."""
    elements_in, elements_out = CASES[case]
    feed = {"x": np.ones(elements_in, np.float32)}
    opened = session(elements_in, elements_out)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    infer = WAYS[way](opened, feed, elements_out)
    for _ in range(3):
        infer()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def peak_elsewhere(case: str, way: str) -> float:
    """Return the MiB that inferences need in their own process."""
    command = [sys.executable, __file__, case, way]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure every case in every way, and print a table."""
    print("| case | way | ms | of `run` | MiB |")
    print("| --- | --- | ---: | ---: | ---: |")
    # Measure memory first, because new processes inherit the peak memory of this one.
    extra = {(case, way): peak_elsewhere(case, way) for case in CASES for way in WAYS}
    for case in CASES:
        milliseconds_by_way = median_milliseconds(case)
        for way, milliseconds in milliseconds_by_way.items():
            ratio = milliseconds / milliseconds_by_way["run"]
            print(f"| {case} | {way} | {milliseconds:.3g} | {ratio:.2f} | {extra[case, way]:.0f} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(peak(*sys.argv[1:]))
    else:
        main()
