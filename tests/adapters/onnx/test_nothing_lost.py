"""Edits leave alone what they are not about, whatever it is that a model says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper, parser

from polygraphy import surgeon
from polygraphy.adapters.onnx.graph.shapes import shape_of
from polygraphy.adapters.onnx.plugins.plugins import replace_plugins
from polygraphy.adapters.onnx.storage.parsing import encode_field, encode_varint
from polygraphy.adapters.onnx.storage.weights import copy_fields
from polygraphy.backend import onnx as backend
from polygraphy.binding import bind
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.editing import infer_symbolic_shapes
from tests.adapters.onnx.rich_model import Facts, facts_of, rich_model

Edit = Callable[[onnx.ModelProto, Path], onnx.ModelProto]


def _saved(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    backend.save_onnx(model, str(folder / "m.onnx"), external_data_path="w", size_threshold=0)
    return backend.onnx_from_path(str(folder / "m.onnx"))


def _mapped(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    backend.save_onnx(model, str(folder / "m.onnx"))
    return backend.onnx_from_path(str(folder / "m.onnx"), map_weights=True)


def _part(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    inputs, outputs = TensorMetadata(), TensorMetadata()
    inputs.add("a", None, None)
    outputs.add("z", None, None)
    return surgeon.extract(model, inputs, outputs)


def _restored(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    before = onnx.ModelProto.FromString(model.SerializeToString())
    return surgeon.restore_weights(surgeon.strip_weights(model), before)


def _whole(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    return surgeon.extract(model)


WHOLE: dict[str, Edit] = {
    "extract": _whole,
    "extract_subgraph": lambda model, _: backend.extract_subgraph(model, check_meta=False),
    "clean_up": lambda model, _: surgeon.clean_up(model),
    "sort": lambda model, _: surgeon.sort_nodes(model),
    "prune": lambda model, _: surgeon.prune_weights(model),
    "restore": _restored,
    "reconstruct": lambda model, _: surgeon.reconstruct_weights(surgeon.strip_weights(model)),
    "mark": lambda model, _: backend.modify_outputs(model, outputs=["y", "z", "d", "b"]),
    "mark less": lambda model, _: backend.modify_outputs(model, outputs=["y"]),
    "infer": lambda model, _: backend.infer_shapes(model),
    "infer by onnx": lambda model, _: backend.infer_shapes(model, allow_onnxruntime=False),
    "external": _saved,
    "mapped": _mapped,
    "replace nothing": lambda model, _: replace_plugins(model, "", []),
    "bound": lambda model, _: backend.set_upper_bound(model, {"": 10}),
}


def lost(before: Facts, after: Facts) -> dict[object, object]:
    """Return what was said and is not any more, with what is said now."""
    return {
        key: (reported, after.get(key))
        for key, reported in before.items()
        if after.get(key) != reported
    }


@pytest.mark.parametrize("edit", WHOLE)
def test_what_removes_nothing_loses_nothing(edit: str, tmp_path: Path) -> None:
    model = rich_model()
    before = facts_of(model)
    assert lost(before, facts_of(WHOLE[edit](model, tmp_path))) == {}


def without(facts: Facts, gone: set[str], *, but: Callable[[str, str, str], bool]) -> Facts:
    """Return what is said of other things than some, and of what about these does not change."""
    return {
        (kind, name, about): reported
        for (kind, name, about), reported in facts.items()
        if name not in gone and not but(kind, name, about)
    }


def _insert(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    return surgeon.insert_node(model, "Twice", ["c"], ["e"], domain="own")


def _reshape(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    return surgeon.override_input_shapes(model, {"x": [7, 4]})


def _runnable(model: onnx.ModelProto) -> onnx.ModelProto:
    [node] = [node for node in model.graph.node if node.op_type == "Mystery"]
    node.op_type, node.domain = "Identity", ""
    return model


def _observed(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    return surgeon.observe_shapes(_runnable(model))


def _branch(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    fixed = helper.make_node("Constant", [], ["fixed"], value_int=1)
    model.graph.node.insert(0, fixed)
    [node] = [node for node in model.graph.node if node.op_type == "If"]
    node.input[0] = "fixed"
    made = backend.fold_constants(model)
    for listed in (made.graph.node, made.graph.value_info):  # Other names, within the same graph.
        for one in listed:
            one.name = one.name.removesuffix("_inlined")
    for annotation in made.graph.quantization_annotation:
        annotation.tensor_name = annotation.tensor_name.removesuffix("_inlined")
    return made


NODES = {"rich3_Constant", "rich4_Neg", "rich8_Constant"}
"""What folding takes out."""
INNER = {"then", "otherwise", "then_branch", "else_branch", "o", "t", "t0", "then0_Add",
         "then1_Relu", "otherwise0_Neg"}  # fmt: skip
RELUS = {"rich6_Relu", "then1_Relu", "e", "t"}
KEPT = {"t0", "then0_Add", "then1_Relu"}
BEHIND = {"rich7_SequenceConstruct", "rich8_Constant", "rich9_SequenceAt", "rich10_Optional", "rich12_If", "y",
          "rich11_OptionalGetElement", "rich13_Mystery", "rich14_Identity", *"fghm", "seq", "opt",
          "bias", "flag"}  # fmt: skip


def _nothing(kind: str, name: str, about: str) -> bool:
    return False


def _elements(kind: str, name: str, about: str) -> bool:
    return about == "elem_type"


def _shapes(kind: str, name: str, about: str) -> bool:
    is_inner = name not in ("x", "y", "z")
    return about == "dims" or (is_inner and about == "dim denotations")


def _dims(kind: str, name: str, about: str) -> bool:
    return about in ("dims", "type")


PART: dict[str, tuple[Edit, set[str], Callable[[str, str, str], bool]]] = {
    "part": (_part, {"rich0_MatMul", "W", "x", *BEHIND, *INNER}, _nothing),
    "fold": (lambda model, _: backend.fold_constants(model), NODES, _nothing),
    "branch": (_branch, {*NODES, "rich12_If", *(INNER - KEPT)}, _nothing),
    "fp16": (lambda model, _: backend.convert_to_fp16(model), set(), _elements),
    "fp16 io": (lambda model, _: backend.convert_to_fp16(model, cast_io=True), set(), _elements),
    "insert": (_insert, {"rich6_Relu"}, _nothing),
    "remove": (lambda model, _: surgeon.remove_nodes(model, ["Relu"]), RELUS, _nothing),
    "input shapes": (_reshape, set(), _shapes),
    "observe": (_observed, set(), _dims),
}


@pytest.mark.parametrize("edit", PART)
def test_nothing_else_is_lost(edit: str, tmp_path: Path) -> None:
    do, gone, but = PART[edit]
    model = rich_model()
    before = without(facts_of(model), gone, but=but)
    assert lost(before, facts_of(do(model, tmp_path))) == {}


TRAINED = """<ir_version: 8, opset_import: ["": 17]> m (float[2] x) => (float[2] y)
<float[2] W = {1, 2}, float[2] rate = {3, 4}, float[2] unused = {5, 6}> {
    a = Mul(x, W)  y = Relu(a)  score = Exp(a)  dead = Neg(a)
}"""
TRAINS: dict[str, Edit] = {
    "clean_up": WHOLE["clean_up"],
    "fold": PART["fold"][0],
    "remove": lambda model, _: surgeon.remove_nodes(model, ["Relu"]),
    "insert": lambda model, _: surgeon.insert_node(model, "Abs", ["a"], ["y"]),
}


@pytest.mark.parametrize("edit", TRAINS)
def test_what_training_computes_with_stays(edit: str, tmp_path: Path) -> None:
    model = parser.parse_model(TRAINED)
    training = model.training_info.add()
    training.algorithm.CopyFrom(
        parser.parse_graph("t () => (float[2] next) { s = Mul(score, rate)  next = Sub(W, s) }")
    )
    training.update_binding.add(key="W", value="next")
    edited = TRAINS[edit](model, tmp_path)
    assert {tensor.name for tensor in edited.graph.initializer} == {"W", "rate"}
    made = {name for node in edited.graph.node for name in node.output}
    assert "score" in made and "dead" not in made


def test_fields_of_later_versions_are_copied() -> None:
    later = encode_field(100, b"bytes") + encode_varint(101 << 3) + encode_varint(2**63)
    later += encode_varint(102 << 3 | 5) + b"abcd" + encode_varint(103 << 3 | 1) + b"abcdefgh"
    later += (
        encode_varint(104 << 3 | 3) + encode_field(1, b"in a group") + encode_varint(104 << 3 | 4)
    )
    given = onnx.NodeProto.FromString(encode_field(4, b"Relu") + later)
    made = onnx.NodeProto()
    copy_fields(given, made, "op_type")
    assert made.SerializeToString() == later


def test_what_the_model_says_of_shapes_counts_more_than_names_that_are_inferred() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n,4] x) => (float[n,m] y) {'
    given = parser.parse_model(text + "a = NonZero(x)  b = Cast<to=1>(a)  y = Abs(b) }")
    a = helper.make_tensor_value_info("a", 7, [None, "p"])
    b = helper.make_tensor_value_info("b", 1, [None, None])
    given.graph.value_info.extend([a, b])
    given.graph.value_info[1].doc_string = "b doc"

    def symbolic(model: onnx.ModelProto) -> onnx.ModelProto:
        found = onnx.ModelProto()
        for name, shape in (("a", ["k", 4]), ("b", ["k", "j"])):
            value = helper.make_tensor_value_info(name, 1, shape)
            found.graph.value_info.append(value)
        found.graph.output.append(helper.make_tensor_value_info("y", 1, ["unk__0", 4]))
        return found

    with bind(infer_symbolic_shapes, symbolic):
        made = backend.infer_shapes(given)
    infos = {value.name: value for value in (*made.graph.value_info, *made.graph.output)}
    shapes = {name: shape_of(value) for name, value in infos.items()}
    # NonZero makes two rows, and how many columns is not sure: the 4 was a guess.
    assert shapes == {"a": [2, "p"], "b": [2, "p"], "y": [2, "m"]}
    assert infos["b"].doc_string == "b doc"


def test_sparse_weights_of_a_branch_that_is_taken_stay() -> None:
    model = rich_model()
    [node] = [node for node in model.graph.node if node.op_type == "If"]
    branch = node.attribute[0].g
    branch.sparse_initializer.extend(model.graph.sparse_initializer)  # Of the same name.
    branch.node[0].input[1] = "S"
    made = _branch(model, Path())
    assert [one.values.name for one in made.graph.sparse_initializer] == ["S", "S_inlined"]
    [added] = [node for node in made.graph.node if node.name == "then0_Add"]
    assert list(added.input) == ["g", "S_inlined"]
