"""Processor seconds of whole commands and programs: a floor, ours and NVIDIA's, started in turn.

    python benchmarks/side_by_side.py [--runs 11] [--only fold]

Every row makes its models by itself. The floor is what the same work takes with onnx, NumPy or ONNX
Runtime alone, interpreter and imports included; NVIDIA's Polygraphy is measured where
POLYGRAPHY_NVIDIA_PYTHON names the interpreter of a virtual environment that has it. Reported are
the minimum of all runs, and the largest memory that the process used. Install the package, not an
editable one, whose import hook alone costs milliseconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnx.parser
from layerwise import LARGE_WIDTH, resnet50, save_large
from onnx import numpy_helper
from onnx_editing import bert, many_nodes
from startup import RAW, compile_packages, save_identity

NODES_OF_BLOCK = 13
_BLOCK = """
s{i} = Shape(t{i})  f{i} = Constant<value_int=0>()  d{i} = Gather(s{i}, f{i})
k{i} = Constant<value_int=2>()  m{i} = Mul(d{i}, k{i})  q{i} = Div(m{i}, k{i})
a{i} = Constant<value_ints=[0]>()  u{i} = Unsqueeze(q{i}, a{i})  l{i} = Constant<value_ints=[-1]>()
c{i} = Concat<axis=0>(u{i}, l{i})  r{i} = Reshape(t{i}, c{i})  p{i} = MatMul(r{i}, w)
t{j} = Relu(p{i})
"""
_FOLD = "surgeon sanitize {model} --fold-constants -o out.onnx"
_ROUND_TRIP = "import onnx; onnx.save(onnx.load('{model}'), 'out.onnx')"
_LOAD = "import onnx; onnx.load('{model}')"
_NAMES = "from polygraphy.comparator import Comparator, SimpleCompareFunc"
_COMPARE = f"""
import numpy as np
{_NAMES}, IterationResult
outputs = {{"y": np.arange(16, dtype=np.float32)}}
one, other = (IterationResult(outputs, runner_name=name) for name in "ab")
assert all(SimpleCompareFunc()(one, other).values())
"""
_FEEDS = """
import numpy as np
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader
meta = TensorMetadata().add("x", np.float32, (1, 3, 224, 224))
for feed in DataLoader(seed=1, iterations=1000, input_metadata=meta):
    pass
"""
_RAW_FEEDS = """
import numpy as np
for index in range(1000):
    np.random.RandomState(index).random_sample((1, 3, 224, 224)).astype(np.float32)
"""
_RUN = """
import numpy as np
import onnxruntime as ort
feed = {{"x": np.random.RandomState(1).rand(*{shape}).astype(np.float32)}}
for _ in range({sessions}):
    session = ort.InferenceSession("{model}", providers=["CPUExecutionProvider"])
    print(session.run(None, feed)[0].sum())
"""
_LAYERS = """
import numpy as np
import onnx
import onnxruntime as ort
model = onnx.load("{model}")
for node in model.graph.node:
    for name in node.output:
        if name not in [output.name for output in model.graph.output]:
            model.graph.output.add(name=name)
feed = {{"x": np.random.RandomState(1).rand(1, 3, 224, 224).astype(np.float32)}}
session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
print(len(session.run(None, feed)))
"""
_SAVE = """
import numpy as np
from polygraphy.comparator import IterationResult, RunResults
results = RunResults()
arrays = [{{f"y{{i}}": np.full({size}, i, np.float32) for i in range({count})}}]
results.add([IterationResult(each, runner_name="r") for each in arrays], runner_name="r")
results.save("out.json")
"""
_READ = """
from polygraphy.comparator import RunResults
for name, iterations in RunResults.load("{model}"):
    sum(float(array.reshape(-1)[0]) for array in iterations[0].values())
