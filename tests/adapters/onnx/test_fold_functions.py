"""Folding in the functions of a model, whose inputs differ from call to call."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy import config
from polygraphy.adapters.onnx.fold.folding import fold_constants
from tests.adapters.onnx.running import alike, copied, run

OPSET = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
NODE = helper.make_node


def constant(name: str, value: object) -> onnx.NodeProto:
    return NODE("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))


def model_of(*nodes: onnx.NodeProto, attributes: tuple[str, ...] = ()) -> onnx.ModelProto:
    """Return a model that calls a function of some nodes twice, for two types of input."""
    function = helper.make_function("mine", "F", ["x"], ["y"], nodes, OPSET, attributes)
    given = dict.fromkeys(attributes, 0.25)
    calls = [NODE("F", [f"x{i}"], [f"y{i}"], domain="mine", **given) for i in range(2)]
    kinds = (TensorProto.FLOAT, TensorProto.DOUBLE)
    inputs = [helper.make_tensor_value_info(f"x{i}", kind, [3]) for i, kind in enumerate(kinds)]
    outputs = [helper.make_tensor_value_info(f"y{i}", kind, [None]) for i, kind in enumerate(kinds)]
    graph = helper.make_graph(calls, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=OPSET, functions=[function], ir_version=8)


def folded(model: onnx.ModelProto) -> list[str]:
    """Fold a model, which computes the same; return what is left in its function."""
    made = fold_constants(copied(model))
    onnx.checker.check_model(made, full_check=True)
    feed = {
        "x0": np.array([-2, 0, 3], np.float32),
        "x1": np.array([-1.5, 0.25, 4], np.float64),
    }
    assert alike(run(model, **feed), run(made, **feed))
    assert list(made.functions[0].input) == ["x"]
    return [node.op_type for node in made.functions[0].node]


def test_what_depends_on_no_input_is_folded() -> None:
    steps = [
        constant("two", np.int64(2)),
        constant("one", np.array([1])),
        NODE("Unsqueeze", ["two", "axis"], ["pair"]),
        NODE("Sub", ["pair", "one"], ["length"]),
        NODE("Neg", ["length"], ["rest"]),
        NODE("Reshape", ["x", "rest"], ["flat"]),
        NODE("Abs", ["flat"], ["y"]),
    ]
    assert folded(model_of(constant("axis", np.array([0])), *steps)) == [
        "Constant",
        "Reshape",
        "Abs",
    ]


def test_a_branch_that_is_taken_takes_the_place_of_its_node() -> None:
    branches = {
        name: helper.make_graph(
            [NODE(op, ["x"], [f"{op}_y"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{op}_y", TensorProto.UNDEFINED, None)],
        )
        for name, op in (("then_branch", "Abs"), ("else_branch", "Neg"))
    }
    for branch in branches.values():
        branch.output[0].ClearField("type")
    nodes = [
        constant("no", np.False_),
        NODE("Not", ["no"], ["yes"]),
        NODE("If", ["yes"], ["y"], **branches),
    ]
    made = fold_constants(model_of(*nodes))
    assert [node.op_type for node in made.functions[0].node] == ["Abs"]


def test_what_the_caller_gives_is_not_known() -> None:
    leak = NODE("LeakyRelu", ["minus"], ["leaked"])
    leak.attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    scale = NODE("Constant", [], ["scale"])
    scale.attribute.add(name="value_float", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    nodes = [
        constant("one", np.float32(1)),
        NODE("Neg", ["one"], ["minus"]),
        leak,
        scale,
        NODE("Mul", ["leaked", "scale"], ["factor"]),
        NODE("CastLike", ["factor", "x"], ["fitting"]),
        NODE("Mul", ["x", "fitting"], ["y"]),
    ]
    model = model_of(*nodes, attributes=("alpha",))
    assert folded(model) == [
        "Constant", "LeakyRelu", "Constant", "Mul", "CastLike", "Mul",
    ]  # fmt: skip
    refers = [
        [attribute.ref_attr_name for attribute in node.attribute]
        for node in fold_constants(copied(model)).functions[0].node
    ]
    assert refers[1:3] == [["alpha"], ["alpha"]]


@pytest.mark.parametrize("passes", [None, 1, 3])
def test_passes_bound_what_they_bound_in_the_graph(passes: int | None) -> None:
    nodes = [
        constant("one", np.float32(1)),
        NODE("Neg", ["one"], ["minus"]),
        NODE("CastLike", ["minus", "x"], ["fitting"]),
        NODE("Mul", ["x", "fitting"], ["y"]),
    ]
    made = fold_constants(model_of(*nodes), num_passes=passes)
    assert [node.op_type for node in made.functions[0].node] == ["Constant", "CastLike", "Mul"]


def test_a_function_in_which_nothing_is_constant_stays_as_it_is() -> None:
    nodes = [
        constant("one", np.float32(1)),
        NODE("CastLike", ["one", "x"], ["c"]),
        NODE("Add", ["x", "c"], ["y"]),
    ]
    nodes[0].doc_string = "unit"
    model = model_of(*nodes)
    assert fold_constants(copied(model)).functions[0] == model.functions[0]


def test_the_constants_of_all_functions_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "EXPANSION_LIMIT_MB", 1)
    nodes = [
        constant("size", np.array([200_000])),
        NODE("ConstantOfShape", ["size"], ["zeros"]),
        NODE("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        NODE("CastLike", ["sum", "x"], ["fitting"]),
        NODE("Add", ["x", "fitting"], ["y"]),
    ]
    model = model_of(*nodes)
    for index in range(3):
        model.functions.add().CopyFrom(model.functions[0])
        model.functions[-1].name = f"G{index}"
    made = fold_constants(model)
    kept = [
        [node.op_type for node in each.node].count("ConstantOfShape") for each in made.functions
    ]
    assert kept == [0, 1, 1, 1]
