"""How many lines commands print: by default, and with every line (`--log-format legacy`, which is
what a default run printed before there were tables).

    python benchmarks/console_lines.py

Uses the `polygraphy` that is installed beside the running interpreter. Models are made in a
temporary folder, but for the one of the example `digits`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits"
WIDTH = 64

PYTEST = """
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

def test_the_models_agree():
    runners = [OnnxrtRunner(SessionFromOnnx(path)) for path in ("good3.onnx", "bad3.onnx")]
    Comparator.compare_accuracy(Comparator.run(runners)).raise_for_failure()
"""


def save_chain(path: Path, blocks: int, outputs: int, changed: int | None = None) -> None:
    """Save a chain of MatMul and Relu; one block can have different weights."""
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.RandomState(1)
    nodes, weights, shape = [], [], ["batch", WIDTH]
    for at in range(blocks):
        weight = (random.standard_normal((WIDTH, WIDTH)) / 5).astype(np.float32)
        weight[:, 5] += 0.5 * (at == changed)
        weights.append(numpy_helper.from_array(weight, f"w{at}"))
        source = "x" if at == 0 else f"y{at - 1}"
        nodes.append(helper.make_node("MatMul", [source, f"w{at}"], [f"m{at}"], name=f"mul{at}"))
        nodes.append(helper.make_node("Relu", [f"m{at}"], [f"y{at}"], name=f"relu{at}"))
    names = [f"y{at}" for at in range(blocks - outputs, blocks)]
    x, *output_infos = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ["x", *names]
    )
    graph = helper.make_graph(nodes, "chain", [x], output_infos, weights)
    opsets = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))


def save_nan(path: Path) -> None:
    """Save a model that takes the logarithm of negative numbers."""
    from onnx import TensorProto, helper, save

    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Log", ["n"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(
        helper.make_graph(nodes, "nan", [x], [y]), opset_imports=opsets, ir_version=8
    )
    save(model, str(path))


def lines(folder: Path, *command: str) -> int:
    """Return the number of lines that a command prints, on both streams."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return len(done.stdout.splitlines())


def cases() -> list[tuple[str, str, str]]:
    """Return the title, command and earlier number of lines of each case.

    Earlier means before there were tables, with similar models.
    """
    data = DIGITS / "digits_inputs.json"
    three = "run good3.onnx --onnxrt --onnx --iterations 10"
    gold = "--onnxrt --load-inputs in.json --load-outputs"
    reduce = (
        "debug reduce bad.onnx -o reduced.onnx --check polygraphy run polygraphy_debug.onnx"
        " --onnxrt --load-inputs in.json --load-outputs all.json --allow-missing-outputs"
    )
    return [
        ("demo: 2 outputs x 4 iterations, pass",
         f"run {DIGITS / 'digits.onnx'} --onnxrt --onnx --load-inputs {data}", "121"),
        ("3 outputs x 10 iterations, pass", three, "379"),
        ("the same, `-q`", f"{three} -q", "6"),
        ("the same, `-qq`", f"{three} -qq", "3"),
        ("1 output, NaN, failed (a complete transcript)", "run nan.onnx --onnxrt --onnx", "92"),
        ("the same, 10 iterations", "run nan.onnx --onnxrt --onnx --iterations 10", ""),
        ("`--mark-all`, 166 tensors, failed",
         f"run bad.onnx {gold} all.json --mark-all", "6,807"),
        ("`debug reduce`, 166 nodes", reduce, "838 - 1,275"),
    ]  # fmt: skip


def main() -> None:
    """Print the number of lines that commands write."""
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        save_chain(folder / "good.onnx", 83, 1)
        save_chain(folder / "bad.onnx", 83, 1, changed=40)
        save_chain(folder / "good3.onnx", 12, 3)
        save_chain(folder / "bad3.onnx", 12, 3, changed=4)
        save_nan(folder / "nan.onnx")
        (folder / "test_models.py").write_text(PYTEST, encoding="utf-8")
        saved = "run good.onnx --onnxrt --mark-all --save-inputs in.json --save-outputs all.json -q"
        lines(folder, "polygraphy", *saved.split())
        print("| case | before | every line | default |")
        print("| --- | ---: | ---: | ---: |")
        for title, command, before in cases():
            head, check, tail = command.partition(" --check ")
            option = "-v" if check else "--log-format legacy"
            every = f"{head} {option}{check}{tail}"
            counts = [lines(folder, "polygraphy", *line.split()) for line in (every, command)]
            print(f"| {title} | {before} | {counts[0]:,} | {counts[1]:,} |", flush=True)
        quiet = lines(folder, "pytest", "-q", "--show-capture=no", "test_models.py")
        print(
            f"| pytest, 1 failure; default: with `--show-capture=no` | 420 |"
            f" {lines(folder, 'pytest', '-q', 'test_models.py'):,} | {quiet:,} |"
        )


if __name__ == "__main__":
    main()
