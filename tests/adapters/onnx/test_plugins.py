"""Plugins: the parts that their scripts find are replaced, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from polygraphy.adapters.onnx.graph import graphsurgeon
from polygraphy.adapters.onnx.storage import elements as read_elements
from polygraphy.adapters.onnx.storage import model as mapped
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.weights import is_stored
from polygraphy.backend.onnx import gs_from_onnx, onnx_from_path, save_onnx
from polygraphy.domain.errors import (
    BackendError,
    FileError,
    ModelError,
    PolygraphyException,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.model.plugins import PluginInstance, PluginMatch

gs = pytest.importorskip("onnx_graphsurgeon")
pytest.importorskip("yaml")

from polygraphy.plugin import (  # noqa: E402
    load_matches,
    match_plugins,
    replace_plugins,
    save_matches,
)

PATTERN = """
import numpy as np
import onnx_graphsurgeon as gs


def get_matching_subgraphs(graph):
    pattern = gs.GraphPattern()
    product = pattern.add("product", "MatMul", inputs=[pattern.variable(), pattern.variable()])
    pattern.set_output_tensors([pattern.add("relu", "Relu", inputs=[product])])
    return [
        {"inputs": [t.name for t in found.inputs], "outputs": [t.name for t in found.outputs],
         "attributes": {"k": np.int64(1), "alpha": 0.5, "sizes": (1, 2), "mode": "fast"}}
        for found in pattern.match_all(graph)
    ]

def get_plugin_metadata():
    return {"name": "toyPlugin", "op": "CustomToy"}
"""
BY_ITSELF = """
def replace_with_plugin(graph, input_tensors, output_tensors, attrs, op):
    import onnx_graphsurgeon as gs
    if output_tensors[0].name == "left":
        return False
    output_tensors[0].inputs.clear()
    graph.nodes.append(gs.Node(op, "by itself", attrs, list(input_tensors), list(output_tensors)))
    return True
"""
MODEL = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1], metadata_props: ["who": "someone"]>
toy (float[2,4] X) => (float[2,4] Y)
<float[4,4] W = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}>
{
    a = MatMul(X, W)
    left = Relu(a)
    c = MatMul(left, W)
    d = Relu(c)
    e = own.Twice(d)
    Y = Add(e, left)
}
<domain: "own", opset_import: ["" : 17]>
Twice (x) => (y) { y = Add(x, x) }
"""


@pytest.fixture
def model() -> onnx.ModelProto:
    made = parser.parse_model(MODEL)
    onnx.checker.check_model(made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> str:
    write(tmp_path / "plugins", "toy", PATTERN)
    return str(tmp_path / "plugins")


def write(folder: Path, name: str, script: str) -> str:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "pattern.py").write_text(script, encoding="utf-8")
    return str(folder)


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


ATTRIBUTES = {"k": 1, "alpha": 0.5, "sizes": [1, 2], "mode": "fast"}
FOUND = [
    PluginMatch(
        "toyPlugin",
        "CustomToy",
        (
            PluginInstance(("X", "W"), ("left",), ATTRIBUTES),
            PluginInstance(("left", "W"), ("d",), ATTRIBUTES),
        ),
    )
]


def test_the_parts_that_a_script_finds_are_reported(model: onnx.ModelProto, folder: str) -> None:
    assert match_plugins(model, folder) == FOUND


def test_the_model_is_imported_once_for_all_plugins(
    model: onnx.ModelProto, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Path(folder), "again", PATTERN)
    imported = []
    original = gs.import_onnx
    monkeypatch.setattr(gs, "import_onnx", lambda given: imported.append(1) or original(given))
    assert len(match_plugins(model, folder)) == 2
    assert imported == [1]


def test_plugins_are_chosen_by_folder(model: onnx.ModelProto, folder: str) -> None:
    write(Path(folder), "other", PATTERN.replace("toyPlugin", "otherPlugin"))

    def names(**choice: list[str]) -> list[str]:
        return [match.name for match in match_plugins(model, folder, **choice)]

    assert names() == ["otherPlugin", "toyPlugin"]
    assert names(include=["toy"]) == ["toyPlugin"]
    assert names(exclude=["toy"]) == ["otherPlugin"]
    with pytest.raises(UnknownNameError, match="'toys'"):
        names(include=["toys"])
    with pytest.raises(UsageError, match="cannot be combined"):
        names(include=["toy"], exclude=["other"])


