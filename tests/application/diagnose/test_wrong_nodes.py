"""Which nodes compute something else."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.application.diagnose.backend_culprits import culprit_at
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.application.diagnose.wrong_nodes import (
    WrongNodes,
    compare_isolated_nodes,
    judge_tensor,
    recheck_place,
    wrong_regions,
)
from polygraphy.binding import resolve
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from tests.support.diagnosis.diagnosis_cases import network


def test_an_approximation_is_no_fault_where_one_element_is_all_that_is_large() -> None:
    """As an exponential in a Softmax over many classes."""
    right = np.full(6000, 1e-6, np.float32)
    right[7] = 0.98
    near, wrong = right.copy(), right.copy()
    near[7] += np.float32(2e-5)
    wrong[9] += np.float32(2e-5)
    assert judge_tensor(near, right, 0.0).is_wrong is False
    found = judge_tensor(wrong, right, 0.0)
    assert found.is_wrong
    assert found.where == (9,)


def test_constants_of_a_mask_hide_no_error_beside_them() -> None:
    draw = np.random.default_rng(0)
    right = draw.standard_normal((16, 16)).astype(np.float32)
    right[:4, :4] = -1e9
    wrong = right.copy()
    wrong[9, 3] += np.float32(5.0)
    found = judge_tensor(wrong, right, 0.0, "Where")
    assert found.is_wrong
    assert found.where == (9, 3)
    assert found.relative > 1
    near = right * np.float32(1 + 2**-22)
    assert not judge_tensor(near, right, 0.0, "Where").is_wrong


def test_a_function_that_lies_below_one_is_as_precise_as_one() -> None:
    """As the sigmoid of ONNX Runtime, which is 0 from -18 on."""
    right = np.full(600, 1e-8, np.float32)
    assert judge_tensor(np.zeros_like(right), right, 0.0, "Sigmoid").is_wrong is False
    assert judge_tensor(np.zeros_like(right), right, 0.0, "Exp").is_wrong is True
    assert judge_tensor(right + np.float32(1e-6), right, 0.0, "Sigmoid").is_wrong is True


class QuantizesEarlier(OnnxParty):
    """Runs a graph in which what lies beyond the steps is cut off before a tensor is made."""

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        made.graph.node[0].output[0] = "wide"
        made.graph.node.insert(1, helper.make_node("Clip", ["wide", "low", "high"], ["e"], "clip"))
        return made


@pytest.mark.parametrize("read_by_another", [False, True])
def test_what_is_cut_off_before_it_is_quantized_is_no_fault(read_by_another: bool) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("QuantizeLinear", ["e", "scale", "zero"], ["q"], "quantize"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], "dequantize"),
        helper.make_node("Add", ["d", "e" if read_by_another else "d"], ["y"], "add"),
    ]
    weights = {"scale": 0.02, "low": 0.0, "high": 5.1}
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.float32(value), name) for name, value in weights.items()]
        + [numpy_helper.from_array(np.uint8(0), "zero")],
    )
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opset)
    party = QuantizesEarlier()
    opened = open_model(model)
    case = Case(opened, "MODEL", [party], resolve(DiagnosisReports), None)
    feed = {"x": np.linspace(0, 4, 6, dtype=np.float32).reshape(2, 3)}
    found = wrong_regions(case, party, trace_tensors(case, OnnxParty(), feed))
    assert [place.tensor for place in found] == (["e"] if read_by_another else [])


@pytest.mark.parametrize(("off", "runs"), [(0.0, 1), (0.1, 3)])
def test_what_rounding_does_to_nodes_alone_is_computed_only_where_one_is_wrong(
    off: float, runs: int
) -> None:
    class Party(OnnxParty):
        count = 0

        def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
            compute = super().load(model)

            def counted(feed: Any) -> Any:
                self.count += 1
                return {name: each + np.float32(off) for name, each in compute(feed).items()}

            return counted

    opened = open_model(network())
    party, feed = Party(), {"x": np.random.default_rng(1).random((3, 6), np.float32)}
    case = Case(opened, "m.onnx", [party], resolve(DiagnosisReports))
    made = compare_isolated_nodes(case, opened, party, trace_tensors(case, OnnxParty(), feed))
    assert (bool(made.wrong), party.count) == (off > 0, runs)


class RunsAsOne(OnnxParty):
    """Runs the whole model as one operator; two casts in a row are left out there."""

    rewrites = True

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        del made.graph.node[:]
        function = helper.make_function(
            "of.this",
            "Fused",
            ["x"],
            ["y"],
            [each for each in model.graph.node if each.op_type != "Cast"],
            [*model.opset_import],
        )
        for each in function.node:
            each.input[:] = ["a" if name == "c" else name for name in each.input]
        made.functions.append(function)
        made.opset_import.add(domain="of.this", version=1)
        made.graph.node.append(helper.make_node("Fused", ["x"], ["y"], "fused", domain="of.this"))
        return made

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        casts = [node for node in model.graph.node if node.op_type == "Cast"]
        if plain or len(casts) < 2:
            return super().load(model)
        made = onnx.ModelProto()
        made.CopyFrom(model)
        for node in made.graph.node:
            if node.op_type == "Cast":
                node.attribute[0].i = TensorProto.FLOAT
        for value in made.graph.value_info:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
        return super().load(made)


def test_of_what_is_run_as_one_the_nodes_that_are_wrong_together_are_named() -> None:
    ops = ["Sqrt", "Abs", "Cast", "Cast", "Neg", "Exp"]
    names = ["x", "s", "a", "h", "c", "n", "y"]
    nodes = [helper.make_node(op, [a], [b], b) for op, a, b in zip(ops, names, names[1:])]
    for node, to in ((nodes[2], TensorProto.INT32), (nodes[3], TensorProto.FLOAT)):
        node.attribute.append(helper.make_attribute("to", to))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [6]) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:])
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opset)
    party, opened = RunsAsOne(), open_model(model)
    case = Case(opened, "MODEL", [party], resolve(DiagnosisReports), None)
    feed = {"x": np.linspace(1.3, 30, 6, dtype=np.float32)}
    [place] = wrong_regions(case, party, trace_tensors(case, OnnxParty(), feed))
    assert [*place.region] == [2, 3]
    assert place.tensor == "c"


@pytest.mark.parametrize("times", [0, 1])
def test_a_node_that_is_wrong_alone_now_and_then_is_no_rewrite(times: int) -> None:
    class Unsteady(OnnxParty):
        rewrites, count = True, 0

        def runtime_graph(
            self, model: Any, *, without: Collection[str] = (), level: str | None = None
        ) -> Any:
            return model

        def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
            Unsteady.count += plain
            wrong = not plain or Unsteady.count == 2 * times
            compute = super().load(model)
            return lambda feed: {k: v + np.float32(wrong) for k, v in compute(feed).items()}

    graph = helper.make_graph(
        [helper.make_node("Sin", ["x"], ["y"], "sin")],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])],
    )
    opset = [helper.make_opsetid("", 13)]
    opened = open_model(helper.make_model(graph, ir_version=8, opset_imports=opset))
    party = Unsteady()
    case = Case(opened, "MODEL", [party], resolve(DiagnosisReports), None)
    feed = {"x": np.linspace(0.1, 1, 6, dtype=np.float32)}
    known = trace_tensors(case, OnnxParty(), feed)
    found = WrongNodes(
        [0], "y", judge_tensor(known.values["y"] + 1, known.values["y"], 0.0), fused=True
    )
    assert recheck_place(case, party, known, found).fused is (times == 0)


def test_nodes_that_compute_the_shape_are_no_culprits_of_a_rewrite() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], "shape"),
        helper.make_node("Reshape", ["x", "shape"], ["same"], "reshape"),
        helper.make_node("Sin", ["same"], ["y"], "sin"),
    ]
    ends = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, [6])] for name in "xy")
    graph = helper.make_graph(nodes, "shaped", *ends)
    opset = [helper.make_opsetid("", 13)]
    opened = open_model(helper.make_model(graph, ir_version=8, opset_imports=opset))
    case = Case(opened, "MODEL", [OnnxParty()], resolve(DiagnosisReports), None)
    feed = {"x": np.linspace(0.1, 1, 6, dtype=np.float32)}
    known = trace_tensors(case, OnnxParty(), feed)
    deviation = judge_tensor(known.values["y"] + 1, known.values["y"], 0.0)
    for tensor, region, named in (
        ("y", [0, 1, 2], ["reshape", "sin"]),
        ("shape", [0], ["shape"]),
    ):
        place = WrongNodes(region, tensor, deviation, fused=len(region) > 1)
        assert culprit_at(case, OnnxParty(), place, known).nodes == named
