"""Editing models from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from tests.support import classifier_files, models

Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with a classifier and a model with an unknown operator."""
    monkeypatch.chdir(tmp_path)
    models.save(classifier_files.classifier(), tmp_path / "model.onnx")
    models.save(models.custom_op(), tmp_path / "custom_op.onnx")
    return tmp_path


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.cold
def test_constants_are_folded(folder: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy surgeon sanitize model.onnx --fold-constants --output clean.onnx --verify"
    )
    assert done.code == 0 and "Div" not in ops(folder / "clean.onnx")
    assert "Total Nodes | Original:    13, After Folding:    12 |     1 Nodes Folded" in done.lines
    assert any(line.startswith("edited vs. original ") for line in done.lines)
    assert done.lines[-1].startswith("PASSED  2 outputs matched; ")


def test_a_part_is_cut_out_by_bare_names(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy surgeon extract model.onnx --inputs input --outputs intermediate")
    assert done.code == 0 and "Saving to model_extracted.onnx" in done.err
    assert ops(folder / "model_extracted.onnx") == ["Conv", "Relu", "MaxPool", "Conv"]


def test_operators_are_removed(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy surgeon prune custom_op.onnx --remove-node-types CustomOp")
    assert done.code == 0 and "CustomOp" not in ops(folder / "custom_op_pruned.onnx")


def test_weights_are_taken_out_and_replaced(folder: Path, polygraphy: Run) -> None:
    Path("keep.txt").write_text("conv1.bias\n")
    done = polygraphy("polygraphy surgeon weight-strip model.onnx --exclude-list keep.txt")
    assert done.code == 0
    stripped = folder / "model_stripped.onnx"
    assert stripped.stat().st_size < (folder / "model.onnx").stat().st_size / 3
    done = polygraphy("polygraphy surgeon weight-reconstruct model_stripped.onnx -o full.onnx")
    assert done.code == 0
    assert polygraphy("polygraphy run full.onnx --onnxrt").code == 0


def test_a_model_with_nothing_to_strip_passes_through(folder: Path, polygraphy: Run) -> None:
    """A script that strips and reconstructs every model meets some without large weights."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Abs(x) }'
    onnx.save(parser.parse_model(text), "small.onnx")
    assert polygraphy("polygraphy surgeon weight-strip small.onnx -o stripped.onnx").code == 0
    done = polygraphy("polygraphy surgeon weight-reconstruct stripped.onnx -o full.onnx")
    assert done.code == 0 and "has all its weights" in done.err + done.out
    assert onnx.load("full.onnx") == onnx.load("stripped.onnx")


def test_a_model_that_stays_invalid_has_a_warning(folder: Path, polygraphy: Run) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3,4] x, float[4,5] w)'
    text += " => (float[2,3,5] y) { [fc] y = Gemm(x, w) }"
    onnx.save(parser.parse_model(text), "invalid.onnx")
    done = polygraphy("polygraphy surgeon sanitize invalid.onnx --no-shape-inference -o out.onnx")
    said = done.out + done.err
    assert "[W] The model still violates the ONNX specification: Gemm 'fc': Gemm requires" in said
    done = polygraphy("polygraphy surgeon sanitize model.onnx -o clean.onnx")
    assert "[W]" not in done.out + done.err


def test_a_model_is_shown_before_and_after(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy surgeon sanitize model.onnx --fold-constants -o clean.onnx -v")
    before, after = (done.lines.index(f"[I] {which} Model:") for which in ("Original", "New"))
    assert done.lines[before + 1 : before + 12] == [
        "    Name: classifier | ONNX Opset: 17",
        "    ",
        "    ---- 1 Graph Input(s) ----",
        "    {input [dtype=float32, shape=('batch', 3, 224, 224)]}",
        "    ",
        "    ---- 2 Graph Output(s) ----",
        "    {output [dtype=float32, shape=('batch', 10)],",
        "     final_output [dtype=float32, shape=('batch', 4)]}",
        "    ",
        "    ---- 10 Initializer(s) ----",
        "    ",
    ]
    assert "    ---- 12 Node(s) ----" in done.lines[after:]
    assert "[I] Removed: 1 node (1 Div), 2 initializers | Added: 1 initializer" in done.lines
    assert "[V] Removed nodes: scale [Op: Div]" in done.lines


VERIFIED = {
    "insert model.onnx --inputs relu1_output --outputs relu1_output --op Identity": 0,
    "insert model.onnx --inputs relu1_output --outputs relu1_output --op Neg": 1,
    "prune model.onnx": 1,
    "prune with_identity.onnx --remove-node-types Identity": 0,
    "prune model.onnx --remove-node-types Sigmoid": 1,
    "weight-strip model.onnx --fp-to-fp16": 0,
    "weight-strip model.onnx --model-input-shapes input:[2,3,224,224]": 0,
    "weight-reconstruct stripped.onnx --seed 3": 0,
}


def test_every_edit_can_be_verified(folder: Path, polygraphy: Run) -> None:
    insert = "insert model.onnx --inputs relu1_output --outputs relu1_output --op Identity"
    assert polygraphy(f"polygraphy surgeon {insert} -o with_identity.onnx").code == 0
    assert polygraphy("polygraphy surgeon weight-strip model.onnx -o stripped.onnx").code == 0
    for command, code in VERIFIED.items():
        Path("new.onnx").write_text("old")
        done = polygraphy(f"polygraphy surgeon {command} --verify -o new.onnx")
        assert done.code == code, (command, done)
        assert (Path("new.onnx").read_bytes() == b"old") == (code == 1), command


def test_data_without_verification_are_of_no_use(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy surgeon prune model.onnx -o p.onnx --seed 3")
    assert done.code == 0 and "--seed: has no effect" in done.err


def test_large_weights_go_to_a_file(folder: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy surgeon prune model.onnx -o p.onnx --save-external-data w.bin"
        " --external-data-size-threshold 100"
    )
    assert done.code == 0 and (folder / "w.bin").stat().st_size > 1000
    again = polygraphy(
        "polygraphy surgeon sanitize p.onnx --cleanup --external-data-dir . -o q.onnx"
    )
    assert again.code == 0 and onnx.load(folder / "q.onnx").graph.initializer[0].raw_data


def test_a_model_that_changed_is_not_saved(folder: Path, polygraphy: Run) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> m (float[4] x) => (float[4] y)
    <float big = {1000000.0}> { y = Add(x, big) }"""
    onnx.save(parser.parse_model(text), "large.onnx")
    Path("old.onnx").write_text("old")
    done = polygraphy("polygraphy surgeon sanitize large.onnx --fp-to-fp16 --verify -o old.onnx")
    assert done.code == 1 and Path("old.onnx").read_text() == "old"


MISTAKES = {
    "surgeon extract model.onnx --inputs relu1_outptu -o old.onnx": (2, "Did you mean 'relu1_output'"),
    "surgeon extract model.onnx --inputs relu1_output --outputs conv1_output -o old.onnx": (2, "'input', which is not among"),
    "surgeon prune model.onnx --remove-node-types Convs -o old.onnx": (2, "Did you mean 'Conv'"),
    "surgeon sanitize truncated.onnx --fold-constants -o old.onnx": (3, "truncated.onnx is truncated"),
    "surgeon sanitize folder --toposort -o old.onnx": (3, "is a folder"),
    "surgeon sanitize circle.onnx --toposort -o old.onnx": (3, "form a cycle"),
    "surgeon insert model.onnx --inputs input -o old.onnx": (2, "missing --outputs"),
    "surgeon sanitize model.onnx -o model.onnx": (2, "have the same path"),
    "surgeon sanitize model.onnx --no-shape-inference --force-fallback-shape-inference": (2, "cannot be combined"),
    "surgeon extract model.onnx --outputs -o old.onnx": (2, "--outputs: must not be empty"),
}  # fmt: skip


def test_mistakes_are_reported_in_a_line_and_harm_nothing(folder: Path, polygraphy: Run) -> None:
    Path("old.onnx").write_text("old")
    Path("folder").mkdir()
    Path("truncated.onnx").write_bytes(Path("model.onnx").read_bytes()[:5000])
    circle = classifier_files.classifier()
    circle.graph.node[0].input[0] = "output"
    models.save(circle, Path("circle.onnx"))
    for command, (code, text) in MISTAKES.items():
        done = polygraphy(f"polygraphy {command}")
        assert (done.code, text in done.out + done.err) == (code, True), (command, done)
    assert Path("old.onnx").read_text() == "old"


def test_deep_nesting_and_many_nodes_end_well(folder: Path, polygraphy: Run) -> None:
    nodes = [helper.make_node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(20_000)]
    many = models.make("many", nodes, [models.value("t0", (1,))], [models.value("t20000", (1,))])
    onnx.save(many, "many.onnx")
    done = polygraphy(
        "polygraphy surgeon extract many.onnx --inputs t500 --outputs t600 -o part.onnx"
    )
    assert done.code == 0 and len(ops(folder / "part.onnx")) == 100
    deep = models.value("y", (1,))
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [], [deep])
    for _ in range(25):
        node = helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=graph,
            else_branch=(
                graph
                if len(graph.node) < 1
                else helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "e", [], [deep])
            ),
        )
        graph = helper.make_graph([node], "g", [], [deep])
    graph.input.extend([models.value("x", (1,)), models.value("c", (), 9)])
    Path("deep.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    done = polygraphy(
        "polygraphy surgeon sanitize deep.onnx --fold-constants --cleanup -o out.onnx"
    )
    assert done.code in (0, 3) and "recursion" not in done.out + done.err


