"""The bodies of a model's own functions in place of their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.graph.inlining import inline_functions, with_branches
from polygraphy.adapters.onnx.run.reference import OnnxReferenceRunner
from polygraphy.domain.errors import ModelError, UnknownNameError
from tests.support.examples import scaled
from tests.support.helpers.called_functions import OWN, block, calling_model, model_of
from tests.support.models import value


def outputs(model: onnx.ModelProto, seed: int = 0) -> Any:
    """Return what ONNX Runtime makes of data, which inlines functions by itself."""
    feed = np.random.default_rng(seed).standard_normal((2, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": feed})[0]


@settings(deadline=None, max_examples=scaled(25))
@given(
    st.permutations(["", "", "", "layer", "attention"]).flatmap(
        lambda names: st.integers(1, 5).map(lambda count: names[:count])
    ),  # ONNX Runtime refuses a model with two nodes of one name.
    st.integers(0, 99),
)
def test_the_model_stays_the_same(names: list[str], seed: int) -> None:
    model = calling_model(*names)
    made = inline_functions(model)
    onnx.checker.check_model(made, full_check=True)
    assert not made.functions
    assert model.functions
    assert {node.domain for node in made.graph.node} == {""}
    expected = outputs(model, seed)
    np.testing.assert_allclose(outputs(made, seed), expected, rtol=1e-5, atol=1e-5)
    with OnnxReferenceRunner(model) as runner:
        feed = np.random.default_rng(seed).standard_normal((2, 4)).astype(np.float32)
        np.testing.assert_allclose(runner.infer({"x": feed})["y"], expected, rtol=1e-4, atol=1e-4)
    tensors = [name for node in made.graph.node for name in node.output]
    assert len(tensors) == len(set(tensors))


def test_nodes_are_called_by_their_calls() -> None:
    nodes = {
        node.name: node
        for node in inline_functions(calling_model("layer", "")).graph.node
        if node.name
    }
    assert {"layer/product", "layer/elu", "y/first/product", "y/second/elu"} <= nodes.keys()
    alphas = [nodes[f"{call}/elu"].attribute[0].f for call in ("layer", "y/first", "y/second")]
    assert np.allclose(alphas, [0.5, 0.3, 0.5])
    branch = nodes["layer/choice"].attribute[0].g
    assert branch.node[0].name.startswith("layer/")
    assert branch.node[0].input[0] == nodes["layer/elu"].output[0] == "layer/e"


def test_a_model_without_functions_is_left_alone() -> None:
    model = calling_model("layer")
    del model.functions[:]
    assert inline_functions(model) is model


def test_an_operand_may_be_left_out_or_handed_on() -> None:
    body = [helper.make_node("Clip", ["a", "low", ""], ["c"])]
    imports = [helper.make_opsetid("", 17)]
    function = helper.make_function(OWN, "Bound", ["a", "low"], ["c", "a"], body, imports)
    call = helper.make_node("Bound", ["x"], ["clipped", "same"], name="bound", domain=OWN)
    model = model_of([call, helper.make_node("Add", ["clipped", "same"], ["y"])], [function])
    made = inline_functions(model)
    onnx.checker.check_model(made, full_check=True)
    feed = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    assert np.array_equal(outputs(made), 2 * feed)


def test_a_function_of_another_opset_stays() -> None:
    model = calling_model("layer")
    model.functions[0].CopyFrom(block(opset=13))
    made = inline_functions(model)
    assert [node.op_type for node in made.graph.node] == ["Block"]
    assert len(made.functions) == 2


def test_a_function_that_calls_itself_is_refused() -> None:
    again = helper.make_node("Block", ["a", "w"], ["z"], domain=OWN)
    model = model_of(
        [helper.make_node("Block", ["x", "w0"], ["y"], domain=OWN)], [block(body=[again])]
    )
    with pytest.raises(ModelError, match="calls itself"):
        inline_functions(model)


def test_one_call_of_a_function_may_stay_in_float32() -> None:
    from polygraphy.backend.onnx import ConvertToFp16

    model = calling_model("a", "b", "c")
    made = ConvertToFp16(model, keep_nodes=["b/first/product"])()
    types = {
        info.name: info.type.tensor_type.elem_type
        for info in onnx.shape_inference.infer_shapes(made).graph.value_info
    }
    by_name = {node.name: node for node in made.graph.node}
    assert types[by_name["b/first/product"].output[0]] == TensorProto.FLOAT
    assert types[by_name["a/product"].output[0]] == TensorProto.FLOAT16
    with pytest.raises(UnknownNameError, match="b/third"):
        ConvertToFp16(model, keep_nodes=["b/third"])()


def choosing(depth: int, hands_on: Sequence[str], same_names: bool) -> onnx.ModelProto:
    """Return a model of two If nodes, one after the other, each with others in its branches, whose
    branches end in what a node, an operand or a weight is.
    """

    def branch(prefix: str, level: int, side: str, reads: str) -> onnx.GraphProto:
        own = f"{prefix}{side}{level}"
        held = np.random.default_rng(len(own) + level).standard_normal((2, 4)).astype(np.float32)
        nodes = [helper.make_node("Mul", [reads, f"{own}_w"], [f"{own}_m"], f"{own}_scale")]
        last = f"{own}_m"
        if level < depth:
            nodes.append(choice(prefix + side, level + 1, last, f"{own}_c"))
            last = f"{own}_c"
        nodes.append(helper.make_node("Tanh", [last], [f"{own}_t"]))
        kind = hands_on[level % len(hands_on)]
        handed = {"node": f"{own}_t", "operand": reads, "weight": f"{own}_w"}[kind]
        outputs = [value(f"{own}_t", [2, 4])]
        if handed == f"{own}_t":
            return helper.make_graph(
                nodes, own, [], outputs, [numpy_helper.from_array(held, f"{own}_w")]
            )
        nodes.append(helper.make_node("Add", [handed, f"{own}_t"], [f"{own}_s"], f"{own}_sum"))
        return helper.make_graph(
            nodes,
            own,
            [],
            [value(handed if kind == "weight" else f"{own}_s", [2, 4])],
            [numpy_helper.from_array(held, f"{own}_w")],
        )

    def choice(prefix: str, level: int, reads: str, makes: str) -> onnx.NodeProto:
        sides = {f"{side}_branch": branch(prefix, level, side, reads) for side in ("then", "else")}
        return helper.make_node("If", ["low"], [makes], f"{makes}_if", **sides)

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Less", ["top", "one"], ["low"]),
        choice("", 0, "x", "between"),
        choice("" if same_names else "other", 0, "between", "y"),
    ]
    weights = [numpy_helper.from_array(np.float32(1.4), "one")]
    graph = helper.make_graph(
        nodes, "choosing", [value("x", [2, 4])], [value("y", [2, 4])], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(deadline=None, max_examples=scaled(40))
@given(
    st.integers(0, 2),
    st.lists(st.sampled_from(("node", "operand", "weight")), min_size=1, max_size=3),
    st.booleans(),
    st.integers(0, 99),
)
def test_branches_that_are_taken_compute_the_same(
    depth: int, hands_on: list[str], same_names: bool, seed: int
) -> None:
    model = choosing(depth, hands_on, same_names)
    before = model.SerializeToString()
    feed = np.random.default_rng(seed).standard_normal((2, 4)).astype(np.float32)
    made = model
    for _ in range(depth + 1):
        made = with_branches(made, {"low": bool(feed.max() < np.float32(1.4))})
    assert model.SerializeToString() == before
    assert "If" not in {node.op_type for node in made.graph.node}
    onnx.checker.check_model(made, full_check=True)
    assert np.array_equal(outputs(made, seed), outputs(model, seed))
    names = [node.name for node in made.graph.node if node.name]
    assert len(names) == len(set(names))
    side = "then" if feed.max() < np.float32(1.4) else "else"
    assert {f"{side}0_scale", f"{side}0_t"} <= set(names)


def test_a_branch_stays_whose_condition_is_not_known() -> None:
    model = choosing(1, ["node"], same_names=False)
    assert with_branches(model, {"another": True}) is model
