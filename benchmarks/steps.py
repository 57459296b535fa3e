"""What `run --steps` costs beyond the runs themselves, with 100 MB of states, and how much memory
the summaries of many steps take.

    python benchmarks/steps.py [--steps 40] [--starts 3] [--summaries 20000]

Times are seconds of the processor, in one thread: the least of several starts, in which the loops
and the comparison take turns. So what else the machine does counts little. The loops by hand feed
the states of two sessions back as arrays, or as bound values (`OrtValue`), and do nothing else, or
compare the logits and the new slots of each state with NumPy.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, SimpleCompareFunc, StepLoader
from polygraphy.domain.states.comparing import StepFigures, step_row
from polygraphy.domain.states.memory import StepFacts
from polygraphy.logger import G_LOGGER

LAYERS, HEADS, SLOTS, DIM, WORDS = 24, 8, 1024, 64, 512
SIZE = HEADS * DIM


def decoder() -> onnx.ModelProto:
    """Return a decoder with 24 layers of keys and values of 1,024 slots: 100 MB."""
    draw = np.random.default_rng(0)
    weights = {"emb": draw.standard_normal((WORDS, SIZE)).astype("f")}
    weights["head"] = (draw.standard_normal((SIZE, WORDS)) * 0.2).astype("f")
    weights["heads"] = np.array([0, -1, HEADS, DIM])
    weights["flat"] = np.array([0, -1, SIZE])
    weights["low"] = np.array(-1e9, "f")
    nodes, inputs, outputs = [], [], []

    def op(kind: str, sources: list[str], name: str, **attributes: object) -> str:
        """Add a node, and return the name of its output."""
        nodes.append(helper.make_node(kind, sources, [name], name=f"n_{name}", **attributes))
        return name

    def value(name: str, kind: int, shape: list[object]) -> onnx.ValueInfoProto:
        """Return the description of a tensor."""
        return helper.make_tensor_value_info(name, kind, shape)

    inputs.append(value("input_ids", TensorProto.INT64, [1, "seq"]))
    inputs.append(value("cache_position", TensorProto.INT64, ["seq"]))
    outputs.append(value("logits", TensorProto.FLOAT, [1, "seq", WORDS]))
    weights["slots"] = np.arange(SLOTS)
    weights["one"] = np.array([1])
    rows = op("Unsqueeze", ["cache_position", "one"], "rows")
    seen = op("LessOrEqual", ["slots", rows], "seen")
    weights["zero"] = np.array([0])
    first = op("Slice", ["cache_position", "zero", "one"], "write")
    x = op("Gather", ["emb", "input_ids"], "x0")
    for at in range(LAYERS):
        sides = []
        for part in "qkv":
            name = f"w{part}{at}"
            weights[name] = (draw.standard_normal((SIZE, SIZE)) / SIZE**0.5).astype("f")
            split = op("Reshape", [op("MatMul", [x, name], f"{part}{at}"), "heads"], f"s{part}{at}")
            sides.append(op("Transpose", [split], f"t{part}{at}", perm=[0, 2, 1, 3]))
        for number, part in ((1, "key"), (2, "value")):
            past, present = f"past.{at}.{part}", f"present.{at}.{part}"
            shape = [1, HEADS, SLOTS, DIM]
            inputs.append(value(past, TensorProto.FLOAT, shape))
            outputs.append(value(present, TensorProto.FLOAT, shape))
            sides[number] = op("TensorScatter", [past, sides[number], first], present, axis=2)
        turned = op("Transpose", [sides[1]], f"kt{at}", perm=[0, 1, 3, 2])
        masked = op("Where", [seen, op("MatMul", [sides[0], turned], f"qk{at}"), "low"], f"m{at}")
        mixed = op("MatMul", [op("Softmax", [masked], f"p{at}", axis=-1), sides[2]], f"mix{at}")
        flat = op(
            "Reshape", [op("Transpose", [mixed], f"mt{at}", perm=[0, 2, 1, 3]), "flat"], f"f{at}"
        )
        x = op("Add", [x, flat], f"x{at + 1}")
    op("MatMul", [x, "head"], "logits")
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def _sessions(model: onnx.ModelProto) -> list[onnxruntime.InferenceSession]:
    """Return two sessions of a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return [
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        for _ in range(2)
    ]


Times = tuple[float, float]
"""Seconds per step: all, and in the backend."""


def raw(model: onnx.ModelProto, steps: int, compares: bool = False) -> Times:
    """Return the times of a plain loop over two sessions, with arrays.

    Args:
        model: the model.
        steps: number of steps.
        compares: whether it compares logits and the new slots of states.
    """
    sessions, inside, step_seconds = _sessions(model), [], []
    names = [output.name for output in sessions[0].get_outputs()]
    memories: list[dict[str, Any]] = [{}, {}]
    for feed in StepLoader(model, steps=steps):
        start, backend, outputs = time.process_time(), 0.0, []
        for at, session in enumerate(sessions):
            fed = {**memories[at], **feed}
            before = time.process_time()
            values = dict(zip(names, session.run(None, fed)))
            backend += time.process_time() - before
            memories[at] = {pair.input: values[pair.output] for pair in feed.pairs}
            outputs.append(values)
        if compares:
            _compare_new_slots(feed, outputs)
        step_seconds.append(time.process_time() - start)
        inside.append(backend)
    return float(np.mean(step_seconds[2:])), float(np.mean(inside[2:]))


