"""polygraphy.backend.onnx.util: what is expected was printed by NVIDIA's Polygraphy 0.53.6 for the same
model, but for tensors of unknown rank, which it takes for scalars.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.backend.onnx import gs_from_onnx, loader, util
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType
from polygraphy.exception import PolygraphyException

FLOAT = TensorProto.FLOAT


def info(name: str, shape: Any, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def branch(op: str, output: str) -> onnx.GraphProto:
    node = helper.make_node(op, ["h"], [output], name=f"{output}n")
    return helper.make_graph([node], f"{output}_g", [], [info(output, ["N", 3])])


@pytest.fixture
def model() -> onnx.ModelProto:
    constant = numpy_helper.from_array(np.array([1.5], np.float32))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"),
        helper.make_node("Constant", [], ["c"], value=constant, name="const"),
        helper.make_node(
            "Conv", ["img", "k"], ["cv"], name="conv",
            kernel_shape=[1, 1], auto_pad="SAME_UPPER", group=1,
        ),
        helper.make_node("LeakyRelu", ["h"], ["lr"], alpha=0.25),
        helper.make_node(
            "If", ["cond"], ["y"], name="iff",
            then_branch=branch("Relu", "t"), else_branch=branch("Neg", "e"),
        ),
        helper.make_node("Add", ["y", "c"], ["z"], name="addz"),
    ]  # fmt: skip
    weights = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "k": np.ones((1, 1, 1, 1), np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", ["N", 2]), info("cond", [], TensorProto.BOOL), info("img", [1, 1, None, 4])],
        [info("z", ["N", 3]), info("cv", [1, 1, "h", 4]), info("lr", ["N", 3])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
        value_info=[info("h", ["N", 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.x", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


BRIEF = """\
Name: g | ONNX Opset: 17 | Other Opsets: {'com.x': 1}

---- 3 Graph Input(s) ----
{x [dtype=float32, shape=('N', 2)],
 cond [dtype=bool, shape=()],
 img [dtype=float32, shape=(1, 1, -1, 4)]}

---- 3 Graph Output(s) ----
{z [dtype=float32, shape=('N', 3)],
 cv [dtype=float32, shape=(1, 1, 'h', 4)],
 lr [dtype=float32, shape=('N', 3)]}

"""
WEIGHTS = """\
---- 2 Initializer(s) ----
Initializer | w [dtype=float32, shape=[2, 3]] | Values:
    [[0. 1. 2.]
     [3. 4. 5.]]

Initializer | k [dtype=float32, shape=[1, 1, 1, 1]] | Values:
    [[[[1.]]]]

---- 6 Node(s) ----"""
LAYERS = """\
---- 2 Initializer(s) ----
{w [dtype=float32, shape=(2, 3)],
 k [dtype=float32, shape=(1, 1, 1, 1)]}

---- 6 Node(s) ----
Node 0    | mm [Op: MatMul]
    {x [dtype=float32, shape=('N', 2)],
     Initializer | w [dtype=float32, shape=(2, 3)]}
     -> {h [dtype=float32, shape=('N', 3)]}

Node 1    | const [Op: Constant]
    {} -> {c}

Node 2    | conv [Op: Conv]
    {img [dtype=float32, shape=(1, 1, -1, 4)],
     Initializer | k [dtype=float32, shape=(1, 1, 1, 1)]}
     -> {cv [dtype=float32, shape=(1, 1, 'h', 4)]}

Node 3    |  [Op: LeakyRelu]
    {h [dtype=float32, shape=('N', 3)]}
     -> {lr [dtype=float32, shape=('N', 3)]}

Node 4    | iff [Op: If]
    {cond [dtype=bool, shape=()]}
     -> {y}

Node 5    | addz [Op: Add]
    {y,
     c}
     -> {z [dtype=float32, shape=('N', 3)]}"""
ATTRIBUTES = """\
    ---- Attributes ----
    conv.auto_pad = SAME_UPPER
    conv.group = 1
    conv.kernel_shape = [1, 1]
