"""`diagnose --torch`: a model beside the PyTorch program that it was exported from.

They run in this process: importing a framework takes seconds.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.acceptance.conftest import Done
from tests.support.facts import facts_of
from tests.support.in_this_process import polygraphy

__all__ = ["polygraphy"]

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

SCRIPT = """
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))) + x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.drop = torch.nn.Dropout(0.3)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x):
        x = self.drop(self.blocks(x)).mean((2, 3))
        return torch.nn.functional.gelu(self.head(x))


def load_model():
    torch.manual_seed(0)
    return Net().eval()


def training():
    return load_model().train()


def unfit():
    model = load_model()
    model.load_state_dict({"head.weight": torch.zeros(3, 3)})
    return model


class Nested(torch.nn.Module):
    def forward(self, pair):
        return pair["a"] - pair["b"]


def nested():
    return Nested()
"""
KINDS = {"dynamo": {"dynamo": True, "verbose": False}, "older": {"dynamo": False}}
Run = Callable[..., Done]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a program, and what both exporters make of it."""
    folder = tmp_path_factory.mktemp("exports")
    (folder / "net.py").write_text(SCRIPT)
    names: dict[str, Any] = {}
    exec(compile(SCRIPT, str(folder / "net.py"), "exec"), names)
    example = (torch.randn(1, 4, 6, 6),)
    module = names["load_model"]()
    program = torch.export.export(module, example)
    torch.export.save(program, str(folder / "net.pt2"))
    torch.export.save(torch.export.export(names["training"](), example), str(folder / "train.pt2"))
    pair = {"b": torch.randn(2, 3), "a": torch.randn(2, 3)}
    two = torch.export.export(names["nested"](), (pair,))
    torch.export.save(two, str(folder / "two.pt2"))
    torch.onnx.export(two, f=str(folder / "two.onnx"), dynamo=True, verbose=False)
    for kind, options in KINDS.items():
        given = program if kind == "dynamo" else module
        path = str(folder / f"{kind}.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(given, example, path, external_data=False, **options)
    return folder


def edited(exports: Path, kind: str, edit: Callable[[onnx.ModelProto], None]) -> str:
    model = onnx.load(str(exports / f"{kind}.onnx"))
    edit(model)
    onnx.save(model, str(exports / f"{kind}-edited.onnx"))
    return f"{kind}-edited.onnx"


def nodes(model: onnx.ModelProto, op: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == op]


def scale(model: onnx.ModelProto, name: str) -> None:
    [tensor] = [each for each in model.graph.initializer if each.name == name]
    array = numpy_helper.to_array(tensor) * np.float32(1.5)
    tensor.CopyFrom(numpy_helper.from_array(array, name))


def another_weight(model: onnx.ModelProto) -> None:
    scale(model, nodes(model, "Gemm")[0].input[1])


def another_folded_weight(model: onnx.ModelProto) -> None:
    scale(model, nodes(model, "Conv")[1].input[1])


def another_operator(model: onnx.ModelProto) -> None:
    nodes(model, "Relu")[1].op_type = "Softplus"


def dropout_left_on(model: onnx.ModelProto) -> None:
    add = nodes(model, "Add")[1]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "training"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "ratio"))
    made = helper.make_node(
        "Dropout", ["added", "ratio", "training"], [add.output[0]], "drop", seed=3
    )
    add.output[0] = "added"
    model.graph.node.insert(list(model.graph.node).index(add) + 1, made)


def diagnosed(polygraphy: Run, exports: Path, model: str, backend: str = "") -> Any:
    command = f"polygraphy diagnose {model} {backend} --torch net.pt2 --format json"
    done = polygraphy(command, cwd=exports)
    assert done.code == 1, done.out + done.err
    return json.loads(done.out)


@pytest.mark.parametrize("program", ["net.pt2", "net.py"])
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_is_blamed_for_a_healthy_export(
    polygraphy: Run, exports: Path, kind: str, program: str
) -> None:
    done = polygraphy(f"polygraphy diagnose {kind}.onnx --torch {program}", cwd=exports)
    assert done.code == 0, done.out + done.err
    assert "No fault found." in done.out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("edit", "cause", "fact"),
    [
        (another_weight, "weight", "weights_differ"),
        (another_folded_weight, "weight", "weights_differ"),
        (another_operator, "structure", "other_operator"),
        (dropout_left_on, "training", "computes_as_in_training"),
    ],
)
def test_an_edited_file_is_not_the_fault_of_the_exporter(
    polygraphy: Run, exports: Path, kind: str, edit: Any, cause: str, fact: str
) -> None:
    # ONNX Runtime takes every Dropout out, also one that computes as in training.
    backend = "--onnx" if cause == "training" else ""
    data = diagnosed(polygraphy, exports, edited(exports, kind, edit), backend)
    [culprit] = data["culprits"]
    assert (culprit["party"], culprit["cause"]) == ("model file", cause)
    facts = facts_of(culprit)
    assert "match_after_new_export" in facts
    assert fact in facts
    assert "dynamo=True" not in culprit["remedy"]["note"]
    assert bool(culprit["remedy"]["command"]) == (kind == "dynamo")