def _compare_new_slots(feed: Any, outputs: list[dict[str, Any]]) -> None:
    """Compare the logits and the new slots of all states of two runs."""
    start, stop = feed.step.start, feed.step.start + feed.step.length
    for name in ("logits", *(pair.output for pair in feed.pairs)):
        value, expected = (output[name] for output in outputs)
        if name != "logits":
            value, expected = value[:, :, start:stop], expected[:, :, start:stop]
        difference = np.abs(value - expected)
        relative = difference / np.maximum(np.abs(expected), 1e-12)
        for errors in (difference, relative):
            assert errors.max() >= errors.mean() >= 0 <= np.median(errors)
        assert np.allclose(value, expected, rtol=1e-5, atol=1e-5)


def time_bound_loop(model: onnx.ModelProto, steps: int) -> Times:
    """Return the times of a loop over two sessions with bound values, without copies."""
    sessions, inside, step_seconds = _sessions(model), [], []
    names = [output.name for output in sessions[0].get_outputs()]
    states: list[dict[str, Any]] = [{}, {}]
    for feed in StepLoader(model, steps=steps):
        start, backend = time.process_time(), 0.0
        for at, session in enumerate(sessions):
            binding = session.io_binding()
            for name, array in feed.items():
                binding.bind_cpu_input(name, array)
            for name, state in states[at].items():
                binding.bind_ortvalue_input(name, state)
            for name in names:
                binding.bind_output(name, "cpu")
            before = time.process_time()
            session.run_with_iobinding(binding)
            backend += time.process_time() - before
            values = dict(zip(names, binding.get_outputs()))
            states[at] = {pair.input: values[pair.output] for pair in feed.pairs}
        step_seconds.append(time.process_time() - start)
        inside.append(backend)
    return float(np.mean(step_seconds[2:])), float(np.mean(inside[2:]))


class TimedRunner(OnnxrtRunner):
    """A runner that adds up what it takes of the processor."""

    seconds = 0.0
    # Classes that override inference must declare these again; otherwise arrays are copied.
    outputs_are_fresh = OnnxrtRunner.outputs_are_fresh
    leaves_inputs_alone = OnnxrtRunner.leaves_inputs_alone

    def infer_impl(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the outputs of a step, and add its seconds."""
        start = time.process_time()
        outputs = super().infer_impl(*args, **kwargs)
        TimedRunner.seconds += time.process_time() - start
        return outputs


def time_comparison(model: onnx.ModelProto, steps: int) -> tuple[float, float]:
    """Return the seconds per step of two compared runners, in total and in the backend."""
    load = SessionFromOnnx(model, threads=1)
    runners = [TimedRunner(load, name=name) for name in ("a", "b")]
    marks: list[tuple[float, float]] = []

    def marked(results: object) -> object:
        """Yield the results, and record the time of each."""
        for result in results:  # type: ignore[attr-defined]
            marks.append((time.process_time(), TimedRunner.seconds))
            yield result

    results = Comparator.run(runners, StepLoader(model, steps=steps), streaming=True)
    Comparator.compare_accuracy(marked(results), compare_func=SimpleCompareFunc())
    # The first steps load modules, and the last one closes the sessions.
    (start, before), (end, after) = marks[2], marks[-2]
    return (end - start) / (len(marks) - 4), (after - before) / (len(marks) - 4)


def summaries(steps: int) -> float:
    """Return the MB of the figures of a number of steps with 32 layers."""
    states = tuple(f"present.{at}.{part}" for at in range(32) for part in ("key", "value"))
    draw = np.random.default_rng(0)
    scores = draw.standard_normal((1, 1, 64)).astype("f")
    tracemalloc.start()
    figures = StepFigures(("a", "b"))
    for at in range(steps):
        facts = StepFacts(at, at, 1, states, "logits", True)
        moved = scores + draw.standard_normal(scores.shape).astype("f") * np.float32(1e-6)
        results = dict.fromkeys(("logits", *states), True)
        row = step_row(facts, ({"logits": scores}, {"logits": moved}), results)
        figures.add(facts, row, results)
    figures.comparison()
    megabytes = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return megabytes


def main() -> None:
    """Print the times and memory of steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--summaries", type=int, default=20000)
    arguments = parser.parse_args()
    G_LOGGER.module_severity = G_LOGGER.ERROR
    model = decoder()
    loops: dict[str, Callable[[], Times]] = {
        "a loop with arrays": lambda: raw(model, arguments.steps),
        "a loop with bound values": lambda: time_bound_loop(model, arguments.steps),
        "a loop that compares with NumPy": lambda: raw(model, arguments.steps, compares=True),
        "two runners and their comparison": lambda: time_comparison(model, arguments.steps),
    }
    times: dict[str, list[Times]] = {name: [] for name in loops}
    for _ in range(arguments.starts):
        for name, loop in loops.items():
            with contextlib.redirect_stdout(io.StringIO()):
                times[name].append(loop())
    least = min(inside for every in times.values() for _, inside in every)
    for name, every in times.items():
        fastest = min(total for total, _ in every)
        beyond = min(total - inside for total, inside in every)
        print(
            f"{name:36}{1000 * fastest:8.1f} ms a step, {1000 * beyond:5.2f} ms beyond the"
            f" sessions, {100 * beyond / least:5.1f} %"
        )
    megabytes = summaries(arguments.summaries)
    print(f"figures of {arguments.summaries} steps            {megabytes:8.1f} MB")


if __name__ == "__main__":
    main()