"""


def test_texts(model: onnx.ModelProto) -> None:
    assert util.str_from_onnx(model) == f"{BRIEF}---- 2 Initializer(s) ----\n\n---- 6 Node(s) ----"
    assert util.str_from_onnx(model, show_weights=True) == BRIEF + WEIGHTS
    assert util.str_from_onnx(model, show_layers=True) == BRIEF + LAYERS
    text = util.str_from_onnx(model, True, True)
    assert ATTRIBUTES in text and "    const.value = Tensor: [dtype=float32, shape=[1]]\n" in text
    assert "\n            Node 0    | tn [Op: Relu]\n" in text
    text = util.str_from_onnx(model, True, True, True)
    assert "    const.value = Tensor: [dtype=float32, shape=[1]] | Values:\n        [1.5]\n" in text


def test_the_older_mode(model: onnx.ModelProto, capsys: pytest.CaptureFixture[str]) -> None:
    modes = {"none": 0, "basic": 1, "attrs": 2, "full": 3}
    made = {mode: util.str_from_onnx(model, mode=mode) for mode in modes}
    assert made == {mode: util.str_from_onnx(model, *[True] * n) for mode, n in modes.items()}
    assert capsys.readouterr().out.count("[W] mode of str_from_onnx is deprecated") == 1
    with pytest.raises(PolygraphyException, match="'fulll' does not exist"):
        util.str_from_onnx(model, mode="fulll")


def test_metadata(model: onnx.ModelProto) -> None:
    inputs = util.get_input_metadata(model.graph)
    expected = TensorMetadata().add("x", DataType.FLOAT32, ["N", 2])
    expected.add("cond", DataType.BOOL, []).add("img", DataType.FLOAT32, [1, 1, -1, 4])
    assert inputs == expected and type(inputs["x"].shape).__name__ == "BoundedShape"
    outputs = TensorMetadata().add("z", DataType.FLOAT32, ["N", 3])
    outputs.add("cv", DataType.FLOAT32, [1, 1, "h", 4]).add("lr", DataType.FLOAT32, ["N", 3])
    assert util.get_output_metadata(model.graph) == outputs
    assert util.get_tensor_metadata(model.graph.output) == outputs
    weights = util.get_tensor_metadata(model.graph.initializer)
    assert weights == TensorMetadata().add("w", DataType.FLOAT32, [2, 3]).add(
        "k", DataType.FLOAT32, [1, 1, 1, 1]
    )
    model.graph.input.append(info("w", [2, 3]))
    assert util.get_input_metadata(model.graph) == expected


def test_a_tensor(model: onnx.ModelProto) -> None:
    image, weight = model.graph.input[2], model.graph.initializer[0]
    assert util.get_shape(image) == [1, 1, -1, 4] and util.get_dtype(image) == DataType.FLOAT32
    assert util.get_shape(weight) == [2, 3] and util.get_dtype(weight) == DataType.FLOAT32
    np.testing.assert_array_equal(util.get_values(weight), [[0, 1, 2], [3, 4, 5]])
    assert util.get_shape(info("unknown", None)) is None
    assert util.get_shape(onnx.ValueInfoProto()) is None


def test_names(model: onnx.ModelProto) -> None:
    names = ["h", "cv", "lr", "y", "z"]
    assert util.all_tensor_names(model) == names
    assert util.all_tensor_names(model, include_inputs=True) == [*names, "x", "cond", "img"]
    assert util.get_num_nodes(model) == 8


def outputs_of(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.output]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["h", "lr"], ["h", "lr"]),
        (["lr", "h", "lr"], ["lr", "h"]),
        (["l*"], ["lr"]),
        (["x"], ["x"]),
    ],
)
def test_marked_outputs(model: onnx.ModelProto, names: list[str], expected: list[str]) -> None:
    assert util.mark_outputs(model, names) is model
    assert outputs_of(model) == expected
    assert all(util.get_dtype(value) == DataType.FLOAT32 for value in model.graph.output)
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("names", [["nope", "h"], ["w"], ["t"], ["zz*"], []])
def test_what_cannot_be_marked(model: onnx.ModelProto, names: list[str]) -> None:
    before = outputs_of(model)
    with pytest.raises(PolygraphyException):
        util.mark_outputs(model, names)
    assert outputs_of(model) == before


def test_all_marked(model: onnx.ModelProto) -> None:
    assert util.mark_layerwise(model) is model
    assert outputs_of(model) == ["h", "cv", "lr", "y", "z"]


def test_marked_types(model: onnx.ModelProto, capsys: pytest.CaptureFixture[str]) -> None:
    assert util.mark_by_op_type(model, ["Nope"]) is model
    assert outputs_of(model) == ["z", "cv", "lr"]
    assert "[E] Operator type 'nope' does not exist" in capsys.readouterr().out
    assert util.mark_by_op_type(model, ["MatMul", "add"]) is model
    assert outputs_of(model) == ["h", "z"]


@pytest.mark.parametrize(
    ("names", "left"),
    [
        (["cv"], ["z", "lr"]),
        (["h"], ["z", "cv", "lr"]),
        (["z", "cv", "lr"], []),
        (["c*"], ["z", "lr"]),
    ],
)
def test_unmarked_outputs(model: onnx.ModelProto, names: list[str], left: list[str]) -> None:
    assert util.unmark_outputs(model, names) is model
    assert outputs_of(model) == left
    with pytest.raises(PolygraphyException):
        util.unmark_outputs(model, ["nope"])


def test_graphs_of_graphsurgeon(model: onnx.ModelProto) -> None:
    gs = pytest.importorskip("onnx_graphsurgeon")
    graph = gs_from_onnx(model)
    assert util.meta_from_gs_tensors(graph.outputs) == util.get_output_metadata(model.graph)
    assert util.lower_constant_nodes(graph) is graph
    assert [node.op for node in graph.nodes] == ["MatMul", "Conv", "LeakyRelu", "If", "Add"]
    assert type(graph.tensors()["c"]) is gs.Constant
    onnx.checker.check_model(gs.export_onnx(graph), full_check=True)
    known = TensorMetadata().add("h", np.float16, (5, 3)).add("w", np.float32, (7, 7))
    util.set_shapes_from_layerwise_meta(graph, known.add("x", None, (1, 2)))
    tensors = graph.tensors()
    assert (list(tensors["h"].shape), tensors["h"].dtype) == ([5, 3], TensorProto.FLOAT16)
    assert list(tensors["w"].shape) == [2, 3] and list(tensors["x"].shape) == [1, 2]


@pytest.mark.parametrize("dim", ["R", "unk__1"])
def test_what_decides_about_sizes_without_limit(dim: str) -> None:
    pytest.importorskip("onnx_graphsurgeon")
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["gx"], axis=1),
        helper.make_node("Cast", ["gx"], ["gc"], to=TensorProto.INT64),
        helper.make_node("ReduceMax", ["gc"], ["l"], keepdims=0),
        helper.make_node("Range", ["s", "l", "d"], ["rg"], name="r"),
        helper.make_node("Add", ["rg", "d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", ["N", 2])],
        [info("y", [dim], TensorProto.INT64)],
        [numpy_helper.from_array(np.array(each), name) for name, each in zip("sdi", (0, 1, 1))],
        value_info=[info("rg", [dim], TensorProto.INT64)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    driving = util.get_unbounded_dds_tensors(gs_from_onnx(made))
    assert [tensor.name for tensor in driving] == ["l"]


def test_a_loader_that_derives_from_the_base_for_changes(model: onnx.ModelProto) -> None:
    class Renamed(loader.BaseLoadOnnxCopy):
        def call_impl(self) -> onnx.ModelProto:
            model = self.load()
            model.graph.name = "renamed"
            return model

    before = model.graph.name
    assert Renamed(model)().graph.name == "renamed" and model.graph.name == before
    assert Renamed(lambda: model, copy=True)() is not model
    assert Renamed(model, copy=False)() is model and model.graph.name == "renamed"
    assert loader.LARGE_MODEL_THRESHOLD == 536_870_912 and loader.PROTOBUF_THRESHOLD == 2e9