def test_a_plugin_takes_the_place_of_each_part(model: onnx.ModelProto, folder: str) -> None:
    functions, metadata = list(model.functions), list(model.metadata_props)
    made = replace_plugins(model, folder, FOUND)
    assert ops(made) == ["CustomToy", "CustomToy", "Twice", "Add"]
    first = made.graph.node[0]
    assert (list(first.input), list(first.output)) == (["X", "W"], ["left"])
    read = {each.name: onnx.helper.get_attribute_value(each) for each in first.attribute}
    assert read == {**ATTRIBUTES, "mode": b"fast"}
    assert list(made.functions) == functions
    assert list(made.metadata_props) == metadata


def test_what_others_take_from_inside_a_part_stays(folder: str) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,2] X, float[2,2] W) => (float[2,2] Y) {
            a = MatMul(X, W)  b = Relu(a)  Y = Sub(a, b)
        }""")
    part = PluginInstance(("X", "W"), ("b",))
    made = replace_plugins(model, folder, [PluginMatch("toyPlugin", "CustomToy", (part,))])
    assert sorted(ops(made)) == ["CustomToy", "MatMul", "Sub"]


def test_a_script_may_replace_parts_itself(
    model: onnx.ModelProto, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Path(folder), "toy", PATTERN + BY_ITSELF)
    functions, metadata = list(model.functions), list(model.metadata_props)
    made = replace_plugins(model, folder, FOUND)
    assert ops(made) == ["MatMul", "Relu", "CustomToy", "Twice", "Add"]
    assert made.graph.node[2].name == "by itself"
    assert list(made.functions) == functions
    assert list(made.metadata_props) == metadata
    assert "did not replace the part that computes left" in capsys.readouterr().out


READS = """
def replace_with_plugin(graph, input_tensors, output_tensors, attrs, op):
    assert graph.tensors()["W"].values.sum() == 4
    return False
"""


@pytest.fixture
def kept(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> onnx.ModelProto:
    """The model, with its weight in its file."""
    for module, name in ((mapped, "_SMALL_FILE"), (mapped, "_SMALL"), (read_elements, "_LARGE")):
        monkeypatch.setattr(module, name, 0)
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), "W"))
    path = str(tmp_path / "m.onnx")
    save_onnx(model, path)
    made: onnx.ModelProto = onnx_from_path(path, map_weights=True)
    assert is_stored(made.graph.initializer[0])
    return made


@pytest.mark.parametrize("script", [PATTERN, PATTERN + BY_ITSELF, PATTERN + READS])
def test_weights_may_stay_in_their_file(
    model: onnx.ModelProto, kept: onnx.ModelProto, folder: str, script: str, tmp_path: Path
) -> None:
    write(Path(folder), "toy", script)
    made = replace_plugins(kept, folder, FOUND)
    assert is_stored(made.graph.initializer[0]) == (script == PATTERN)
    save_onnx(made, str(tmp_path / "out.onnx"))
    assert onnx.load(str(tmp_path / "out.onnx")) == replace_plugins(model, folder, FOUND)


LOOKS = """
def get_matching_subgraphs(graph):
    weight = graph.tensors()["W"]
    assert isinstance(weight, gs.Constant) and list(weight.shape) == [4, 4]
    exported = gs.export_onnx(graph).graph.initializer[0]
    assert exported.name == "W" and len(exported.raw_data) == 64
    weight.values *= 2
    assert weight.values.sum() == 8 and weight.values.dtype == np.float32
    exported = gs.export_onnx(graph).graph.initializer[0]
    assert not exported.data_location and np.frombuffer(exported.raw_data, np.float32).sum() == 8
    return []
"""


def test_what_matches_is_found_without_weights(
    kept: onnx.ModelProto, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept.SerializeToString()
    with monkeypatch.context() as patched:
        for name in ("load_stored", "map_weight_bytes"):
            patched.delattr(graphsurgeon, name)
        assert match_plugins(kept, folder) == FOUND
    write(Path(folder), "toy", PATTERN + LOOKS)
    assert match_plugins(kept, folder) == []
    assert kept.SerializeToString() == before
    assert elements(kept.graph.initializer[0]).sum() == 4


def test_weights_of_branches_are_loaded(
    kept: onnx.ModelProto, model: onnx.ModelProto, folder: str
) -> None:
    names = ("then_branch", "else_branch")
    inside = {name: onnx.GraphProto() for name in names}
    for graph, source in zip(inside.values(), (kept, model)):
        graph.CopyFrom(source.graph)
        del graph.input[:]
    given = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        outer (bool C, float[2,4] X) => (float[2,4] Z) { Z = If(C) }""")
    node = given.graph.node[0]
    node.CopyFrom(onnx.helper.make_node("If", ["C"], ["Z"], **inside))
    graph = gs_from_onnx(given)
    for branch in (graph.nodes[0].attrs[name] for name in names):
        assert branch.tensors()["W"].values.sum() == 4


