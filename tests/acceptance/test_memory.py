"""How much memory runs take at their peak, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/clear_refs").exists(), reason="the peak can only be reset on Linux"
    ),
]

PREAMBLE = """
    from pathlib import Path

    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    from polygraphy.backend.onnx import OnnxReferenceRunner
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL

    def chain(layers, size):
        nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(layers)]
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
            for name in ("t0", f"t{layers}")
        ]
        graph = helper.make_graph(nodes, "chain", values[:1], values[1:])
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def memory():
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024

    def taken(work, *arguments):
        Path("/proc/self/clear_refs").write_text("5")
        before = memory()
        kept = work(*arguments)
        return memory() - before
"""


def measured(program: str) -> list[float]:
    """Run a program that prints MiB, and return them."""
    source = textwrap.dedent(PREAMBLE) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


@pytest.mark.parametrize("runner", ["OnnxReferenceRunner", "arena_free"])
def test_a_layerwise_run_keeps_to_its_budget(runner: str) -> None:
    small, large = measured(f"""
        def arena_free(model):
            return OnnxrtRunner(SessionFromOnnx(model, memory_arena=False))

        def run(model, budget):
            results = Comparator.run_layerwise([{runner}] * 2, model, memory_budget=budget << 20)
            assert Comparator.compare_accuracy(results)

        run(chain(2, 1 << 18), 2)
        model = chain(24, 1 << 20)  # Of 4 MiB each: 192 MiB for two runners.
        print(taken(run, model, 24))
        print(taken(run, model, 400))
        """)
    assert small < 24 + 32, "the budget, and what comparing takes"
    assert large > 100, "this is what the budget saves"


def test_large_outputs_of_onnx_runtime_are_not_copied() -> None:
    [taken] = measured("""
        with OnnxrtRunner(SessionFromOnnx(chain(1, 1 << 24))) as runner:
            feed = {"t0": np.ones(1 << 24, np.float32)}
            print(taken(runner.infer, feed))  # An output of 64 MiB.
        """)
    assert 60 < taken < 90


@pytest.mark.thorough
def test_iterations_leave_nothing_but_their_verdicts() -> None:
    [growth] = measured("""
        import tracemalloc

        sizes = []

        def feeds():
            for index in range(1501):
                if index in (500, 1500):
                    sizes.append(tracemalloc.get_traced_memory()[0])
                yield {"t0": np.full(64, index, np.float32)}

        runners = [OnnxrtRunner(SessionFromOnnx(chain(1, 64))) for _ in range(2)]
        tracemalloc.start()
        results = Comparator.run(
            runners, feeds(), streaming=True, save_outputs_path="/dev/null"
        )
        assert Comparator.compare_accuracy(results)
        print((sizes[1] - sizes[0]) / 1000)
        """)
    assert growth < 1500, "bytes per iteration"


@pytest.mark.thorough
def test_a_reference_takes_a_few_times_the_model(tmp_path: Path) -> None:
    [_, _, size, peak] = measured(f"""
        from polygraphy.adapters.onnxruntime.party import OnnxrtParty
        from polygraphy.diagnose import diagnose

        def saved(path, factor, size):
            rng = np.random.default_rng(0)
            weights, nodes = [], []
            for layer in range(12):
                array = rng.standard_normal((size, size)).astype(np.float32) / size**0.5
                array *= factor if layer == 5 else 1
                weights.append(onnx.numpy_helper.from_array(array, f"w{{layer}}"))
                reads = [f"t{{layer}}", f"w{{layer}}"]
                nodes.append(helper.make_node("MatMul", reads, [f"t{{layer + 1}}"]))
            ends = [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size])
                for name in ("t0", "t12")
            ]
            graph = helper.make_graph(nodes, "wide", ends[:1], ends[1:], weights)
            opsets = [helper.make_opsetid("", 17)]
            onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)

        def diagnosed(size):
            wrong, right = (str(folder / f"{{name}}{{size}}.onnx") for name in ("wrong", "right"))
            saved(wrong, 1.5, size)
            saved(right, 1.0, size)
            print((folder / f"wrong{{size}}.onnx").stat().st_size / 2**20)
            print(taken(lambda: diagnose(wrong, [OnnxrtParty()], reference=right)))

        folder = Path({str(tmp_path)!r})
        diagnosed(64)  # What it loads and keeps whatever the model is.
        diagnosed(1536)
        """)
    # 5.5 to 6.2 by when memory is given back; 14 where weights are copied at each look.
    assert peak < 7.5 * size
