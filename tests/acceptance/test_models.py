"""Looking into models and checking them, as a user does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.json import save_json
from tests.support import models

Run = Callable[..., Any]

IDENTITY_FP16 = """\
[I] Loading model: {path}
[I] ==== ONNX Model ====
    Name: test_identity | ONNX Opset: 8
    
    ---- 1 Graph Input(s) ----
    {{x [dtype=float32, shape=(1, 1, 2, 2)]}}
    
    ---- 1 Graph Output(s) ----
    {{y [dtype=float32, shape=(1, 1, 2, 2)]}}
    
    ---- 0 Initializer(s) ----
    
    ---- 3 Node(s) ----
"""  # noqa: W293 - blank lines inside a message are as wide as its margin


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    models.save(models.mlp(), tmp_path / "mlp.onnx")
    models.save(models.identity_fp16(), tmp_path / "identity_fp16.onnx")
    models.save(models.custom_op(), tmp_path / "custom.onnx")
    models.save(broken(), tmp_path / "broken.onnx")
    return tmp_path


def broken() -> onnx.ModelProto:
    """Return a model with a defect of each kind, in one graph."""
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x", "x"], ["t"], name="bad_inner")],
        "then", [], [models.value("t", [2, 3])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["e"])], "else", [], [models.value("e", [2, 3])]
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="bad_mm"),
        helper.make_node("Relu", ["a"], ["b"], name="after_it"),
        helper.make_node("Unheard", ["x"], ["c"], name="unheard"),
        helper.make_node("Custom", ["x"], ["d"], name="custom", domain="their.own"),
        helper.make_node("Conv", ["x"], ["e"], name="bad_conv"),
        helper.make_node("Relu", ["x"], ["unused"], name="dead"),
        helper.make_node(
            "If", ["cond"], ["f"], name="choice", then_branch=inner, else_branch=other
        ),
        helper.make_node("Identity", ["x"], ["y"], name="twin"),
        helper.make_node("Identity", ["x"], ["z"], name="twin"),
    ]
    outputs = [models.value(name, [2, 3]) for name in "bcdefyz"]
    graph = helper.make_graph(
        nodes, "broken",
        [models.value("x", [2, 3]), models.value("cond", [], TensorProto.BOOL)], outputs,
        [numpy_helper.from_array(np.ones((4, 5), np.float32), "w")],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("their.own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.cold
def test_the_text_about_a_model(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy inspect model identity_fp16.onnx")
    assert done.code == 0
    assert done.out == IDENTITY_FP16.format(path=folder / "identity_fp16.onnx")


def test_layers_attributes_and_weights(folder: Path, polygraphy: Run) -> None:
    shown = polygraphy("polygraphy inspect model mlp.onnx --show layers attrs weights").out
    assert (
        "    Node 2    | logits [Op: Gemm]\n        {h_relu,\n"
        "         Initializer | logits.weight [dtype=float32, shape=(16, 4)],\n"
        "         Initializer | logits.bias [dtype=float32, shape=(4,)]}\n"
        "         -> {y [dtype=float32, shape=('batch', 4)]}\n"
    ) in shown
    assert "Initializer | hidden.bias [dtype=float32, shape=[16]] | Values:" in shown
    full = polygraphy("polygraphy inspect model mlp.onnx --show-weights --mode=full").out
    assert full == shown
    basic = polygraphy("polygraphy inspect model mlp.onnx --mode=basic").out
    assert basic == polygraphy("polygraphy inspect model mlp.onnx --show layers").out
    assert "Node 0" in basic and "Values" not in basic
    cast = polygraphy("polygraphy inspect model identity_fp16.onnx --mode attrs").out
    assert "        cast_x.to = float16\n" in cast
    only = polygraphy("polygraphy inspect model mlp.onnx --show-weights").out
    assert "Values:" in only and "Node 0" not in only


def _results(document: str) -> dict[str, Any]:
    """Return the results in a document by kind."""
    return {result["kind"]: result for result in json.loads(document)["results"]}


def test_several_models(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy inspect model mlp.onnx identity_fp16.onnx")
    assert done.out.count("==== ONNX Model ====") == 2


def test_a_file_among_several_that_is_no_model_hides_none_of_them(
    folder: Path, polygraphy: Run
) -> None:
    (folder / "bad.onnx").write_bytes((folder / "mlp.onnx").read_bytes()[:100])
    done = polygraphy("polygraphy inspect model bad.onnx mlp.onnx gone.onnx identity_fp16.onnx")
    assert done.code == 3 and done.out.count("==== ONNX Model ====") == 2
    assert "bad.onnx is truncated" in done.err and "gone.onnx does not exist" in done.err
    assert done.err.endswith("[!] 2 of 4 models could not be read: bad.onnx, gone.onnx.\n")
    as_json = polygraphy("polygraphy inspect model bad.onnx mlp.onnx --format json")
    assert as_json.code == 3 and _results(as_json.out)["model"]["path"] == "mlp.onnx"


def test_statistics_shapes_and_documents(folder: Path, polygraphy: Run) -> None:
    text = polygraphy("polygraphy inspect model mlp.onnx --stats").out
    assert "\n  MACs             192\n" in text
    assert "\n  Counted as 1     batch\n" in text
    old = polygraphy("polygraphy inspect model mlp.onnx --stats --log-format legacy").out
    assert "[I] ==== Statistics ====\n" in old and "    MACs            | 192\n" in old
    command = "polygraphy inspect model mlp.onnx --format json --stats --show layers"
    document = _results(polygraphy(command).out)
    assert document["statistics"]["statistics"]["parameters"] == 8 * 16 + 16 + 16 * 4 + 4
    assert document["model"]["model"]["graph"]["nodes"][1]["op"] == "Relu"
    assert "h" not in document["model"]["model"]["graph"]["tensors"]
    inferred = _results(polygraphy(f"{command} --shape-inference").out)
    assert inferred["model"]["model"]["graph"]["tensors"]["h"]["shape"] == ["batch", 16]
    assert "Found tensors with unbounded DDS: []" in (
        polygraphy("polygraphy inspect model mlp.onnx --list-unbounded-dds").out
    )


def test_tensors_and_close_matches(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy inspect outputs mlp.onnx")
    assert "h_relu [dtype=float32, shape=('batch', 16)] | Node 1 | relu [Op: Relu]" in done.out
    some = polygraphy("polygraphy inspect outputs mlp.onnx --names h* --format json")
    assert [use["tensor"]["name"] for use in _results(some.out)["tensors"]["tensors"]] == [
        "h",
        "h_relu",
    ]
    wrong = polygraphy("polygraphy inspect outputs mlp.onnx --names h_rel")
    assert wrong.code == 2
    assert "Did you mean 'h_relu'?" in wrong.err


def test_sparsity(folder: Path, polygraphy: Run) -> None:
    model = models.mlp()
    sparse = numpy_helper.to_array(model.graph.initializer[2]).copy()
    sparse[::2] = 0
    model.graph.initializer[2].CopyFrom(numpy_helper.from_array(sparse, "logits.weight"))
    models.save(model, folder / "sparse.onnx")
    done = polygraphy("polygraphy inspect sparsity sparse.onnx")
    assert done.code == 0
    assert "Found: 2 weight tensor(s) eligible for pruning." in done.lines
    assert "Found sparse tensor: logits.weight" in done.lines
    assert any(line.startswith("[W] Found non-sparse tensor: hidden.weight") for line in done.lines)


def test_differences(folder: Path, polygraphy: Run) -> None:
    assert polygraphy("polygraphy inspect diff mlp.onnx mlp.onnx").code == 0
    changed = models.mlp()
    changed.graph.node[1].op_type = "Sigmoid"
    changed.graph.node[0].attribute.add(name="alpha", type=1, f=2.0)
    weight = numpy_helper.to_array(changed.graph.initializer[1]).copy()
    weight[3] = 7
    changed.graph.initializer[1].CopyFrom(numpy_helper.from_array(weight, "hidden.bias"))
    changed.graph.initializer[3].name = changed.graph.node[2].input[2] = "bias"
    models.save(changed, folder / "changed.onnx")
    done = polygraphy("polygraphy inspect diff mlp.onnx changed.onnx")
    assert done.code == 1
    for line in (
        "5 differences",
        "Initializer logits.bias renamed: logits.bias became bias",
        "Initializer hidden.bias changed: ",
        "7.0 (no other differs)",
        "Node relu changed: Relu(h) -> h_relu became Sigmoid(h) -> h_relu",
        "Attribute hidden.alpha is extra: 2.0",
    ):
        assert line in done.out
    mixed = polygraphy("polygraphy inspect diff mlp.onnx outputs.json")
    assert (mixed.code, "files of one kind" in mixed.err) == (2, True)


def test_every_defect_is_found_at_once(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy check lint broken.onnx -o report.json")
    assert done.code == 1
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    failing = ["bad_mm", "unheard", "bad_conv", "choice", "twin"]
    assert report["summary"] == {"passing": ["custom", "dead"], "failing": failing}
    by_node: dict[str, list[dict[str, Any]]] = {}
    for entry in report["lint_entries"]:
        by_node.setdefault(entry["nodes"][0], []).append(entry)
    assert by_node["bad_mm"][0]["message"] == "Incompatible dimensions for matrix multiplication"
    assert by_node["bad_mm"][0]["source"] == "onnxruntime"
    assert by_node["unheard"][0]["message"].startswith("No Op registered for Unheard")
    assert "input size 1 not in range" in by_node["bad_conv"][0]["message"]
    assert by_node["choice/then_branch/bad_inner"][0]["level"] == "exception"
    assert by_node["custom"][0]["level"] == "warning"
    assert by_node["dead"][0]["message"] == "Does not affect outputs, can be removed."
    assert by_node["after_it"][0]["level"] == "info"


def test_a_sound_model_passes(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy check lint mlp.onnx -o report.json --input-shapes x:[3,8]")
    assert done.code == 0
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == {
        "summary": {"passing": ["hidden", "relu", "logits"], "failing": []},
        "lint_entries": [],
    }


def test_data_and_sessions_of_a_check(folder: Path, polygraphy: Run) -> None:
    wrong = polygraphy("polygraphy check lint mlp.onnx --input-shapes x:[3,9]")
    assert wrong.code == 2
    unknown = polygraphy("polygraphy check lint mlp.onnx --providers nonsense")
    assert (unknown.code, "nonsense" in unknown.err) == (2, True)
    gather = models.make(
        "m", [helper.make_node("Gather", ["w", "i"], ["y"], name="look_up")],
        [models.value("i", [2], TensorProto.INT64)], [models.value("y", [2])],
        weights={"w": np.ones(4, np.float32)},
    )  # fmt: skip
    models.save(gather, folder / "gather.onnx")
    assert polygraphy("polygraphy check lint gather.onnx --val-range [0,3]").code == 0
    done = polygraphy("polygraphy check lint gather.onnx --val-range [100,200]")
    assert (done.code, "Name: look_up, Op: Gather" in done.out) == (1, True)
    single = models.make(
        "m", [helper.make_node("Gather", ["w", "i"], ["y"])],
        [models.value("i", [2], TensorProto.INT64)], [models.value("y", [2])],
        weights={"w": np.ones(1, np.float32)},
    )  # fmt: skip
    models.save(single, folder / "single.onnx")
    done = polygraphy("polygraphy check lint single.onnx")
    assert (done.code, "Using 0: the model uses it as" in done.out) == (0, True)


def test_what_a_check_leaves_out_of_its_data_is_said(folder: Path, polygraphy: Run) -> None:
    feed = {"x": np.ones((1, 8), np.float32)}
    save_json([feed, feed], "two.json")
    for check in ("lint mlp.onnx", "compatibility mlp.onnx --onnxrt --onnx"):
        done = polygraphy(f"polygraphy check {check} --load-inputs two.json")
        assert (done.code, done.out.count("Only the first of several iterations is used")) == (
            0,
            1,
        ), done


@pytest.mark.parametrize("content", [b"no model", b"\x08\x08\x3a\x05"])
def test_what_is_no_model_is_a_finding(folder: Path, polygraphy: Run, content: bytes) -> None:
    (folder / "none.onnx").write_bytes(content)
    done = polygraphy("polygraphy check lint none.onnx -o report.json")
    assert done.code == 1
    [entry] = json.loads((folder / "report.json").read_text(encoding="utf-8"))["lint_entries"]
    assert entry["source"] == "onnx_loader"
    assert polygraphy("polygraphy inspect model none.onnx").code == 3
    assert polygraphy("polygraphy check lint gone.onnx").code == 2
    assert polygraphy("polygraphy check lint .").code == 3


def test_backends_that_can_and_cannot(folder: Path, polygraphy: Run) -> None:
    assert polygraphy("polygraphy check compatibility mlp.onnx --onnxrt").code == 0
    everything = polygraphy("polygraphy check compatibility mlp.onnx")
    assert "PASSED | onnx runs the model." in everything.out
    done = polygraphy("polygraphy check compatibility custom.onnx --onnxrt --onnx")
    assert done.code == 1
    for backend in ("onnxrt", "onnx"):
        assert f"UNSUPPORTED | {backend} | Op: CustomOp | Nodes: custom" in done.out
    assert polygraphy("polygraphy check compatibility gone.onnx --onnxrt").code == 2


def test_what_is_wrong_with_a_model_is_no_fault_of_a_backend(folder: Path, polygraphy: Run) -> None:
    model = models.conv_net()
    model.graph.node[0].input[0] = "undefined"
    (folder / "undefined.onnx").write_bytes(model.SerializeToString())
    done = polygraphy("polygraphy check compatibility undefined.onnx --onnxrt --onnx")
    assert done.code == 1 and "FAILED | onnxrt" in done.out and "'undefined'" in done.out
    assert "UNSUPPORTED" not in done.out


def external(folder: Path) -> None:
    """Move the weights of the model to a file in another folder."""
    model = models.mlp()
    (folder / "weights").mkdir()
    with (folder / "weights" / "all.bin").open("wb") as stream:
        for tensor in model.graph.initializer:
            place = {"location": "all.bin", "offset": stream.tell(), "length": len(tensor.raw_data)}
            stream.write(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
    models.save(model, folder / "external.onnx")


def test_weights_in_another_folder(folder: Path, polygraphy: Run) -> None:
    external(folder)
    assert polygraphy("polygraphy inspect model external.onnx --show layers").code == 0
    for command in ("inspect model external.onnx --show weights", "inspect sparsity external.onnx"):
        missing = polygraphy(f"polygraphy {command}")
        assert (missing.code, "all.bin" in missing.err) == (3, True)
        assert polygraphy(f"polygraphy {command} --external-data-dir weights").code == 0
        assert polygraphy(f"polygraphy {command} --ignore-external-data").code == 0
    shown = polygraphy("polygraphy inspect model external.onnx --mode full --ignore-external-data")
    assert "(512 bytes, from all.bin, not shown)" in shown.out
    checked = polygraphy("polygraphy check lint external.onnx --external-data-dir weights")
    assert checked.code == 0
    assert "PASSED" in checked.out
    assert polygraphy("polygraphy check lint external.onnx").code == 3
    for backend in ("--onnxrt", "--onnx"):
        tried = polygraphy(f"polygraphy check compatibility external.onnx {backend}")
        assert (tried.code, "--external-data-dir" in tried.err) == (3, True), tried
    assert polygraphy("polygraphy check lint external.onnx --ignore-external-data").code == 0


def test_options_that_cannot_be_meant(folder: Path, polygraphy: Run) -> None:
    combined = polygraphy("polygraphy inspect model mlp.onnx --combine-tensor-info outputs.json")
    assert (combined.code, "Add --show layers" in combined.err) == (2, True)
    function = polygraphy("polygraphy inspect model mlp.onnx --trt-network-func load")
    assert (function.code, "no model is a network script" in function.err) == (0, True)
    same = polygraphy("polygraphy check lint mlp.onnx -o mlp.onnx")
    assert (same.code, "have the same path" in same.err) == (2, True)


def test_a_tensor_whose_shape_is_not_limited(folder: Path, polygraphy: Run) -> None:
    count = helper.make_node("Range", ["zero", "n", "one"], ["many"], name="range")
    limited = helper.make_node("Min", ["n", "most"], ["few"], name="min")
    inner = helper.make_node("Range", ["zero", "few", "one"], ["some"], name="limited")
    integers = {name: np.array(value, np.int64) for name, value in
                {"zero": 0, "one": 1, "most": 9}.items()}  # fmt: skip
    model = models.make(
        "m", [count, limited, inner], [models.value("n", [], TensorProto.INT64)],
        [models.value(name, [None], TensorProto.INT64) for name in ("many", "some")],
        weights=integers,
    )  # fmt: skip
    models.save(model, folder / "range.onnx")
    done = polygraphy("polygraphy inspect model range.onnx --list-unbounded-dds")
    assert "Found tensors with unbounded DDS: ['n']" in done.out
