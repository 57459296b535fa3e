"""Processor seconds of whole commands and programs: a floor, ours and NVIDIA's, started in turn.

    python benchmarks/side_by_side.py [--runs 11] [--only fold]
                                   [--page docs/development/benchmarks.md]

Every row makes its models by itself. The floor is what the same work takes with onnx, NumPy or ONNX
Runtime alone, interpreter and imports included; NVIDIA's Polygraphy is measured where
POLYGRAPHY_NVIDIA_PYTHON names the interpreter of a virtual environment that has it. Reported are
the minimum of all runs, and the largest memory that a process used, which counts what is mapped of
files. Install the package, not an editable one, whose import hook alone costs milliseconds. With
--page, the table in that page is replaced.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
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
import binascii
import os
import numpy as np
import onnx
import onnxruntime as ort
chunk = 49152
cpu = ["CPUExecutionProvider"]
feed = {"x": np.random.RandomState(1).rand(1, 3, 224, 224).astype(np.float32)}
model = onnx.load("{model}")
there = {output.name for output in model.graph.output}
for node in model.graph.node:
    model.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in node.output if name not in there
    )
marked = ort.InferenceSession(model.SerializeToString(), providers=cpu)
outputs = marked.run(None, feed)
ort.InferenceSession("{model}", providers=cpu).run(None, feed)
if not os.path.exists("raw.txt"):
    with open("raw.txt", "wb") as file:
        for array in outputs:
            octets = array.reshape(-1).view(np.uint8)
            for start in range(0, octets.size, chunk):
                file.write(binascii.b2a_base64(octets[start : start + chunk], newline=False))
else:
    with open("raw.txt", "rb") as file:
        for array in outputs:
            octets = np.empty(array.nbytes, np.uint8)
            for start in range(0, octets.size, chunk):
                count = min(chunk, octets.size - start)
                text = file.read(-(-count // 3) * 4)
                octets[start : start + count] = np.frombuffer(binascii.a2b_base64(text), np.uint8)
            saved = octets.view(array.dtype).reshape(array.shape)
            difference = np.abs(array - saved)
            relative = difference / np.maximum(np.abs(saved), 1e-30)
            print(difference.max(), relative.max(), np.median(difference), np.median(relative))
    os.remove("raw.txt")
"""
_SAVE = """
import numpy as np
from polygraphy.comparator import IterationResult, RunResults
results = RunResults()
arrays = [{{f"y{{i}}": np.full({size}, i, np.float32) for i in range({count})}}]
results.add([IterationResult(each, runner_name="r") for each in arrays], runner_name="r")
results.save("out.json")
"""
_RAW_SAVE = """
import binascii
import numpy as np
with open("out.txt", "wb") as file:
    for i in range({count}):
        array = np.full({size}, i, np.float32)
        for start in range(0, array.nbytes, 1 << 18):
            file.write(binascii.b2a_base64(array.view(np.uint8)[start : start + (1 << 18)]))
"""
_RAW_READ = """
import binascii
import numpy as np
with open("{model}", "rb") as file:
    for line in file:
        if b'"array"' in line:
            np.frombuffer(binascii.a2b_base64(line.split(b'"')[3]), np.uint8)
"""
_READ = """
from polygraphy.comparator import RunResults
for name, iterations in RunResults.load("{model}"):
    sum(float(array.reshape(-1)[0]) for array in iterations[0].values())
"""


HEADER = (
    "| work | floor (CPU s) | floor (MB) | ours (CPU s) | ours (MB) | ours / floor "
    "| NVIDIA (CPU s) | NVIDIA (MB) | ours / NVIDIA | goal |"
)
RULE = "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"


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
        goal: what is aimed at, in processor seconds.
        runs: how often it is run at most.
    """

    name: str
    make: Callable[[Path], None]
    words: str | None = None
    program: str | None = None
    floor: str | None = None
    goal: str = ""
    runs: int = 11


def main() -> None:
    """Measure all rows, and write the table to the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--page", type=Path, help="a page whose table is replaced")
    options = parser.parse_args()
    if options.page and options.only:
        parser.error("a page takes all rows")
    nvidia = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON")
    for python in filter(None, (sys.executable, nvidia)):
        compile_packages(Path(python))
    lines: list[str] = []
    for line in chain((HEADER, RULE), _measure_rows(options.only, options.runs, nvidia)):
        print(line, flush=True)
        lines.append(line)
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        before, header, after_header = text.partition(HEADER)
        assert header, f"{options.page} has no such table"
        _, end, after = after_header.partition("\n\n")
        page = before + "\n".join(lines) + end + after
        options.page.write_text(page, encoding="utf-8")