def test_training_mode_is_told_before_anything_is_compared(polygraphy: Run, exports: Path) -> None:
    done = polygraphy("polygraphy diagnose dynamo.onnx --torch train.pt2", cwd=exports)
    assert done.code == 4
    assert "training mode" in done.out
    assert "net.py:" in done.out
    module = polygraphy("polygraphy diagnose dynamo.onnx --torch net.py:training", cwd=exports)
    assert module.code == 0, module.err
    assert "it was compared in evaluation mode" in " ".join(module.out.split())


def test_nested_inputs_are_told_apart_by_their_names(polygraphy: Run, exports: Path) -> None:
    model = onnx.load(str(exports / "two.onnx"))
    model.graph.input.insert(0, model.graph.input.pop())
    onnx.save(model, str(exports / "turned.onnx"))
    done = polygraphy("polygraphy diagnose turned.onnx --torch two.pt2", cwd=exports)
    assert done.code == 0, done.out + done.err
    module = polygraphy("polygraphy diagnose two.onnx --torch net.py:nested", cwd=exports)
    assert module.code == 0, module.out + module.err


BRANCH = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        x = torch.tanh(x)
        if x.sum() > 0:
            return x * 2 + 1
        return x.topk(2, 1)[0] - 3


def load_model():
    return Net()
"""


def test_a_branch_that_python_chose_is_named(
    polygraphy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`torch.export` does not take such a module."""
    (tmp_path / "branch.py").write_text(BRANCH)
    names: dict[str, Any] = {}
    exec(compile(BRANCH, "branch.py", "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example, path = (torch.ones(2, 4),), str(tmp_path / "net.onnx")
        torch.onnx.export(names["load_model"](), example, path, dynamo=False)
    done = polygraphy("polygraphy diagnose net.onnx --torch branch.py --format json", cwd=tmp_path)
    assert (done.code, "forward" in done.err) == (1, False), done.out + done.err
    [culprit] = json.loads(done.out)["culprits"]
    assert (culprit["party"], culprit["cause"]) == ("exporter", "constant")
    assert culprit["origin"] == "branch.py:10"
    assert any("line 8 tests `x.sum() > 0`" in sentence for sentence in culprit["evidence"])
    assert "torch.where" in culprit["remedy"]["note"]


def test_all_tensors_of_a_module_are_compared(polygraphy: Run, exports: Path) -> None:
    done = polygraphy("polygraphy run dynamo.onnx --onnxrt --torch net.py --mark-all", cwd=exports)
    assert done.code == 0, done.out + done.err
    assert "relu_1" in done.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("missing.pt2", 2, "missing.pt2"),
        ("net.onnx", 2, "net.onnx"),
        ("dynamo.onnx", 3, "neither an exported PyTorch program"),
        ("newer.pt2", 3, "was saved by PyTorch 99.1, and"),
        ("net.py:nothing", 2, "nothing"),
        ("net.py:unfit", 3, "Missing key(s)"),
        ("two.pt2", 2, "no counterpart"),
        ("net.pt2 --golden net.py", 2, "--golden"),
    ],
)
def test_what_is_no_program_is_one_line(
    polygraphy: Run, exports: Path, words: str, code: int, said: str
) -> None:
    import zipfile

    with (
        zipfile.ZipFile(exports / "net.pt2") as archive,
        zipfile.ZipFile(exports / "newer.pt2", "w") as made,
    ):
        for each in archive.infolist():
            content = archive.read(each)
            if each.filename.endswith("archive_version"):
                content = b"999"
            if each.filename.endswith("model.json"):
                content = content.replace(b'"major": ', b'"major": 9').replace(
                    b'"major":', b'"major": 9'
                )
                content = re.sub(rb'"torch_version": *"[^"]*"', b'"torch_version": "99.1"', content)
            made.writestr(each, content)
    done = polygraphy(f"polygraphy diagnose dynamo.onnx --torch {words}", cwd=exports)
    assert (done.code, said in done.err) == (code, True), done.err


