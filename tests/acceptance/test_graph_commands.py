"""Commands that draw models, put plugins into them and split them, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import parser

PATTERN = """
import onnx_graphsurgeon as gs

def get_matching_subgraphs(graph):
    pattern = gs.GraphPattern()
    product = pattern.add("product", "MatMul", inputs=[pattern.variable(), pattern.variable()])
    pattern.set_output_tensors([pattern.add("relu", "Relu", inputs=[product])])
    return [
        {"inputs": [t.name for t in one.inputs], "outputs": [t.name for t in one.outputs],
         "attributes": {"k": 1}}
        for one in pattern.match_all(graph)
    ]

def get_plugin_metadata():
    return {"name": "toyPlugin", "op": "CustomToy"}
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "toy": """toy (float[2,4] X, float[4,4] W) => (float[2,4] Y) {
            a = MatMul(X, W)  b = Relu(a)  Y = Add(b, X) }""",
        "attention": """attention (float[2,8,4] q, float[2,8,4] k, float[2,8,4] v) => (float[2,8,4] y) {
            t = Transpose<perm = [0, 2, 1]>(k)  s = MatMul(q, t)  p = Softmax<axis = -1>(s)
            y = MatMul(p, v) }""",
    }.items():
        onnx.save(
            parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), f"{name}.onnx"
        )
    plugin = tmp_path / "plugins" / "toy" / "pattern.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(PATTERN, encoding="utf-8")
    return tmp_path