@pytest.mark.parametrize("is_beside", [False, True])
def test_what_diagnose_says_to_type_mends_a_model_of_more_than_8_mib(
    folder: Path, polygraphy: Run, is_beside: bool
) -> None:
    """Weights of such a model stay where they are."""
    wide = np.random.default_rng(0).standard_normal((1500, 1500), np.float32)
    text = """<ir_version: 8, opset_import: ["" : 17]> m (float[2, 1500] x) => (float[2, 1500] y) {
        a = MatMul(x, wide) b = Mul(a, factor) y = Relu(b) }"""
    for name, factor in (("right", 1.0), ("wrong", 1.5)):
        made = parser.parse_model(text)
        factors = np.full(1500, factor, np.float32)
        weights = {"wide": wide * np.float32(factor), "factor": factors}
        made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
        onnx.save(made, f"{name}.onnx", save_as_external_data=is_beside, location=f"{name}.w")
        assert sum(path.stat().st_size for path in folder.glob(f"{name}.*")) > 8 << 20
    done = polygraphy("polygraphy diagnose wrong.onnx --onnxrt --reference right.onnx")
    assert done.code == 1
    [fix] = {line[line.index("polygraphy ") :] for line in done.lines if "surgeon copy" in line}
    assert polygraphy(fix).code == 0
    arrays, right = (
        [numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer]
        for path in (shlex.split(fix)[-1], "right.onnx")
    )
    assert all(map(np.array_equal, arrays, right)) and len(arrays) == 2