STATEFUL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(16, 8)
        self.mix = torch.nn.Linear(16, 8)

    def forward(self, tokens, past):
        sizes = past.shape[1] + torch.arange(tokens.shape[1], device=past.device)
        now = torch.tanh(self.mix(torch.cat([self.table(tokens), self.table(sizes)[None]], 2)))
        present = torch.cat([past, now], 1)
        seen = torch.arange(present.shape[1], device=past.device)[None] <= sizes[:, None]
        return (seen[None] / (sizes[:, None] + 1)) @ present, present


def make():
    torch.manual_seed(0)
    return Net().eval()
"""


def test_a_program_runs_several_steps_and_a_later_row_of_a_table_is_found(
    polygraphy: Run, tmp_path: Path, device: str = "cpu"
) -> None:
    (tmp_path / "net.py").write_text(STATEFUL)
    names: dict[str, Any] = {}
    exec(compile(STATEFUL, str(tmp_path / "net.py"), "exec"), names)
    module, example = names["make"](), (torch.tensor([[1, 2, 3]]), torch.zeros(1, 2, 8))
    shapes = {"tokens": {1: torch.export.Dim.DYNAMIC}, "past": {1: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(module, example, dynamic_shapes=shapes)
    torch.export.save(program, str(tmp_path / "net.pt2"))
    axes = {"tokens": {1: "n"}, "past": {1: "past"}, "present": {1: "total"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, example, str(tmp_path / "older.onnx"), dynamo=False,
                          input_names=["tokens", "past"], output_names=["y", "present"],
                          dynamic_axes=axes)  # fmt: skip

    def change(model: onnx.ModelProto) -> None:
        [table] = [each for each in model.graph.initializer if "table" in each.name]
        array = numpy_helper.to_array(table).copy()
        array[6:] *= 2
        table.CopyFrom(numpy_helper.from_array(array, table.name))

    tokens = "--tokens tokens.txt --steps 5"
    (tmp_path / "tokens.txt").write_text("1 2 3 4 1 2 3 4")
    wrong = edited(tmp_path, "older", change)
    for given in ("net.pt2", "net.py:make"):
        line = f"polygraphy diagnose {{}} --torch {given} --torch-device {device} {tokens}"
        done = polygraphy(line.format("older.onnx"), cwd=tmp_path)
        assert done.code == 0, done.out + done.err
        done = polygraphy(line.format(wrong), cwd=tmp_path)
        assert done.code == 1, done.out + done.err
        assert re.match("CULPRIT  (Gather )?'/table", done.out)
        assert "step 3 is the first wrong step" in done.out


LAYER = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 8, 0, batch_first=True)

    def forward(self, data):
        return self.layer(data).sum(1)


def load_model():
    torch.manual_seed(0)
    return Net().eval()
"""


@pytest.mark.parametrize("fault", ["weight", "constant", "training"])
def test_a_transformer_layer_is_exported_again_as_its_exporter_wrote_it(
    polygraphy: Run, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(LAYER)
    names: dict[str, Any] = {}
    exec(LAYER, names)
    net = names["load_model"]()
    if fault == "weight":
        net.layer.norm1.bias.data += 1
    example = torch.ones(1, 5 if fault == "constant" else 4, 8)
    options: dict[str, Any] = {"dynamo": False, "dynamic_axes": {"data": {1: "length"}}}
    path = str(tmp_path / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (example,), path, input_names=["data"], **options)
    if fault == "training":
        model = onnx.load(path)
        graph, last = model.graph, model.graph.node[-1]
        [name], last.output[0] = last.output, "before"
        graph.node.append(helper.make_node("RandomUniformLike", ["before"], ["mask"]))
        graph.node.append(helper.make_node("Mul", ["before", "mask"], [name]))
        onnx.save(model, path)
    words = "--torch net.py:load_model --input-shapes data:1x4x8 --format json"
    done = polygraphy(f"polygraphy diagnose model.onnx {words}", cwd=tmp_path)
    [culprit] = json.loads(done.out)["culprits"]
    assert (culprit["cause"], done.code) == (fault, 1), culprit
    assert culprit["party"] == ("exporter" if fault == "constant" else "model file")
    if fault == "constant":
        assert culprit["origin"] == "net.py:11 (layer.self_attn)"