def _measure_rows(only: str, runs: int, nvidia: str | None) -> Iterator[str]:
    """Yield the line of each row whose name contains a text."""
    for row in ROWS:
        if only in row.name:
            with tempfile.TemporaryDirectory() as folder:
                yield measure(row, Path(folder), min(runs, row.runs), nvidia)


def measure(row: Row, folder: Path, runs: int, nvidia: str | None) -> str:
    """Return the line of a row in the table."""
    model = folder / "model.onnx"
    # Create models in a separate process, because measured processes inherit the peak memory of
    # this one.
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
            shown[name] += f" ({count} nodes remain)"
    ratios = {name: f"{seconds['ours'] / seconds[name]:.2f}" for name in seconds if name != "ours"}
    cells = [
        row.name,
        *(shown.get("floor", ""), str(memory.get("floor", ""))),
        *(shown["ours"], str(memory["ours"]), ratios.get("floor", "")),
        *(shown.get("NVIDIA", ""), str(memory.get("NVIDIA", "")), ratios.get("NVIDIA", "")),
        row.goal,
    ]
    return f"| {' | '.join(cells)} |"


def run(command: list[str], folder: Path) -> tuple[float, int]:
    """Run a command; return its CPU seconds, and its peak memory in MB."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: {errors.decode()[-500:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def nodes_of(path: Path) -> int:
    """Return the number of nodes of a model.

    Another process loads it: its memory would count for later commands.
    """
    count = "import onnx, sys; print(len(onnx.load(sys.argv[1]).graph.node))"
    done = subprocess.run(
        [sys.executable, "-c", count, str(path)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def in_turn(commands: list[list[str]]) -> list[str]:
    """Return a command that runs several in order."""
    if len(commands) == 1:
        return commands[0]
    return ["/bin/sh", "-ec", "\n".join(map(shlex.join, commands))]


def save_chain(path: Path) -> None:
    """Save a model of 200 nodes in sequence."""
    nodes = [
        onnx.helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], name=f"node{i}") for i in range(200)
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 4))
        for name in ("t0", "t200")
    ]
    graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def save_blocks(path: Path, nodes: int) -> None:
    """Save a model in which the shape arithmetic of each block reads the previous block."""
    count = nodes // NODES_OF_BLOCK
    body = "\n".join(_BLOCK.format(i=i, j=i + 1) for i in range(count))
    graph = f"m (float[4,16] t0) => (float[?,?] t{count}) <float[16,16] w> {{ {body} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    weight = numpy_helper.from_array(np.eye(16, dtype=np.float32) / 2, "w")
    del model.graph.initializer[:], model.graph.input[1:]
    model.graph.initializer.append(weight)
    onnx.save(model, path)


def save_results(path: Path, *, size: int, count: int) -> None:
    """Save results as JSON that both packages can read."""
    run(
        [sys.executable, "-c", _SAVE.format(size=size, count=count).replace("out.json", str(path))],
        path.parent,
    )


def _save_model(build: Callable[[], onnx.ModelProto]) -> Callable[[Path], None]:
    """Return a function that saves a model to a path."""
    return lambda path: onnx.save(build(), path)


def _identity(path: Path) -> None:
    """Save the identity in the folder of a path."""
    save_identity(path.parent)


def _nothing(_: Path) -> None:
    """Save nothing."""
    pass


_SHOWN = "inspect model {model} --show layers attrs weights"
_HALF = "0.5 times NVIDIA's"
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
            goal="0.33 times NVIDIA's",
            runs=runs,
        )
        for nodes, runs in ((1_001, 11), (5_005, 11), (20_020, 5), (80_002, 1))
    ),
    Row(
        "import the names only",
        _nothing,
        program=_NAMES,
        floor="import numpy",
        goal="1.15 times the floor",
    ),
    Row(
        "import and compare 16 elements",
        _nothing,
        program=_COMPARE,
        floor="import numpy",
        goal="NVIDIA's time",
    ),
    Row(
        "DataLoader, 1,000 input sets",
        _nothing,
        program=_FEEDS,
        floor=_RAW_FEEDS,
        goal="0.7 times NVIDIA's",
    ),
    Row(
        "run identity.onnx --onnxrt",
        _identity,
        words="run identity.onnx --onnxrt",
        floor=RAW,
        goal="1.25 times the floor, 0.85 times NVIDIA's",
    ),
    Row(
        "run resnet50 --onnxrt",
        _save_model(resnet50),
        words="run {model} --onnxrt",
        floor=_RUN.format(shape=_IMAGE, sessions=1, model="{model}"),
        goal="1.10 times the floor, NVIDIA's time",
    ),
    Row(
        "run resnet50 --onnxrt --onnxrt",
        _save_model(resnet50),
        words="run {model} --onnxrt --onnxrt",
        floor=_RUN.format(shape=_IMAGE, sessions=2, model="{model}"),
        goal="1.10 times the floor, NVIDIA's time",
    ),
    Row(
        "run with 2.7 GB of external weights",
        save_large,
        words="run {model} --onnxrt",
        floor=_RUN.format(shape=(64, LARGE_WIDTH), sessions=1, model="{model}"),
        goal="1.1 times the floor",
        runs=3,
    ),
    Row(
        "ResNet-50 layer by layer, saved and compared",
        _save_model(resnet50),
        words=f"run {_EVERY_TENSOR} --save-outputs out.json"
        f" && run {_EVERY_TENSOR} --load-outputs out.json",
        floor=_LAYERS,
        goal="1.3 times the floor",
        runs=3,
    ),
    Row(
        "extract half of BERT-base",
        _save_model(bert),
        words="surgeon extract {model} --inputs layer5_out:auto:auto --outputs layer11_out:auto"
        " -o out.onnx",
        floor=_ROUND_TRIP,
        goal="0.5 times NVIDIA's, 250 MB of memory",
        runs=3,
    ),
    Row(
        "inspect BERT-base, everything",
        _save_model(bert),
        words=_SHOWN,
        floor=_LOAD,
        goal="0.4 times NVIDIA's",
    ),
    Row(
        "inspect 20,000 nodes, everything",
        _save_model(many_nodes),
        words=_SHOWN,
        floor=_LOAD,
        goal="0.4 times NVIDIA's",
    ),
    Row(
        "debug reduce 200 nodes, linear",
        save_chain,
        words="debug reduce {model} -o out.onnx --mode linear --fail-code 0"
        " --check grep -q node100 polygraphy_debug.onnx",
        goal="0.4 times NVIDIA's",
        runs=5,
    ),
    Row(
        "save 10,000 arrays as JSON",
        _nothing,
        program=_SAVE.format(**_MANY),
        floor=_RAW_SAVE.format(**_MANY),
        goal=_HALF,
    ),
    Row(
        "load 10,000 arrays from JSON",
        partial(save_results, **_MANY),
        program=_READ,
        floor=_RAW_READ,
        goal=_HALF,
    ),
    Row(
        "save 1 GB as JSON",
        _nothing,
        program=_SAVE.format(**_LARGE),
        floor=_RAW_SAVE.format(**_LARGE),
        goal=_HALF,
        runs=1,
    ),
    Row(
        "load 1 GB from JSON",
        partial(save_results, **_LARGE),
        program=_READ,
        floor=_RAW_READ,
        goal=_HALF,
        runs=2,
    ),
)


if __name__ == "__main__":
    main()