@pytest.mark.parametrize("script", [PATTERN, PATTERN + BY_ITSELF])
def test_names_that_the_model_lacks_are_reported(
    model: onnx.ModelProto, folder: str, script: str
) -> None:
    write(Path(folder), "toy", script)
    wrong = PluginMatch("toyPlugin", "CustomToy", (PluginInstance(("X",), ("lefd",)),))
    with pytest.raises(UnknownNameError, match=r"'lefd'.*'left'"):
        replace_plugins(model, folder, [wrong])


def test_what_cannot_be_replaced_is_reported(model: onnx.ModelProto, folder: str) -> None:
    def replace(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        match = PluginMatch(name, "CustomToy", (PluginInstance(inputs, outputs),))
        replace_plugins(onnx.ModelProto.FromString(model.SerializeToString()), folder, [match])

    with pytest.raises(UnknownNameError, match="'nobody'"):
        replace("nobody", ("X",), ("left",))
    with pytest.raises(UsageError, match="'W' is an input or a weight"):
        replace("toyPlugin", ("X",), ("W",))
    with pytest.raises(ModelError, match="form a cycle"):
        replace("toyPlugin", ("d",), ("left",))


def test_parts_that_overlap_are_reported(
    model: onnx.ModelProto, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [found] = FOUND
    whole = PluginInstance(("X",), ("e",))
    made = replace_plugins(
        model, folder, [PluginMatch(found.name, found.op, (whole, found.instances[1]))]
    )
    assert ops(made).count("CustomToy") == 1
    assert "The others overlap" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("def get_plugin_metadata(): return {}", "name and op"),
        ("x = 1", "get_plugin_metadata"),
        (PATTERN.replace("return [", "1 / 0; return ["), "ZeroDivisionError"),
        (PATTERN.replace('"outputs"', '"results"'), "inputs, outputs and attributes"),
        (PATTERN.replace("np.int64(1)", "object()"), "attribute cannot be an object"),
    ],
)
def test_a_script_that_is_wrong_is_named(
    model: onnx.ModelProto, folder: str, script: str, message: str
) -> None:
    write(Path(folder), "toy", script)
    with pytest.raises((BackendError, UnknownNameError), match=message) as caught:
        match_plugins(model, folder)
    assert "pattern.py" in str(caught.value)


def test_a_folder_without_plugins_is_reported(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no plugin.*pattern\.py"):
        match_plugins(model, str(tmp_path))
    write(tmp_path, "broken", "def (")
    with pytest.raises(PolygraphyException, match="line 1"):
        match_plugins(model, str(tmp_path))


def test_matches_are_kept_as_others_read_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    save_matches(FOUND, str(path))
    assert str(path) in capsys.readouterr().out
    assert path.read_text(encoding="utf-8").startswith(
        "name: toyPlugin\nop: CustomToy\ninstances:\n- inputs:\n  - X\n  - W\n  outputs:\n  - left\n"
        "  attributes:\n    k: 1\n"
    )
    assert load_matches(str(path)) == FOUND
    save_matches([*FOUND, *FOUND], str(path))
    assert load_matches(str(path)) == FOUND * 2
    save_matches([], str(path))
    assert path.read_bytes() == b""
    assert load_matches(str(path)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "not a mapping with name"),
        ("name: a\nop: b\n", "no list under 'instances'"),
        ("name: 1\nop: b\ninstances: []\n", "no string under 'name'"),
        ("name: a\nop: b\ninstances: [1]\n", "instance 1 is not a mapping"),
        ("name: a\nop: b\ninstances: [{inputs: [x], outputs: y}]\n", "'outputs'"),
        ("name: a\nop: b\ninstances: [{inputs: [x], outputs: [y], attributes: 1}]", "'attributes'"),
        ("a: [", "not a YAML file"),
        ("[" * 5000, "not a YAML file"),
        ("!!python/object/apply:os.system [echo]", "not a YAML file"),
    ],
)
def test_a_file_that_holds_something_else_is_reported(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message):
        load_matches(str(tmp_path / "config.yaml"))
