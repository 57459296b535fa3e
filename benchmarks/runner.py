"""What running and comparing cost around a tiny model, over the raw session.

python benchmarks/runner.py
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from polygraphy.adapters.console.run_view import RunView
from polygraphy.backend.onnxrt import OnnxrtRunner
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, DataLoader
from polygraphy.logger import G_LOGGER
from polygraphy.ports.reporting import Console

ITERATIONS = 1000
REPEATS = 7


def tiny_session() -> Any:
    """Return a session of a tiny model."""

    import onnxruntime
    from onnx import TensorProto, helper

    def tensor(name: str) -> object:
        """Return the description of a float tensor."""
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 16))

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [tensor("x")], [tensor("y")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def median_seconds(work: Callable[[], object]) -> float:
    """Return the median wall time of a function, in seconds."""
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def infer() -> None:
    """Print the time of an inference in microseconds, compared with a plain session."""
    session = tiny_session()
    feed = {"x": np.ones((1, 16), np.float32)}
    names = ["y"]

    def raw() -> None:
        """Run the session."""
        for _ in range(ITERATIONS):
            session.run(names, feed)

    with OnnxrtRunner(session) as runner:

        def ours() -> None:
            """Run the runner."""
            for _ in range(ITERATIONS):
                runner.infer(feed)

        floor, measured = median_seconds(raw), median_seconds(ours)
    per_run = 1e6 / ITERATIONS
    print(
        f"OnnxrtRunner.infer: {measured * per_run:.2f} us; raw {floor * per_run:.2f} us; above it"
        f" {(measured - floor) * per_run:.2f} us"
    )


def run_and_compare() -> None:
    """Print the time of `Comparator` per iteration, compared with plain code."""
    session = tiny_session()
    rng = np.random.RandomState(1)
    feeds = [{"x": rng.rand(1, 16).astype(np.float32)} for _ in range(ITERATIONS)]

    def raw() -> None:
        """Run and compare in plain code."""
        for feed in feeds:
            [a], [b] = session.run(None, feed), session.run(None, feed)
            assert np.allclose(a, b)

    def ours() -> None:
        """Run and compare with `Comparator`."""
        runners = [OnnxrtRunner(session), OnnxrtRunner(session)]
        assert Comparator.compare_accuracy(Comparator.run(runners, feeds, streaming=True))

    floor = median_seconds(raw)
    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        silent = median_seconds(ours)
    print(
        f"run and compare, {ITERATIONS} iterations, silent: {silent:.3f} s; raw {floor:.3f} s;"
        f" ratio {silent / floor:.1f}"
    )
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        loud = median_seconds(ours)
    print(
        f"run and compare, {ITERATIONS} iterations, default log: {loud:.3f} s; raw {floor:.3f} s;"
        f" ratio {loud / floor:.1f}"
    )


def run_and_show() -> None:
    """Print the CPU time of a comparison with a table, measured in turns."""
    session = tiny_session()
    rng = np.random.RandomState(1)
    feeds = [{"x": rng.rand(1, 16).astype(np.float32)} for _ in range(ITERATIONS)]

    def raw() -> None:
        """Run and compare in plain code."""
        for feed in feeds:
            [a], [b] = session.run(None, feed), session.run(None, feed)
            assert np.allclose(a, b)

    def shown() -> None:
        """Run, compare and print a table."""
        view = RunView("polygraphy run model.onnx --onnxrt --onnxrt")
        with bind(Console, cast("Any", view)):
            view.open(lambda: None, banner=True)
            runners = [OnnxrtRunner(session), OnnxrtRunner(session)]
            assert Comparator.compare_accuracy(Comparator.run(runners, feeds, streaming=True))
            view.close(lambda: None, 0, 0.0)
            view.show_all_lines()

    times: dict[Callable[[], None], list[float]] = {raw: [], shown: []}
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        for _ in range(REPEATS + 1):
            for work, seconds in times.items():
                start = time.process_time()
                work()
                seconds.append(time.process_time() - start)
    floor, most = (statistics.median(seconds[1:]) for seconds in times.values())
    print(
        f"run, compare and show, {ITERATIONS} iterations, console of a program: {most:.3f} s of"
        f" processor time; raw {floor:.3f} s; ratio {most / floor:.1f} (goal 4)"
    )


def generate() -> None:
    """Print the time of generating an input, in milliseconds."""

    from polygraphy.common import TensorMetadata

    loader = DataLoader(input_metadata=TensorMetadata().add("x", np.float32, (1, 3, 224, 224)))
    print(f"DataLoader, 1x3x224x224: {median_seconds(lambda: loader[0]) * 1e3:.2f} ms")


if __name__ == "__main__":
    infer()
    run_and_compare()
    run_and_show()
    generate()