def ops(path: str) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_a_model_is_drawn(polygraphy: Any, models: Path) -> None:
    done = polygraphy("polygraphy inspect model toy.onnx --save-visual page.html --stats")
    assert done.code == 0
    assert "--stats: has no effect" in done.err
    page = (models / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert '"MatMul"' in page
    done = polygraphy("polygraphy inspect model toy.onnx attention.onnx --save-visual page.html")
    assert (done.code, "one model" in done.err) == (2, True)
    done = polygraphy("polygraphy inspect model toy.onnx --save-visual toy.onnx")
    assert done.code == 2
    done = polygraphy("polygraphy inspect model toy.onnx --visual-port 80")
    assert "--visual-port: has no effect without --visual" in done.err
    (models / "broken.onnx").write_bytes(b"\xff\xff\xff")
    assert polygraphy("polygraphy inspect model broken.onnx --save-visual page.html").code == 3
    assert (models / "page.html").read_text(encoding="utf-8") == page


def test_plugins_are_found_and_put_in(polygraphy: Any, models: Path) -> None:
    pytest.importorskip("onnx_graphsurgeon")
    pytest.importorskip("yaml")
    listed = polygraphy("polygraphy plugin list toy.onnx --plugin-dir plugins")
    assert (listed.code, "{'toyPlugin': 1}" in listed.out) == (0, True)
    assert not (models / "config.yaml").exists()
    assert polygraphy("polygraphy plugin match toy.onnx --plugin-dir plugins").code == 0
    done = polygraphy("polygraphy plugin replace toy.onnx --plugin-dir plugins")
    assert done.code == 0
    assert ops("replaced.onnx") == ["CustomToy", "Add"]
    matching = "polygraphy plugin match toy.onnx --plugin-dir plugins -o other.yaml --exclude toy"
    assert polygraphy(matching).code == 0
    assert (models / "other.yaml").read_bytes() == b""
    done = polygraphy(
        "polygraphy plugin replace toy.onnx --plugin-dir plugins --config other.yaml -o same.onnx"
    )
    assert (done.code, ops("same.onnx")) == (0, ["MatMul", "Relu", "Add"])
    for words, code in {
        "match toy.onnx --plugin-dir plugins --include a --exclude b": 2,
        "match toy.onnx --plugin-dir plugins --include a": 2,
        "match toy.onnx": 2,
        "match toy.onnx --plugin-dir nowhere": 2,
        "replace toy.onnx --plugin-dir plugins --config nowhere.yaml": 2,
        "list nowhere.onnx --plugin-dir plugins": 2,
    }.items():
        done = polygraphy(f"polygraphy plugin {words}")
        assert done.code == code, words
        assert "Traceback" not in done.out + done.err


def test_a_script_to_edit_a_model_runs(polygraphy: Any, models: Path) -> None:
    pytest.importorskip("onnx_graphsurgeon")
    assert polygraphy("polygraphy template onnx-gs toy.onnx -o edit.py").code == 0
    script = models / "edit.py"
    text = script.read_text(encoding="utf-8")
    changed = text.replace(
        "    # graph.inputs", '    graph.nodes[1].op = "Sigmoid"\n    # graph.inputs', 1
    )
    assert changed != text
    script.write_text(changed, encoding="utf-8")
    subprocess.run([sys.executable, str(script)], check=True, cwd=models, capture_output=True)
    assert ops("toy_updated.onnx") == ["MatMul", "Sigmoid", "Add"]
    assert polygraphy("polygraphy template onnx-gs toy.onnx").code == 2


def test_a_model_is_split_by_hints_or_without(polygraphy: Any, models: Path) -> None:
    axes = "--i-idx 1 --o-idx 1 --k-idx 2 --v-idx 1 --nb-rank 2"
    assert polygraphy(f"polygraphy template shard-hints attention.onnx -o h.json {axes}").code == 0
    hints = json.loads((models / "h.json").read_text(encoding="utf-8"))
    assert [one["q"] for one in hints["attention_layers"]] == ["q"]
    shard = "polygraphy multi-device shard attention.onnx"
    assert polygraphy(f"{shard} -s h.json -o by_hints.onnx").code == 0
    assert polygraphy(f"{shard} --one-shot {axes} -o without.onnx").code == 0
    assert ops("by_hints.onnx") == ops("without.onnx")
    assert ops("without.onnx").count("DistCollective") == 6
    done = polygraphy(f"{shard} -s h.json --k-idx 1 -o again.onnx")
    assert "--k-idx: has no effect" in done.err
    for words, code in {
        "-o a.onnx": 2,
        "--one-shot -s h.json -o a.onnx": 2,
        "--one-shot": 2,
        "--one-shot -o attention.onnx": 2,
        "--one-shot --parallelism TP -o a.onnx": 2,
        "--one-shot --parallelism TP --nb-rank 2 -o a.onnx": 3,
        "--one-shot --attention-pattern 2 -o a.onnx": 2,
        "--one-shot --groups x -o a.onnx": 2,
        "-s attention.onnx -o a.onnx": 3,
    }.items():
        done = polygraphy(f"{shard} {words}")
        assert done.code == code, words
        assert "Traceback" not in done.out + done.err
    assert not (models / "a.onnx").exists()


FLAGS = {
    "--reduce-op min": ("dist_collectives", "reduce_op", "min"),
    "--root 1": ("dist_collectives", "root", 1),
    "--gpus 3": ("dist_collectives", "group_size", 3),
    "--nb-rank 5": ("dist_collectives", "nb_rank", 5),
    "--groups 1 2": ("dist_collectives", "groups", [1, 2]),
    "--k-idx 2": (None, "k_seq_len_idx", 2),
    "--v-idx 1": (None, "v_seq_len_idx", 1),
    "--parallelism TP --nb-rank 2": (None, "parallelism", "TP"),
    "--no-suggest-io": (None, "inputs", []),
    "--i-idx 1": ("inputs", "seq_len_idx", 1),
    "--o-idx 2": ("outputs", "seq_len_idx", 2),
}


@pytest.mark.parametrize("words", FLAGS)
def test_each_flag_shows_in_the_hints(polygraphy: Any, models: Path, words: str) -> None:
    place, key, expected = FLAGS[words]

    def value(command: str) -> Any:
        assert (
            polygraphy(f"polygraphy template shard-hints attention.onnx -o h.json {command}").code
            == 0
        )
        found = json.loads((models / "h.json").read_text(encoding="utf-8"))
        found = found if place is None else found[place]
        return (found[0] if isinstance(found, list) else found)[key]

    assert value("") != expected
    assert value(words) == expected


def test_flags_of_fused_attention_show_in_the_hints(polygraphy: Any, models: Path) -> None:
    words = "--cp-type fused --is-causal --q-shuffle 0 1 2 --k-shuffle 0 2 1 --v-shuffle 2 1 0"
    command = "polygraphy template shard-hints attention.onnx -o h.json"
    assert polygraphy(f"{command} {words} --nb-rank 2").code == 0
    [layer] = json.loads((models / "h.json").read_text(encoding="utf-8"))["attention_layers"]
    assert layer["gather_kv"] is False
    assert layer["replace"] == {
        "is_causal": True,
        "q_shuffle": [0, 1, 2],
        "k_shuffle": [0, 2, 1],
        "v_shuffle": [2, 1, 0],
        "nb_rank": 2,
        "polygraphy_class": "FusedAttention",
    }
    done = polygraphy(f"{command} --is-causal --q-shuffle 0")
    assert "--q-shuffle, --is-causal: has no effect" in done.err


def test_ranks_that_a_model_does_not_say_are_given(polygraphy: Any, models: Path) -> None:
    model = onnx.load("attention.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    onnx.save(model, "attention.onnx")
    command = "polygraphy template shard-hints attention.onnx -o h.json"
    assert polygraphy(f"{command} --i-rank 5 --o-rank 6 --kv-rank 7").code == 0
    hints = json.loads((models / "h.json").read_text(encoding="utf-8"))
    assert [one["rank"] for one in (*hints["inputs"], *hints["outputs"])] == [5, 5, 5, 6]
    assert hints["kv_rank"] == 7


def test_a_model_with_nan_attributes_is_equal_to_itself(polygraphy: Any, tmp_path: Path) -> None:
    helper = onnx.helper
    domain = "ai.onnx.ml"
    node = helper.make_node(
        "Imputer", ["x"], ["y"], "fill", domain=domain,
        imputed_value_floats=[1.0, float("nan")], replaced_value_float=float("nan"),
    )  # fmt: skip
    x, y = (helper.make_tensor_value_info(name, 1, [None, 2]) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 3)]
    path, other = tmp_path / "m.onnx", tmp_path / "other.onnx"
    model = helper.make_model(graph, opset_imports=opsets)
    onnx.save(model, path)
    done = polygraphy(f"polygraphy inspect diff {path} {path}")
    assert done.code == 0, done.out
    model.graph.node[0].attribute[0].floats[0] = 2.0
    onnx.save(model, other)
    assert polygraphy(f"polygraphy inspect diff {path} {other}").code == 1


def test_a_name_in_a_branch_is_said_to_be_there(polygraphy: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (bool c, float[2] x) => (float[2] y) {
          [switch] y = If (c) <
            then_branch = t () => (float[2] a) { inner = Relu(x) [deep] a = Neg(inner) },
            else_branch = e () => (float[2] b) { b = Abs(x) }>
        }"""
    onnx.save(parser.parse_model(text), path)
    for words in (
        f"extract {path} --outputs inner:auto -o {out}",
        f"insert {path} --op Relu --inputs inner --outputs inner -o {out}",
    ):
        done = polygraphy(f"polygraphy surgeon {words}")
        assert done.code == 2
        assert "'inner' is in a subgraph of the If node" in done.out + done.err


def test_a_name_in_a_function_is_said_to_be_there(polygraphy: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    text = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[2] x) => (float[2] y) { y = own.Block (x) }
        <domain: "own", opset_import: ["": 17]>
        Block (a) => (b) { [first] inner = Relu (a) b = Neg (inner) }"""
    onnx.save(parser.parse_model(text), path)
    for words in (
        f"surgeon extract {path} --outputs inner:auto -o {out}",
        f"surgeon insert {path} --op Relu --inputs inner --outputs inner -o {out}",
        f"surgeon copy {path} --reference {path} --nodes inner -o {out}",
        f"run {path} --onnxrt --onnx-outputs inner",
    ):
        done = polygraphy(f"polygraphy {words}")
        assert done.code == 2
        assert "'inner' is in the function 'Block'" in done.out + done.err


def test_group_normalization_of_opset_18_is_valid(polygraphy: Any, tmp_path: Path) -> None:
    """The onnx checker calls it deprecated, in the opset that introduced it."""
    path = tmp_path / "m.onnx"
    text = """<ir_version: 8, opset_import: ["": 18]>
        g (float[1,4,2] x) => (float[1,4,2] y) <float[2] s = {1, 1}, float[2] b = {0, 0}> {
          y = GroupNormalization <num_groups = 2> (x, s, b) }"""
    onnx.save(parser.parse_model(text), path)
    done = polygraphy(f"polygraphy check lint {path}")
    assert (done.code, "deprecated" in done.out) == (0, False)
    done = polygraphy(f"polygraphy convert {path} --fp-to-fp16 -o {tmp_path / 'half.onnx'}")
    assert done.code == 0, done.out + done.err
