"""What a model lacks or has too much of is taken from a reference."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.edit.copying import restore_differences
from polygraphy.binding import function_for
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.two_models import plan_copies, suspects
from polygraphy.domain.model import EVERYTHING, ModelSource
from polygraphy.ports.models import describe_file


def network(**changes):
    """A product, a bias and an activation, with other names where `prefix` says so."""
    p = changes.get("prefix", "")
    rng = np.random.default_rng(0)
    held = {f"{p}w": rng.standard_normal((3, 3)) * changes.get("scale", 1), f"{p}b": rng.random(3)}
    nodes = [
        helper.make_node("MatMul", ["x", f"{p}w"], [f"{p}m"]),
        helper.make_node("Add", [f"{p}m", f"{p}b"], [f"{p}a"]),
        helper.make_node("Tanh", [f"{p}a"], [f"{p}t"]),
        helper.make_node("Sub", ["x", f"{p}t"], ["y"]),
    ]
    if changes.get("bare"):
        del nodes[1]
        nodes[1].input[0] = f"{p}m"
        del held[f"{p}b"]
    if changes.get("swapped"):
        nodes[-1].input[:] = [f"{p}t", "x"]
    if changes.get("extra"):
        nodes[-1:] = [
            helper.make_node("Neg", [f"{p}t"], [f"{p}n"]),
            helper.make_node("Sub", ["x", f"{p}n"], ["y"]),
        ]
    weights = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in held.items()]
    if changes.get("constants"):
        nodes = [
            *(helper.make_node("Constant", [], [w.name], value=w) for w in weights),
            *nodes,
        ]
        weights = []
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def graph_of(model, folder):
    onnx.save(model, folder / "model.onnx")
    return function_for(describe_file, "onnx")(
        ModelSource(str(folder / "model.onnx")), EVERYTHING
    ).graph


def run(model):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": np.random.default_rng(3).random((2, 3), dtype=np.float32)})[0]


@pytest.mark.parametrize("prefix", ["", "other."], ids=["same names", "other names"])
@pytest.mark.parametrize("constants", [False, True], ids=["initializers", "constants"])
@pytest.mark.parametrize("fault", ["bare", "swapped", "extra", "scale"])
def test_a_mended_model_computes_what_the_reference_does(tmp_path, fault, constants, prefix):
    wrong = network(**{fault: 1.5 if fault == "scale" else True})
    right = network(prefix=prefix, constants=constants)
    before = wrong.SerializeToString(deterministic=True)
    pairing = pair_graphs(graph_of(wrong, tmp_path), graph_of(right, tmp_path))
    plan = plan_copies(pairing, suspects(pairing))
    made = restore_differences(wrong, right, plan)
    onnx.checker.check_model(made)
    assert not np.allclose(run(wrong), run(right))
    np.testing.assert_allclose(run(made), run(right), rtol=1e-6)
    assert wrong.SerializeToString(deterministic=True) == before


def test_only_what_is_named_is_taken_from_the_reference(tmp_path):
    """One node differs in both weights and two attributes; each is a difference of its own."""

    def gemm(scale, alpha, beta):
        weights = {"w": np.full((3, 3), scale), "b": np.full(3, scale)}
        node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], "gemm", alpha=alpha, beta=beta)
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [node],
            "net",
            [value("x", TensorProto.FLOAT, [2, 3])],
            [value("y", TensorProto.FLOAT, [2, 3])],
            [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    wrong, right = gemm(2.0, 0.5, 0.25), gemm(1.0, 1.5, 1.25)
    pairing = pair_graphs(graph_of(wrong, tmp_path), graph_of(right, tmp_path))
    found = suspects(pairing)
    assert len(found) == 4
    [bias] = [one for one in found if one.weights == (("b", "b"),)]
    [alpha] = [one for one in found if one.attribute == "alpha"]
    [node] = restore_differences(wrong, right, plan_copies(pairing, [bias, alpha])).graph.node
    taken = {one.name: one.f for one in node.attribute}
    assert (taken, node.input[1]) == ({"alpha": 1.5, "beta": 0.25}, "w")
    assert node.input[2] != "b"