"""


class Row(NamedTuple):
    """One kind of work: what is run, with `{model}` for the path of what it is done with.

    Attributes:
        name: what it is.
        make: makes the file.
        words: the command line of `polygraphy`, or None; several that follow each other are
            separated by ``&&``.
        program: a program that both packages run, instead.
        floor: a program that does what has to be done without either; as often as there are
            commands.
    """

    name: str
    make: Callable[[Path], None]
    words: str | None = None
    program: str | None = None
    floor: str | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    options = parser.parse_args()
    nvidia = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON")
    for python in filter(None, (sys.executable, nvidia)):
        compile_packages(Path(python))
    print("| work | floor | MB | ours | MB | of the floor | NVIDIA | MB | of NVIDIA's |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in ROWS:
        if options.only in row.name:
            with tempfile.TemporaryDirectory() as folder:
                measure(row, Path(folder), options.runs, nvidia)


def measure(row: Row, folder: Path, runs: int, nvidia: str | None) -> None:
    """Print the line of a row."""
    model = folder / "model.onnx"
    # In a process of its own: what is started next counts the memory of this one as its own.
    maker = multiprocessing.get_context("fork").Process(target=row.make, args=(model,))
    maker.start()
    maker.join()
    commands: dict[str, list[str]] = {}
    lines = [line.split() for line in (row.words or "").replace("{model}", str(model)).split("&&")]
    if row.floor:
        raw = [sys.executable, "-c", row.floor.replace("{model}", str(model))]
        commands["floor"] = in_turn([raw] * len(lines))
    for name, python in (("ours", sys.executable), ("NVIDIA", nvidia)):
        if python and row.words is not None:
            script = str(Path(python).with_name("polygraphy"))
            commands[name] = in_turn([[script, *line] for line in lines])
        elif python and row.program is not None:
            commands[name] = [python, "-c", row.program.replace("{model}", str(model))]
    seconds = dict.fromkeys(commands, float("inf"))
    memory = dict.fromkeys(commands, 0)
    left: dict[str, int] = {}
    for _ in range(runs):
        for name, command in commands.items():
            used, peak = run(command, folder)
            seconds[name] = min(seconds[name], used)
            memory[name] = max(memory[name], peak)
            if row.words and row.words.startswith("surgeon") and name not in left:
                left[name] = nodes_of(folder / "out.onnx")
    shown = {name: f"{value:.3f}" for name, value in seconds.items()}
    for name, count in left.items():
        if name != "floor":
            shown[name] += f" ({count} nodes left)"
    ratios = {name: f"{seconds['ours'] / seconds[name]:.2f}" for name in seconds if name != "ours"}
    cells = [
        row.name,
        *(shown.get("floor", ""), str(memory.get("floor", ""))),
        *(shown["ours"], str(memory["ours"]), ratios.get("floor", "")),
        *(shown.get("NVIDIA", ""), str(memory.get("NVIDIA", "")), ratios.get("NVIDIA", "")),
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


def run(command: list[str], folder: Path) -> tuple[float, int]:
    """Run a command; return its processor seconds, and the largest memory of it in MB."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: {said.decode()[-500:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def nodes_of(path: Path) -> int:
    """Return how many nodes a model has; a model that is loaded here would count as memory of the
    commands that are started next.
    """
    count = "import onnx, sys; print(len(onnx.load(sys.argv[1]).graph.node))"
    done = subprocess.run(
        [sys.executable, "-c", count, str(path)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def in_turn(commands: list[list[str]]) -> list[str]:
    """Return a command that runs some, one after the other."""
    if len(commands) == 1:
        return commands[0]
    return ["/bin/sh", "-ec", "\n".join(map(shlex.join, commands))]


def save_blocks(path: Path, nodes: int) -> None:
    """Save a model in which the shape arithmetic of each block waits for the block before."""
    count = nodes // NODES_OF_BLOCK
    body = "\n".join(_BLOCK.format(i=i, j=i + 1) for i in range(count))
    graph = f"m (float[4,16] t0) => (float[?,?] t{count}) <float[16,16] w> {{ {body} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    weight = numpy_helper.from_array(np.eye(16, dtype=np.float32) / 2, "w")
    del model.graph.initializer[:], model.graph.input[1:]
    model.graph.initializer.append(weight)
    onnx.save(model, path)


def save_results(path: Path, *, size: int, count: int) -> None:
    """Save results as JSON, which both packages read."""
    run(
        [sys.executable, "-c", _SAVE.format(size=size, count=count).replace("out.json", str(path))],
        path.parent,
    )


def _saved(build: Callable[[], onnx.ModelProto]) -> Callable[[Path], None]:
    return lambda path: onnx.save(build(), path)


def _identity(path: Path) -> None:
    save_identity(path.parent)


def _nothing(_: Path) -> None:
    pass


_SHOWN = "inspect model {model} --show layers attrs weights"
_MANY = {"size": 1000, "count": 10_000}
_LARGE = {"size": 25_000_000, "count": 10}
_IMAGE = "(1, 3, 224, 224)"
_EVERY_TENSOR = "{model} --onnxrt --onnx-outputs *"
ROWS = (
    *(
        Row(
            f"fold {nodes // NODES_OF_BLOCK * NODES_OF_BLOCK:,} nodes in blocks",
            partial(save_blocks, nodes=nodes),
            words=_FOLD,
            floor=_ROUND_TRIP,
        )
        for nodes in (1_001, 5_005, 20_020, 80_002)
    ),
    Row("import the names", _nothing, program=_NAMES, floor="import numpy"),
    Row("import and compare 16 elements", _nothing, program=_COMPARE, floor="import numpy"),
    Row("DataLoader, 1000 feeds", _nothing, program=_FEEDS, floor=_RAW_FEEDS),
    Row("run identity.onnx --onnxrt", _identity, words="run identity.onnx --onnxrt", floor=RAW),
    Row(
        "run resnet50 --onnxrt",
        _saved(resnet50),
        words="run {model} --onnxrt",
        floor=_RUN.format(shape=_IMAGE, sessions=1, model="{model}"),
    ),
    Row(
        "run resnet50 --onnxrt --onnxrt",
        _saved(resnet50),
        words="run {model} --onnxrt --onnxrt",
        floor=_RUN.format(shape=_IMAGE, sessions=2, model="{model}"),
    ),
    Row(
        "run 2.7 GB of weights in another file",
        save_large,
        words="run {model} --onnxrt",
        floor=_RUN.format(shape=(64, LARGE_WIDTH), sessions=1, model="{model}"),
    ),
    Row(
        "ResNet-50 layer by layer, saved and compared",
        _saved(resnet50),
        words=f"run {_EVERY_TENSOR} --save-outputs out.json"
        f" && run {_EVERY_TENSOR} --load-outputs out.json",
        floor=_LAYERS.replace("{{", "{").replace("}}", "}"),
    ),
    Row(
        "extract half of BERT-base",
        _saved(bert),
        words="surgeon extract {model} --inputs layer5_out:auto:auto --outputs layer11_out:auto"
        " -o out.onnx",
        floor=_ROUND_TRIP,
    ),
    Row("inspect BERT-base, everything", _saved(bert), words=_SHOWN, floor=_LOAD),
    Row("inspect 20,000 nodes, everything", _saved(many_nodes), words=_SHOWN, floor=_LOAD),
    Row("save 10,000 arrays as JSON", _nothing, program=_SAVE.format(**_MANY)),
    Row("load 10,000 arrays from JSON", partial(save_results, **_MANY), program=_READ),
    Row("save 1 GB as JSON", _nothing, program=_SAVE.format(**_LARGE)),
    Row("load 1 GB from JSON", partial(save_results, **_LARGE), program=_READ),
)


if __name__ == "__main__":
    main()
