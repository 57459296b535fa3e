"""What a diagnosis prints as a remedy is typed as it stands, in a fresh folder, and the model that it
saves computes what it should.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.acceptance.conftest import Done
from tests.support.examples import spread

Polygraphy = Callable[..., Done]
Name = Callable[[str], str]
FLOAT = TensorProto.FLOAT


def _plain(name: str) -> str:
    return name


class _BuiltModel:
    """Three layers, and a body, a function or nothing behind them."""

    def __init__(self, name: Name = _plain, width: int = 16, seed: int = 0) -> None:
        self.name, self.width = name, width
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        tensor = "x"
        for layer in "123":
            size = (width, width)
            tensor = self.add("MatMul", f"product{layer}", tensor, self.weight(f"w{layer}", size))
            tensor = self.add("Add", f"sum{layer}", tensor, self.weight(f"b{layer}", (width,)))
            tensor = self.add("LeakyRelu", f"act{layer}", tensor, alpha=0.1)
        self.last = tensor

    def weight(self, name: str, shape: tuple[int, ...]) -> str:
        array = self.rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))
        self.weights[name] = numpy_helper.from_array(array, self.name(name))
        return name

    def add(self, op: str, name: str, *inputs: str, domain: str = "", **held: object) -> str:
        reads = [one if one == "x" else self.name(one) for one in inputs]
        made = helper.make_node(op, reads, [self.name(f"{name}_made")], domain=domain, **held)
        made.name = self.name(name)
        self.nodes.append(made)
        return f"{name}_made"

    def model(self, ir: int = 8, declared: bool = False, *functions: object) -> onnx.ModelProto:
        softmax = helper.make_node("Softmax", [self.name(self.last)], ["y"], axis=-1)
        weights = list(self.weights.values())
        ends = [helper.make_tensor_value_info(one, FLOAT, [4, self.width]) for one in "xy"]
        inputs = ends[:1]
        if declared:
            inputs += [
                helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
                for one in weights
            ]
        graph = helper.make_graph([*self.nodes, softmax], "net", inputs, ends[1:], weights)
        opsets = [helper.make_opsetid("", 9 if ir < 4 else 13), helper.make_opsetid("own", 1)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=ir, functions=list(functions)
        )


def _changed(built: _BuiltModel, kind: str) -> None:
    """Change one place of the model that is to be built."""
    if kind == "weight":
        weight = built.weights["w2"]
        array = numpy_helper.to_array(weight).copy()
        array[:, 2] += 1
        weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    elif kind == "attribute":
        node = next(node for node in built.nodes if node.name == built.name("act2"))
        node.attribute[0].f = 0.7
    else:
        node = next(node for node in built.nodes if node.name == built.name("act2"))
        node.op_type = "Elu"


def _outputs(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    width = session.get_inputs()[0].shape[1]
    data = np.random.default_rng(9).standard_normal((4, width), np.float32)
    made: np.ndarray = session.run(None, {"x": data})[0]
    return made


def _save(model: onnx.ModelProto, path: Path, external: bool = False) -> None:
    if external:
        onnx.save(
            model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0
        )
    else:
        onnx.save(model, path)


def _words(line: str) -> list[str]:
    """Return what a shell makes of a command line."""
    shown = f"given() {{ printf '%s\\0' \"$@\"; }}; given {line}"
    done = subprocess.run(["sh", "-c", shown], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def _typed(
    polygraphy: Polygraphy, folder: Path, options: str, names: tuple[str, str]
) -> Iterator[Path]:
    """Diagnose, and yield the model that each remedy saves in a copy of the folder: as the document
    has the command, and as the console shows it.
    """
    report = folder.with_name("report.json")
    line = f"polygraphy diagnose {shlex.quote(names[0])} --onnxrt {options}"
    done = polygraphy(f"{line} --report {shlex.quote(str(report))}", cwd=folder)
    assert done.code == 1, done.out + done.err
    remedies = [one["remedy"] for one in json.loads(report.read_text())["culprits"]]
    commands = {one["command"] for one in remedies if one["proven"] and one["command"]}
    commands |= set(re.findall(r"FIX +(polygraphy .*)", done.out))
    assert commands and ("FIX" in done.out), (remedies, done.out)
    for number, command in enumerate(sorted(commands)):
        fresh = folder.with_name(f"fresh{number}")
        shutil.copytree(folder, fresh)
        for each in command.split(" && "):
            words = _words(each)
            ended = polygraphy(shlex.join(words), cwd=fresh)
            assert ended.code == 0, (each, ended.out, ended.err)
        yield fresh / words[-1]
        shutil.rmtree(fresh)


def _mends(
    polygraphy: Polygraphy,
    tmp_path: Path,
    models: tuple[onnx.ModelProto, onnx.ModelProto],
    names: tuple[str, str] = ("model.onnx", "right.onnx"),
    external: bool = False,
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    for model, name in zip(models, names):
        _save(model, folder / name, external)
    want = _outputs(folder / names[1])
    assert np.abs(_outputs(folder / names[0]) - want).max() > 0.01 * np.abs(want).max()
    for fixed in _typed(polygraphy, folder, f"--reference {shlex.quote(names[1])}", names):
        np.testing.assert_allclose(_outputs(fixed), want, 1e-5, 1e-6)


def _pair(kind: str, *given: object, **options: object) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    wrong, right = (_BuiltModel(**options) for _ in range(2))  # type: ignore[arg-type]
    _changed(wrong, kind)
    return wrong.model(*given), right.model(*given)  # type: ignore[arg-type]


NAMES: dict[str, Name] = {
    "dash": lambda name: f"-{name}",
    "option": lambda name: f"--nodes={name}",
    "blanks": lambda name: f" a  {name} ",
    "quotes": lambda name: f'it\'s "{name}"',
    "slashes": lambda name: f"/model/{name}",
    "letters": lambda name: f"ünï→{name}",
    "line break": lambda name: f"first\n{name}",
    "shell": lambda name: f"$(touch x)`id`{name};&&|",
    "brackets": lambda name: f"{name}:[1,2]={name},*?",
    "controls": lambda name: f"\x1b[1m{name}\u202e\\n%s",
}


@pytest.mark.parametrize(
    ("name", "kind"), spread([(n, k) for n in NAMES for k in ("weight", "attribute")], 7)
)
def test_whatever_nodes_and_tensors_are_called(
    polygraphy: Polygraphy, tmp_path: Path, name: str, kind: str
) -> None:
    _mends(polygraphy, tmp_path, _pair(kind, name=NAMES[name]))


def test_nodes_without_names(polygraphy: Polygraphy, tmp_path: Path) -> None:
    models = _pair("operator")
    for model in models:
        for node in model.graph.node:
            node.name = ""
    _mends(polygraphy, tmp_path, models)


FILES = [("a b.onnx", "it's right.onnx"), ("./-m.onnx", "ü$(id).onnx"), ("m.v1.onnx", "right")]


@pytest.mark.parametrize("external", [False, True], ids=["one file", "weights beside it"])
@pytest.mark.parametrize("names", FILES, ids=lambda names: str(names[0]))
def test_whatever_files_are_called(
    polygraphy: Polygraphy, tmp_path: Path, names: tuple[str, str], external: bool
) -> None:
    _mends(polygraphy, tmp_path, _pair("weight"), names, external)


@pytest.mark.parametrize("kind", spread(["weight", "attribute", "operator"], 1))
@pytest.mark.parametrize(
    ("ir", "declared"), [(3, False), (3, True), (4, True), (6, False), (10, False), (11, False)]
)
def test_models_of_every_version_of_the_format(
    polygraphy: Polygraphy, tmp_path: Path, ir: int, declared: bool, kind: str
) -> None:
    _mends(polygraphy, tmp_path, _pair(kind, ir, declared))


@pytest.mark.parametrize("external", [False, True], ids=["one file", "weights beside it"])
@pytest.mark.parametrize("width", spread([800, 880, 2364], 1), ids=["7 MiB", "9 MiB", "64 MiB"])
def test_models_of_every_size(
    polygraphy: Polygraphy, tmp_path: Path, width: int, external: bool
) -> None:
    _mends(polygraphy, tmp_path, _pair("weight", width=width), external=external)


@pytest.mark.slow
@pytest.mark.huge
def test_models_larger_than_a_message_of_protobuf(polygraphy: Polygraphy, tmp_path: Path) -> None:
    models = _pair("weight", width=14000)
    assert sum(len(weight.raw_data) for weight in models[1].graph.initializer) > 2 << 30
    _mends(polygraphy, tmp_path, models, external=True)


def _with_body(op: str, wrong: bool) -> _BuiltModel:
    """Something of the graph inside the last node is another."""
    built = _BuiltModel()
    rng = np.random.default_rng(1)
    scale = rng.standard_normal(16).astype(np.float32)
    scale[3] += 4 * wrong
    weight = numpy_helper.from_array(scale, "scale")

    def value(name: str, shape: list[int] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    seen = built.last if op == "If" else "state"
    nodes = [
        helper.make_node("Mul", [seen, "scale"], ["scaled"], "scaling"),
        helper.make_node("Tanh", ["scaled"], ["after"], "bounding"),
    ]
    if op == "If":
        built.weights["low"] = numpy_helper.from_array(np.float32(-9), "low")
        mean = built.add("ReduceMean", "mean", built.last, keepdims=0)
        built.add("Greater", "higher", mean, "low")
        body = helper.make_graph(nodes, "then", [], [value("after", None)], [weight])
        other = helper.make_graph(
            [helper.make_node("Neg", [seen], ["negative"])], "else", [], [value("negative", None)]
        )
        built.last = built.add(op, "choice", "higher_made", then_branch=body, else_branch=other)
    elif op == "Loop":
        built.weights["yes"] = numpy_helper.from_array(np.array(True), "yes")
        built.weights["count"] = numpy_helper.from_array(np.array(3), "count")
        nodes.append(helper.make_node("Identity", ["go"], ["goes"], "going"))
        inputs = [value("i", [], 7), value("go", [], 9), value("state", None)]
        outputs = [value("goes", [], 9), value("after", None)]
        body = helper.make_graph(nodes, "body", inputs, outputs, [weight])
        built.last = built.add(op, "loop", "count", "yes", built.last, body=body)
    elif op == "Scan":
        built.weights["start"] = numpy_helper.from_array(np.zeros(16, np.float32), "start")
        nodes[0].input[0] = "both"
        nodes.insert(0, helper.make_node("Add", ["state", "now"], ["both"], "adding"))
        nodes.append(helper.make_node("Identity", ["after"], ["seen"], "seeing"))
        inputs = [value("state", [16]), value("now", [16])]
        outputs = [value("after", [16]), value("seen", [16])]
        body = helper.make_graph(nodes, "body", inputs, outputs, [weight])
        scan = helper.make_node(
            op, ["start", built.last], ["end", "scanned"], "scan", body=body, num_scan_inputs=1
        )
        built.nodes.append(scan)
        built.last = "scanned"
    return built


@pytest.mark.parametrize("external", [False, True], ids=["one file", "weights beside it"])
@pytest.mark.parametrize("op", ["If", "Loop", "Scan"])
def test_graphs_inside_nodes(
    polygraphy: Polygraphy, tmp_path: Path, op: str, external: bool
) -> None:
    models = (_with_body(op, True).model(), _with_body(op, False).model())
    _mends(polygraphy, tmp_path, models, external=external)


def test_functions(polygraphy: Polygraphy, tmp_path: Path) -> None:
    models = []
    for alpha in (0.9, 0.2):
        built = _BuiltModel()
        nodes = [
            helper.make_node("LeakyRelu", ["a"], ["b"], "leaky", alpha=alpha),
            helper.make_node("Tanh", ["b"], ["c"], "bounding"),
        ]
        opset = [helper.make_opsetid("", 13)]
        function = helper.make_function("own", "Act", ["a"], ["c"], nodes, opset)
        built.last = built.add("Act", "call", built.last, domain="own")
        models.append(built.model(8, False, function))
    _mends(polygraphy, tmp_path, (models[0], models[1]))


@pytest.mark.parametrize("name", ["dash", "quotes", "line break", "letters"])
def test_what_saved_tensors_say_is_undone(
    polygraphy: Polygraphy, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    for model, path in zip(_pair("attribute", name=NAMES[name]), ("model.onnx", "right.onnx")):
        onnx.save(model, folder / path)
    saving = "--onnx-outputs mark all --save-inputs data.json --save-outputs tensors.json"
    assert polygraphy(f"polygraphy run right.onnx --onnxrt {saving}", cwd=folder).code == 0
    want = _outputs(folder / "right.onnx")
    options = "--golden tensors.json --load-inputs data.json"
    for fixed in _typed(polygraphy, folder, options, ("model.onnx", "right.onnx")):
        np.testing.assert_allclose(_outputs(fixed), want, 1e-5, 1e-6)


@pytest.mark.parametrize("flag", ["--fp-to-fp16", "--to-bf16"])
def test_what_is_converted_is_verified_whatever_its_size(
    polygraphy: Polygraphy, tmp_path: Path, flag: str
) -> None:
    """From 8 MiB on, weights stay in the file while a model is edited."""
    onnx.save(_BuiltModel(width=880).model(), tmp_path / "m.onnx")
    done = polygraphy(f"polygraphy convert m.onnx {flag} --verify -o n.onnx", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert (tmp_path / "n.onnx").exists()
