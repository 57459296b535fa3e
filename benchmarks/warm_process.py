"""What it costs that a backend which does not survive a fork works in a process that stays warm.

    python benchmarks/warm_process.py [--openvino]

ONNX Runtime on the CPU, in this process and in such a process: one inference, for small and large
tensors; and a diagnosis of outputs alone that tries 432 variants of a chain of nodes, with the
processes that it starts. Times are the least of five runs in turn.

ONNX Runtime on the CPU takes 2 ms for a variant and never works so, which shows the cost alone.
OpenVINO always does: with --openvino, the same diagnosis in such a process and in this one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.openvino.party import OpenvinoParty
from polygraphy.adapters.processes import warm_process
from polygraphy.application.diagnose import diagnosing, subprocesses
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.domain.errors import InconclusiveError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import call_isolated

RUNS = 5
SIDES = (64, 1024, 4096)
BLOCKS = 24
FEED = {"x": np.random.default_rng(4).normal(size=(3, 16)).astype(np.float32)}


def negation(side: int) -> ModelProto:
    """Return a model of one node, whose cost is that of its tensors."""
    head = '<ir_version: 8, opset_import: ["": 17]>'
    shape = f"float[{side},{side}]"
    model: ModelProto = parser.parse_model(f"{head} m ({shape} x) => ({shape} y) {{ y = Neg(x) }}")
    return model


def chain(scale: float) -> ModelProto:
    """Return a model of products and activations, whose last weight is scaled."""
    nodes, weights, name = [], [], "x"
    rng = np.random.default_rng(1)
    for index in range(BLOCKS):
        weight = rng.normal(size=(16, 16)) / 4 * (scale if index == BLOCKS - 1 else 1)
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"w{index}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{index}"], [f"p{index}"], f"mm{index}"))
        nodes.append(helper.make_node("Tanh", [f"p{index}"], [f"t{index}"], f"tanh{index}"))
        name = f"t{index}"
    ends = [helper.make_tensor_value_info(name, 1, [3, 16]) for name in ("x", name)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def least(work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of several runs."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def diagnose_chain(folder: str, party: Any) -> None:
    """Diagnose a chain against outputs of another weight."""
    with suppress(InconclusiveError):
        diagnosing.diagnose(chain(1.5), [party], [FEED], golden=f"{folder}/golden.json")


class Warm(OnnxrtParty):
    """ONNX Runtime, as on a device; replaced by its base where it is pickled."""

    survives_fork = False
    uses_device = True

    def __reduce__(self) -> Any:
        """Return how to pickle it: as a party of ONNX Runtime."""
        return OnnxrtParty, ()


def in_openvino(folder: str) -> None:
    """Print the seconds of a diagnosis in OpenVINO, in a warm process and in this one."""
    isolate = diagnosing.isolate
    times: dict[str, list[float]] = {"warm": [], "one process": []}
    for _ in range(2):
        for where, choose in (("warm", isolate), ("one process", lambda parties, **_: [*parties])):
            diagnosing.isolate = choose  # type: ignore[assignment]
            with bind(call_isolated, lambda function, **_: function()):
                start = time.perf_counter()
                diagnose_chain(folder, OpenvinoParty())
            times[where].append(time.perf_counter() - start)
    diagnosing.isolate = isolate
    for where, seconds in times.items():
        print(f"| OpenVINO, {where} | {min(seconds):.1f} s |")


def main() -> None:
    """Print the rows of the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--openvino", action="store_true")
    arguments = parser.parse_args()
    [warm] = subprocesses.isolate([Warm()])
    for side in SIDES:
        feed = {"x": np.ones((side, side), np.float32)}
        here, there = OnnxrtParty().load(negation(side)), warm.load(negation(side))
        row = [least(partial(compute, feed)) * 1e6 for compute in (here, there)]
        print(f"| {side}x{side} | {row[0]:.0f} us | {row[1]:.0f} us |")
    subprocesses.close([warm])
    starts = []
    start = warm_process.start_command
    warm_process.start_command = lambda *a, **k: starts.append(a) or start(*a, **k)
    with tempfile.TemporaryDirectory() as folder:
        results = RunResults()
        results.add([OnnxrtParty().load(chain(1))(FEED)], runner_name="right")
        results.save(f"{folder}/golden.json")
        with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
            forked = least(lambda: diagnose_chain(folder, OnnxrtParty()))
            with bind(call_isolated, lambda function, **_: function()):
                single = least(lambda: diagnose_chain(folder, OnnxrtParty()))
            starts.clear()
            new = least(lambda: diagnose_chain(folder, Warm()))
            if arguments.openvino:
                in_openvino(folder)
    print(f"| forks | {forked:.2f} s |\n| one process | {single:.2f} s |")
    print(f"| warm | {new:.2f} s, {len(starts) / RUNS:g} processes |")


if __name__ == "__main__":
    main()
