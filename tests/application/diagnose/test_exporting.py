"""A model is compared with the program that it was exported from."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np
import onnx
import pytest
from attrs import evolve
from onnx import helper

from polygraphy.adapters.fake import FakeProgram
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.comparisons.other_examples import other_examples
from polygraphy.application.diagnose.diagnosing import diagnose
from polygraphy.application.diagnose.steps.file_of_program import _constant_texts
from polygraphy.backend.onnx import ConvertToFp16
from polygraphy.binding import bind
from polygraphy.comparator import StepLoader
from polygraphy.domain import rounding as judging
from polygraphy.domain.diagnosis.twins import Spot
from polygraphy.domain.errors import InconclusiveError, InputError, UsageError
from polygraphy.domain.model.graph import Node
from polygraphy.ports.diagnosing import Decision
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.examples import spread
from tests.support.facts import facts_of
from tests.support.models import make, value

RANDOM = np.random.default_rng(2)
WEIGHT = RANDOM.normal(size=(6, 6)).astype(np.float32)
SIDE = 128
FEED = {"x": RANDOM.normal(size=(3, 6)).astype(np.float32)}


def _leaky(x: Any) -> Any:
    return np.where(x > 0, x, x * np.float32(0.1)).astype(x.dtype)


PROGRAM = FakeProgram(
    ["x"],
    {
        "matmul": ("aten.matmul", ["x", "weight"], np.matmul),
        "leaky_relu": ("aten.leaky_relu", ["matmul"], _leaky),
        "add": ("aten.add", ["leaky_relu", "x"], np.add),
        "tanh": ("aten.tanh", ["add"], np.tanh),
        "mul": ("aten.mul", ["tanh", "matmul"], np.multiply),
    },
    ["mul"],
    {"weight": WEIGHT},
)


def exported(
    names: Mapping[str, str] | None = None, weight: Any = WEIGHT, **alpha: Any
) -> onnx.ModelProto:
    """Return what an exporter makes of the program; `names` are those of tensors in it."""
    called = {"weight": "w", **{name: name for name in PROGRAM.steps}, "x": "x", **(names or {})}

    def node(op: str, reads: list[str], made: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(
            op, [called[name] for name in reads], [called[made]], name=f"node_{made}", **attributes
        )

    nodes = [
        node("MatMul", ["x", "weight"], "matmul"),
        node("LeakyRelu", ["matmul"], "leaky_relu", **(alpha or {"alpha": 0.1})),
        node("Add", ["leaky_relu", "x"], "add"),
        node("Tanh", ["add"], "tanh"),
        node("Mul", ["tanh", "matmul"], "mul"),
    ]
    y = value(called["mul"], [3, 6])
    return make("exported", nodes, [value(called["x"], [3, 6])], [y], weights={"w": weight})


LOST = {name: f"val_{index}" for index, name in enumerate(PROGRAM.steps)}
"""Names that say nothing."""
SHIFTED = {"leaky_relu": "add", "add": "leaky_relu", "tanh": "mul", "mul": "tanh"}
"""Names that other tensors of the program have."""


def found(
    model: onnx.ModelProto,
    program: FakeProgram = PROGRAM,
    feed: Any = None,
    party: Any = None,
    **options: Any,
) -> Kept:
    kept = Kept()
    with bind(Findings, kept):
        try:
            diagnose(model, [party or OnnxrtParty()], [feed or FEED], program=program, **options)
        except InconclusiveError:
            assert kept.verdict == "inconclusive"
    return kept


@pytest.mark.parametrize("names", [None, LOST, SHIFTED])
def test_nobody_is_blamed_for_a_model_that_computes_the_same(names: Any) -> None:
    assert found(exported(names)).verdict == "agree"


@pytest.mark.parametrize("names", [None, LOST, SHIFTED])
def test_a_lost_attribute_is_the_fault_of_the_exporter(names: Any) -> None:
    kept = found(exported(names, alpha=0.3))
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["cause"]) == ("exporter", "attribute")
    assert culprit["nodes"] == ["node_leaky_relu"]
    assert culprit["origin"] == "net.py:2"
    facts = facts_of(culprit)
    became = {"operation": "aten.leaky_relu", "ops": ["LeakyRelu"], "others": []}
    assert facts["export_of_operation"] == {"kind": "export_of_operation", **became}
    assert (facts["other_attribute"]["value"], facts["other_attribute"]["expected"]) == (
        pytest.approx(0.3), 0.1,
    )  # fmt: skip
    assert {"match_with_program_tensors", "framework_is_right"} <= facts.keys()


@pytest.mark.parametrize("names", [None, LOST])
def test_a_weight_that_the_program_has_not_is_told(names: Any) -> None:
    [culprit] = found(exported(names, weight=WEIGHT[::-1])).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["node_matmul"], "weight")
    assert facts_of(culprit)["differing_weight"]["expected"] == ["weight"]


OTHER = RANDOM.normal(size=(6, 6)).astype(np.float32)
WRONG = {
    "transposition": WEIGHT.T,
    "axis_reversal": WEIGHT[:, ::-1],
    "other": OTHER,
    "scale_factor": WEIGHT * np.float32(1.3),
    "": RANDOM.normal(size=(6, 6)).astype(np.float32),
}


def weakly(weight: Any, op: str = "MatMul") -> tuple[onnx.ModelProto, FakeProgram]:
    """Return a program whose result hangs on a weight so little that nothing before it is found
    again in the model, in which the weight is another.
    """
    small = np.float32(2e-3)

    def mixed(x: Any, other: Any) -> Any:
        shares = np.exp(x * x.dtype.type(small))
        return shares / shares.sum(-1, keepdims=True) @ other

    steps = {
        "tanh": ("aten.tanh", ["x"], np.tanh),
        "linear": ("aten.linear", ["tanh", "weight"], lambda x, w: x @ w.T),
        "sin": ("aten.sin", ["linear"], np.sin),
        "mixed": ("aten.mixed", ["sin", "other"], mixed),
    }
    turned = {"transB": 1} if op == "Gemm" else {}
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"], "of tanh"),
        helper.make_node(op, ["a", "w"], ["b"], "of linear", **turned),
        helper.make_node("Sin", ["b"], ["c"], "of sin"),
        helper.make_node("Mul", ["c", "small"], ["d"], "of small"),
        helper.make_node("Softmax", ["d"], ["e"], "of shares", axis=-1),
        helper.make_node("MatMul", ["e", "o"], ["y"], "of mixed"),
    ]
    held = {"w": np.ascontiguousarray(weight if turned else np.transpose(weight))}
    held |= {"o": OTHER, "small": small}
    model = make("weak", nodes, [value("x", [3, 6])], [value("y", [3, 6])], weights=held)
    return model, FakeProgram(["x"], steps, ["mixed"], {"weight": WEIGHT, "other": OTHER})


@pytest.mark.parametrize(("wrong", "op"), spread(product(WRONG, ["MatMul", "Gemm"]), 5))
@pytest.mark.slow
def test_the_weight_is_named_of_many_nodes_between_which_nothing_is_known(
    wrong: str, op: str
) -> None:
    [culprit] = found(*weakly(WRONG[wrong], op)).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["of linear"], "weight")
    assert culprit["origin"] == "net.py:2"
    facts = facts_of(culprit)
    weight = facts["differing_weight"]
    assert (weight["name"], weight["ops"], weight["expected"]) == ("w", [op], ["weight"])
    relation = weight["relation"]
    assert wrong == (weight["actual"] if relation is None else relation["kind"])
    assert "weights_restored" in facts


def test_a_weight_that_two_nodes_read_is_one_culprit() -> None:
    model, program = weakly(WEIGHT.T)
    steps = {
        **program.steps,
        "cos": ("aten.cos", ["mixed"], np.cos),
        "linear_1": ("aten.linear", ["cos", "weight"], lambda x, w: x @ w.T),
    }
    model.graph.node.append(helper.make_node("Cos", ["y"], ["f"], "of cos"))
    model.graph.node.append(helper.make_node("MatMul", ["f", "w"], ["z"], "of linear again"))
    model.graph.output[0].name = "z"
    [culprit] = found(model, evolve(program, steps=steps, outputs=["linear_1"])).culprits
    assert culprit["nodes"] == ["of linear", "of linear again"]
    assert culprit["cause"] == "weight"


def _convolved(x: Any, w: Any) -> Any:
    """Return a convolution of 3 by 3 numbers with kernels of 2 by 2."""
    made = np.zeros((1, len(w), 2, 2), x.dtype)
    for i, j in np.ndindex(2, 2):
        made[..., i, j] = np.einsum("nchw,ochw->no", x[:, :, i : i + 2, j : j + 2], w)
    return made


@pytest.mark.parametrize("axes", [(0, 1), (2, 3)])
def test_a_kernel_with_swapped_axes_of_one_size_is_another_weight(axes: tuple[int, int]) -> None:
    kernel = RANDOM.normal(size=(2, 2, 2, 2)).astype(np.float32)
    steps = {
        "view": ("aten.view", ["x"], lambda x: x.reshape(1, 2, 3, 3)),
        "conv": ("aten.conv2d", ["view", "weight"], _convolved),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["g"], "of view"),
        helper.make_node("Conv", ["g", "w"], ["y"], "of conv"),
    ]
    held = {"w": np.ascontiguousarray(kernel.swapaxes(*axes)), "shape": np.array([1, 2, 3, 3])}
    y = value("y", [1, 2, 2, 2])
    model = make("convolved", nodes, [value("x", [3, 6])], [y], weights=held)
    program = FakeProgram(["x"], steps, ["conv"], {"weight": kernel})
    [culprit] = found(model, program).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["of conv"], "weight")
    assert facts_of(culprit)["differing_weight"]["relation"]["kind"] == "other_axis_order"


def test_an_attribute_is_named_where_the_weight_is_that_of_the_module() -> None:
    steps = {"linear": ("aten.linear", ["x", "weight"], lambda x, w: x @ w.T)}
    program = FakeProgram(["x"], steps, ["linear"], {"weight": WEIGHT})
    for held, turned, cause in ((WEIGHT, 0, "attribute"), (WEIGHT.T, 1, "weight")):
        node = helper.make_node("Gemm", ["x", "w"], ["y"], "of linear", transB=turned)
        weights = {"w": np.ascontiguousarray(held)}
        model = make("gemm", [node], [value("x", [3, 6])], [value("y", [3, 6])], weights=weights)
        [culprit] = found(model, program).culprits
        assert (culprit["nodes"], culprit["cause"]) == (["of linear"], cause)


def test_a_weight_that_the_nodes_do_not_read_is_no_difference_of_one_that_they_do() -> None:
    """The model normalizes with the statistics of its data, the program with those it holds."""
    names = ["gain", "offset", "mean"]
    held = {name: RANDOM.normal(size=3).astype(np.float32) for name in names}

    def normalize(x: Any, gain: Any, offset: Any, mean: Any) -> Any:
        return (x - mean[:, None]) * gain[:, None] + offset[:, None]

    steps = {
        "view": ("aten.view", ["x"], lambda x: x.reshape(1, 3, 6)),
        "norm": ("aten.instance_norm", ["view", *names], normalize),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["g"], "of view"),
        helper.make_node("InstanceNormalization", ["g", "gain", "offset"], ["y"], "of norm"),
    ]
    own = {"gain": held["gain"], "offset": held["offset"], "shape": np.array([1, 3, 6])}
    y = value("y", [1, 3, 6])
    model = make("normalized", nodes, [value("x", [3, 6])], [y], weights=own)
    [culprit] = found(model, FakeProgram(["x"], steps, ["norm"], held)).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["of norm"], "structure")
    assert facts_of(culprit)["unused_weight"]["name"] == "mean"


def scaled(scale: float) -> tuple[onnx.ModelProto, FakeProgram]:
    """Return an operation that becomes two products with the same number."""
    steps = {
        "cos": ("aten.cos", ["x"], np.cos),
        "attention": ("aten.attention", ["cos"], lambda x: x @ x.T * x.dtype.type(0.36)),
    }
    nodes = [
        helper.make_node("Cos", ["x"], ["a"], "of cos"),
        helper.make_node("Mul", ["a", "scale"], ["b"], "of query"),
        helper.make_node("Transpose", ["a"], ["c"], "of turning", perm=[1, 0]),
        helper.make_node("Mul", ["c", "scale"], ["d"], "of key"),
        helper.make_node("MatMul", ["b", "d"], ["y"], "of attention"),
    ]
    held = {"scale": np.float32(scale)}
    model = make("scaled", nodes, [value("x", [3, 6])], [value("y", [3, 3])], weights=held)
    return model, FakeProgram(["x"], steps, ["attention"])


def test_a_number_goes_before_another_operator_that_happens_to_make_the_same() -> None:
    feed = {"x": np.abs(FEED["x"]) * np.float32(0.05) + np.float32(1.45)}
    assert found(*scaled(0.6), feed=feed).verdict == "agree"
    for wrong in (0.36, 0.47, 0.1):  # With the first, Min makes the same of this data.
        [culprit] = found(*scaled(wrong), feed=feed).culprits
        assert (culprit["nodes"], culprit["cause"]) == (["of query", "of key"], "weight")
        facts = facts_of(culprit)
        number = facts["differing_number"]
        assert (number["name"], number["ops"]) == ("scale", ["Mul"])
        assert (number["value"], number["expected"]) == pytest.approx((wrong, 0.6))
        assert "other_operator" not in facts


def test_a_number_that_others_are_made_of_is_not_said_to_be_wrong() -> None:
    model, program = scaled(0.6)
    exp = helper.make_node("Exp", ["number"], ["scale"], "of root")
    model.graph.node.insert(0, exp)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.float32(0.36), "number"))
    [culprit] = found(model, program).culprits
    assert culprit["cause"] == "translation"
    assert "differing_number" not in facts_of(culprit)


def test_an_operator_is_named_where_its_number_is_that_of_the_program() -> None:
    steps = {"div": ("aten.div", ["x", "c"], np.divide), "tanh": ("aten.tanh", ["div"], np.tanh)}
    nodes = [
        helper.make_node("Mul", ["x", "c"], ["a"], "of div"),
        helper.make_node("Tanh", ["a"], ["y"], "of tanh"),
    ]
    held = {"c": np.float32(1.7)}
    model = make("divided", nodes, [value("x", [3, 6])], [value("y", [3, 6])], weights=held)
    [culprit] = found(model, FakeProgram(["x"], steps, ["tanh"], held)).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["of div"], "translation")
    operator = facts_of(culprit)["other_operator"]
    assert (operator["op"], operator["expected"]) == ("Mul", "Div")


def test_several_faults_are_found_where_names_say_nothing() -> None:
    model = exported(LOST, alpha=0.3)
    model.graph.node[3].op_type = "Sigmoid"
    kept = found(model)
    assert [one["nodes"] for one in kept.culprits] == [["node_leaky_relu"], ["node_tanh"]]
    assert {one["party"] for one in kept.culprits} == {"exporter"}


def test_an_operator_among_folded_weights_is_the_cause_and_named_alone() -> None:
    c, d, h = (np.linspace(1, 2, 6, dtype=np.float32) * each for each in (1e-4, 0.5, 0.5))
    steps = {
        "relu": ("aten.relu", ["x"], lambda x: np.maximum(x, 0)),
        "mul": ("aten.mul", ["relu", "c"], np.multiply),
        "mul_1": ("aten.mul", ["mul", "d"], np.multiply),
        "gate": ("aten.add", ["mul_1", "h"], np.add),
        "sub": ("aten.sub", ["gate", "h"], np.subtract),
        "y": ("aten.mul", ["sub", "x"], lambda s, x: s * x * s.dtype.type(1e4)),
    }
    program = FakeProgram(["x"], steps, ["y"], {"c": c, "d": d, "h": h})
    nodes = [
        helper.make_node("Softplus", ["x"], ["v0"], name="of relu"),
        helper.make_node("Mul", ["v0", "folded"], ["v1"], name="of mul"),
        helper.make_node("Add", ["v1", "h"], ["v2"], name="of gate"),
        helper.make_node("Sub", ["v2", "h"], ["v3"], name="of sub"),
        helper.make_node("Mul", ["v3", "x"], ["v4"], name="of y"),
        helper.make_node("Mul", ["v4", "k"], ["v5"], name="of y again"),
    ]
    held = {"folded": c * d, "h": h, "k": np.float32(1e4)}
    model = make("gated", nodes, [value("x", [3, 6])], [value("v5", [3, 6])], weights=held)
    [culprit] = found(model, program).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["of relu"], "translation")


def unlike(shape: tuple[int, int]) -> FakeProgram:
    """Return a program of another network, with weights of a shape."""
    weight = RANDOM.normal(size=shape).astype(np.float32)
    steps = {
        "matmul": ("aten.matmul", ["x", "weight"], np.matmul),
        "cos": ("aten.cos", ["matmul"], np.cos),
        "exp": ("aten.exp", ["cos"], np.exp),
        "sub": ("aten.sub", ["exp", "cos"], np.subtract),
        "sum": ("aten.sum", ["sub"], lambda x: x[:, :6] * 3),
    }
    return FakeProgram(["x"], steps, ["sum"], {"weight": weight})


@pytest.mark.slow
@pytest.mark.parametrize("names", [None, LOST])
def test_a_program_of_another_network_is_told_rather_than_paired_in_order(names: Any) -> None:
    said = "The model was not exported from this program: .* 1 of 1 weight differs in size"
    with pytest.raises(UsageError, match=said):
        found(exported(names), unlike((6, 9)))
    assert found(exported(names), unlike((6, 6))).culprits, "it may be the same of another state"


def test_a_program_of_one_operation_whose_weight_and_result_do_not_fit_is_told() -> None:
    other = {"linear": ("aten.linear", ["x", "weight"], np.matmul)}
    program = FakeProgram(["x"], other, ["linear"], {"weight": np.ones((6, 7), np.float32)})
    with pytest.raises(UsageError, match="was not exported from this program"):
        found(exported(LOST), program)


def test_another_export_that_is_right_is_the_remedy() -> None:
    others = [
        ("worse", "", lambda feed: exported(alpha=0.2)),
        ("better", "do it", lambda feed: exported()),
    ]
    [culprit] = found(exported(alpha=0.3), evolve(PROGRAM, others=others)).culprits
    assert culprit["remedy"] == {"command": "do it", "proven": True, "note": "", "facts": []}
    broken = [("broken", "", lambda feed: 1 / 0)]
    [culprit] = found(exported(weight=WEIGHT * 2), evolve(PROGRAM, others=broken)).culprits
    assert culprit["remedy"]["command"] is None
    assert "No other export is known" in culprit["remedy"]["note"]


def test_a_tensor_beside_it_of_the_same_value_is_no_counterpart() -> None:
    steps = {
        "sin": ("aten.sin", ["x"], np.sin),
        "cos": ("aten.cos", ["x"], np.cos),
        "sub": ("aten.sub", ["sin", "x"], np.subtract),
        "mul": ("aten.mul", ["sub", "cos"], np.multiply),
    }
    nodes = [
        helper.make_node("Cos", ["x"], ["a"], name="of sin"),
        helper.make_node("Cos", ["x"], ["b"], name="of cos"),
        helper.make_node("Sub", ["a", "x"], ["c"], name="of sub"),
        helper.make_node("Mul", ["c", "b"], ["y"], name="of mul"),
    ]
    model = make("cosines", nodes, [value("x", [3, 6])], [value("y", [3, 6])])
    [culprit] = found(model, FakeProgram(["x"], steps, ["mul"])).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["of sin"], "translation")


def rotary(wrong: int) -> tuple[onnx.ModelProto, FakeProgram]:
    """Return a program that turns queries and keys by the same angles, each with tables of its own,
    and its export with a cosine for a sine, or a sine for a cosine, in one of the four tables.
    """
    steps: dict[str, Any] = {}
    nodes = []
    tables = ["Sin", "Cos"] * 2
    tables[wrong] = tables[wrong ^ 1]
    functions = {"mul": np.multiply, "sin": np.sin, "cos": np.cos, "add": np.add}

    def step(op: str, reads: list[str], made: str, becomes: str = "") -> None:
        steps[made] = (f"aten.{op}", reads, functions[op])
        given = [f"m_{name}" if name in steps else name for name in reads]
        nodes.append(
            helper.make_node(becomes or op.title(), given, [f"m_{made}"], name=f"of {made}")
        )

    for each, scale in (("q", "two"), ("k", "three")):
        step("mul", ["grid", "speed"], f"angle_{each}")
        step("sin", [f"angle_{each}"], f"sin_{each}", tables.pop(0))
        step("cos", [f"angle_{each}"], f"cos_{each}", tables.pop(0))
        step("mul", ["x", scale], f"plain_{each}")
        step("mul", [f"plain_{each}", f"cos_{each}"], f"even_{each}")
        step("mul", ["x", f"sin_{each}"], f"odd_{each}")
        step("add", [f"even_{each}", f"odd_{each}"], f"turned_{each}")
    step("mul", ["turned_q", "turned_k"], "attention")
    weights = {name: RANDOM.normal(size=(3, 6)).astype(np.float32) for name in ("two", "three")}
    weights |= {"grid": WEIGHT[:3], "speed": WEIGHT[3:]}
    y = value("m_attention", [3, 6])
    model = make("rotary", nodes, [value("x", [3, 6])], [y], weights=weights)
    return model, FakeProgram(["x"], steps, ["attention"], weights)


@pytest.mark.parametrize("wrong", range(4))
def test_of_tables_with_the_same_values_the_wrong_one_is_named(wrong: int) -> None:
    [culprit] = found(*rotary(wrong)).culprits
    assert culprit["nodes"] == [f"of {('sin_q', 'cos_q', 'sin_k', 'cos_k')[wrong]}"]
    assert (culprit["party"], culprit["cause"]) == ("exporter", "translation")


def test_what_is_read_by_an_operation_of_many_nodes_is_named_without_them() -> None:
    def attention(x: Any) -> Any:
        return x * np.float32(1.02) ** 24

    steps = {
        "sub": ("aten.sub", ["x", "weight"], np.subtract),
        "attention": ("aten.scaled_dot_product_attention", ["sub"], attention),
        "tanh": ("aten.tanh", ["attention"], np.tanh),
    }
    nodes = [helper.make_node("Sub", ["w", "x"], ["a0"], name="of sub")]
    nodes += [helper.make_node("Mul", [f"a{n}", "by"], [f"a{n + 1}"]) for n in range(24)]
    nodes += [helper.make_node("Tanh", ["a24"], ["y"])]
    weights = {"w": WEIGHT[:3], "by": np.float32(1.02)}
    model = make("many", nodes, [value("x", [3, 6])], [value("y", [3, 6])], weights=weights)
    program = FakeProgram(["x"], steps, ["tanh"], {"weight": WEIGHT[:3]})
    [culprit] = found(model, program).culprits
    assert culprit["nodes"] == ["of sub"]


OF_BRANCH = {"tanh": "line 8 asks `x.sum() > 0`"}


def other_branch() -> onnx.ModelProto:
    """Return an export that has something else in place of tanh."""
    model = exported(LOST)
    model.graph.node[3].op_type = "Sigmoid"
    return model


def test_a_branch_that_python_chose_is_a_constant_of_the_example() -> None:
    program = evolve(PROGRAM, again=lambda feed: exported(), branches=OF_BRANCH)
    [culprit] = found(other_branch(), program).culprits
    assert (culprit["party"], culprit["cause"]) == ("exporter", "constant")
    assert any("line 8 asks" in sentence for sentence in culprit["evidence"])
    assert "torch.where" in culprit["remedy"]["note"]
    assert culprit["remedy"]["command"] is None  # Another export has the branch of this data.


@pytest.mark.parametrize("is_tanh", [True, False])
def test_a_file_of_the_other_branch_of_a_statement_is_a_constant_of_the_example(
    is_tanh: bool,
) -> None:
    """Python took the other branch when the file was exported: other nodes, or other weights."""
    decision = Decision("/a/net.py", 8, "line 8 tests `x.sum() > 0`", (1,), True, (0,))
    file = other_branch() if is_tanh else exported(LOST, weight=WEIGHT * 2)
    program = evolve(
        PROGRAM, again=lambda feed: exported(), decided=lambda feed: [decision], otherwise={0: file}
    )
    [culprit] = found(file, program).culprits
    assert (culprit["party"], culprit["cause"]) == ("exporter", "constant")
    assert culprit["origin"] == "net.py:8"
    assert culprit["nodes"] == ["node_tanh" if is_tanh else "node_matmul"]
    assert "torch.where" in culprit["remedy"]["note"]
    looped = evolve(program, decided=lambda feed: [evolve(decision, is_loop=True)])
    [culprit] = found(file, looped).culprits
    assert "number of passes" in culprit["remedy"]["note"]
    [culprit] = found(file, evolve(program, otherwise={0: exported(alpha=0.3)})).culprits
    assert culprit["party"] == "model file"


def test_other_nodes_prove_no_other_program_if_the_example_decides_which_nodes_exist() -> None:
    file = exported(LOST)
    file.graph.node[3].op_type = "Softsign"

    def again(feed: Mapping[str, Any]) -> onnx.ModelProto:
        return exported() if np.array_equal(feed["x"], FEED["x"]) else other_branch()

    kept = found(file, evolve(PROGRAM, again=again))
    assert kept.verdict == "inconclusive"
    assert "decides which nodes" in kept.summary


def test_a_condition_on_the_module_is_no_choice_of_the_example() -> None:
    decision = Decision("/a/net.py", 8, "line 8 tests `self.export`", (1,), False)
    program = evolve(
        PROGRAM,
        again=lambda feed: exported(),
        branches=OF_BRANCH,
        decided=lambda feed: [decision],
    )
    [culprit] = found(other_branch(), program).culprits
    assert (culprit["party"], culprit["nodes"]) == ("model file", ["node_tanh"])


def test_a_file_that_ends_earlier_than_its_program_lacks_the_rest() -> None:
    model = exported(LOST)
    del model.graph.node[2:]
    model.graph.node[1].output[0] = model.graph.output[0].name
    [culprit] = found(model, evolve(PROGRAM, again=lambda feed: exported())).culprits
    assert (culprit["party"], culprit["nodes"]) == ("model file", ["node_leaky_relu"])
    assert "only_in_program" in facts_of(culprit)


def test_an_operation_on_a_tensor_that_is_overwritten_does_not_accuse_the_program() -> None:
    def add(first: Any, second: Any) -> Any:
        return first + second if first.dtype == np.float32 else first

    steps = {**PROGRAM.steps, "add": ("aten.add", ["leaky_relu", "x"], add)}
    for changed, party in (({}, "program"), ({"write": "leaky_relu"}, "exporter")):
        written = {
            name: ("aten.copy_", [target], lambda array: array) for name, target in changed.items()
        }
        program = evolve(PROGRAM, steps={**steps, **written})
        model = exported()
        model.graph.node[2].op_type = "Sub"
        [culprit] = found(model, program).culprits
        assert culprit["party"] == party


def repeated(count: int) -> onnx.ModelProto:
    """Return a model with as many operators as its example has rows."""
    names = ["x", *(f"t{number}" for number in range(count - 1)), "y"]
    nodes = [
        helper.make_node("Tanh", [first], [second], f"of {second}")
        for first, second in pairwise(names)
    ]
    return make("repeated", nodes, [value("x", ["n", 6])], [value("y", ["n", 6])])


def test_as_many_nodes_as_the_example_has_rows_are_a_constant() -> None:
    """A comprehension is no statement that decides; an example of the size of the file shows it."""

    def compute(x: Any) -> Any:
        for _ in x:
            x = np.tanh(x)
        return x

    program = FakeProgram(["x"], {"tanh": ("aten.tanh", ["x"], compute)}, ["tanh"])
    again = evolve(program, again=lambda feed: repeated(len(feed["x"])))
    [culprit] = found(repeated(2), again).culprits
    assert (culprit["party"], culprit["cause"]) == ("exporter", "constant")
    assert "file_of_other_example" in facts_of(culprit)


def test_a_file_is_at_fault_if_the_same_exporter_translates_its_program_correctly() -> None:
    again = evolve(PROGRAM, again=lambda feed: exported())
    [culprit] = found(exported(weight=WEIGHT * 2), again).culprits
    assert (culprit["party"], culprit["cause"]) == ("model file", "weight")
    facts = facts_of(culprit)
    assert (facts["weights_differ"]["count"], facts["weights_differ"]["total"]) == (1, 1)
    assert culprit["remedy"]["command"] is None and "dynamo" not in culprit["remedy"]["note"]
    [culprit] = found(exported(LOST, alpha=0.3), again).culprits
    assert (culprit["party"], culprit["nodes"]) == ("model file", ["node_leaky_relu"])
    assert facts_of(culprit)["other_constant"]["expected"] == "0.1"
    assert culprit["origin"] == "net.py:2"  # Also where the file says nothing.


def test_a_constant_that_several_nodes_read_is_listed_once() -> None:
    def scaled_twice(factor: float) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Mul", ["x", "k"], ["a"], name="first"),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("Mul", ["b", "k"], ["y"], name="second"),
        ]
        ends = [value(name, [3, 6]) for name in "xy"]
        return make("g", nodes, ends[:1], ends[1:], weights={"k": np.float32(factor)})

    program = FakeProgram(
        ["x"],
        {
            "a": ("aten.mul", ["x"], lambda x: x * np.float32(0.6)),
            "b": ("aten.tanh", ["a"], np.tanh),
            "y": ("aten.mul", ["b"], lambda x: x * np.float32(0.6)),
        },
        ["y"],
    )
    again = evolve(program, again=lambda feed: scaled_twice(0.6))
    [culprit] = found(scaled_twice(0.47), again).culprits
    assert culprit["nodes"] == ["first", "second"]
    assert [fact["kind"] for fact in culprit["facts"]].count("other_constant") == 1


def test_a_number_of_the_code_is_no_weight_of_the_program() -> None:
    """It is shown with its value, and the line where the program has it."""
    model, program = scaled(0.47)
    again = evolve(program, again=lambda feed: scaled(0.6)[0])
    [culprit] = found(model, again).culprits
    assert (culprit["party"], culprit["cause"]) == ("model file", "weight")
    facts = facts_of(culprit)
    assert "weights_differ" not in facts
    assert (facts["other_constant"]["value"], facts["other_constant"]["expected"]) == (
        "0.47",
        "0.6",
    )
    assert culprit["origin"] == "net.py:2"


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    return ConvertToFp16(model)()


def test_a_file_in_half_precision_is_compared_in_half_precision() -> None:
    """Casts and rounding make it no export of another program; a different weight does."""
    again = evolve(PROGRAM, again=lambda feed: exported())
    kept = found(half(exported()), again)
    assert (kept.verdict, kept.culprits) == ("agree", [])
    [culprit] = found(half(exported(weight=WEIGHT * 2)), again).culprits
    assert (culprit["party"], culprit["nodes"]) == ("model file", ["node_matmul"])
    assert facts_of(culprit)["weights_differ"]["count"] == 1


@pytest.mark.parametrize("share", [1, 2])
def test_a_file_with_half_inputs_is_compared_with_an_export_in_float32(share: float) -> None:
    """The program was converted before its export: `model.half()`."""

    def product(weight: Any, dtype: Any) -> onnx.ModelProto:
        node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
        x, y = (value(name, [3, 6], helper.np_dtype_to_tensor_dtype(dtype)) for name in "xy")
        return make("product", [node], [x], [y], weights={"w": weight.astype(dtype)})

    program = FakeProgram(
        ["x"], {"y": ("aten.matmul", ["x", "weight"], np.matmul)}, ["y"], {"weight": WEIGHT}
    )
    single, narrow = np.dtype(np.float32), np.dtype(np.float16)
    again = evolve(program, again=lambda feed: product(WEIGHT, single))
    feed = {"x": FEED["x"].astype(narrow)}
    kept = found(product(WEIGHT * share, narrow), again, feed, OnnxParty())
    parties = [(culprit["party"], culprit["cause"]) for culprit in kept.culprits]
    assert parties == ([] if share == 1 else [("model file", "weight")])


def test_half_precision_that_overflows_is_no_fault_of_the_exporter() -> None:
    """The command for the float32 export, which is no file, is advice."""
    model, program = squared()
    again = evolve(program, again=lambda feed: squared()[0])
    large = {"x": FEED["x"] * np.float32(300)}
    [culprit] = found(half(model), again, feed=large, party=OnnxParty()).culprits
    assert (culprit["party"], culprit["cause"]) == ("model", "overflow")
    assert culprit["remedy"]["command"] is None
    assert "polygraphy convert EXPORTED.onnx --fp-to-fp16" in culprit["remedy"]["note"]


def squared() -> tuple[onnx.ModelProto, FakeProgram]:
    """Return a mean of squares, and its program."""
    steps = {
        "matmul": ("aten.matmul", ["x", "weight"], np.matmul),
        "mul": ("aten.mul", ["matmul", "matmul"], np.multiply),
        "mul_1": ("aten.mul", ["mul", "small"], np.multiply),
    }
    held = {"weight": WEIGHT, "small": np.full(6, 1e-4, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["a"], "of matmul"),
        helper.make_node("Mul", ["a", "a"], ["b"], "of square"),
        helper.make_node("Mul", ["b", "small"], ["y"], "of scale"),
    ]
    ends = [value("y", [3, 6]), value("b", [3, 6])]
    model = make("squared", nodes, [value("x", [3, 6])], ends, weights=held)
    return model, FakeProgram(["x"], steps, ["mul_1", "mul"], held)


def test_steps_of_a_quantized_file_are_no_fault_of_the_exporter() -> None:
    """Beside a correct export, the quantization is diagnosed as beside a reference."""
    again = evolve(PROGRAM, again=lambda feed: exported())
    kept = found(quantized(0.03), again)
    assert (kept.verdict, kept.culprits) == ("agree", [])
    [culprit] = found(quantized(0.004), again).culprits
    assert (culprit["party"], culprit["cause"]) == ("model", "clipped range")


def quantized(scale: float) -> onnx.ModelProto:
    """Return the export with an activation in int8."""
    model = exported()
    held = {"step": np.float32(scale), "zero": np.int8(0)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()
    )
    nodes = [
        helper.make_node("QuantizeLinear", ["tanh", *held], ["codes"], "node_codes"),
        helper.make_node("DequantizeLinear", ["codes", *held], ["restored"], "node_restored"),
    ]
    last = model.graph.node[-1]
    last.input[0] = "restored"
    model.graph.node.remove(last)
    model.graph.node.extend([*nodes, last])
    return model


def test_a_weight_is_named_alone_if_other_nodes_compute_the_same() -> None:
    model = exported(weight=WEIGHT * 2)
    model.graph.node[2].input[0] = "copy"
    model.graph.node.insert(2, helper.make_node("Abs", ["leaky_relu"], ["size"], "node_size"))
    model.graph.node.insert(3, helper.make_node("Sign", ["leaky_relu"], ["sign"], "node_sign"))
    model.graph.node.insert(4, helper.make_node("Mul", ["size", "sign"], ["copy"], "node_copy"))
    [culprit] = found(model, evolve(PROGRAM, again=lambda feed: exported())).culprits
    assert (culprit["cause"], culprit["nodes"]) == ("weight", ["node_matmul"])
    assert "weights_restored" in facts_of(culprit)


def test_what_the_same_exporter_makes_wrong_again_is_its_fault() -> None:
    again = evolve(PROGRAM, again=lambda feed: exported(alpha=0.3))
    [culprit] = found(exported(alpha=0.3), again).culprits
    assert culprit["party"] == "exporter"


def test_a_number_that_changes_with_the_example_is_a_constant() -> None:
    """The exporter keeps the largest element of its example."""

    def again(feed: Any) -> onnx.ModelProto:
        return exported(alpha=float(np.abs(feed["x"]).max()))

    def leaky(x: Any) -> Any:
        largest = np.abs(FEED["x"]).max()
        return np.where(x > 0, x, x * largest).astype(x.dtype)

    steps = {**PROGRAM.steps, "leaky_relu": ("aten.leaky_relu", ["matmul"], leaky)}
    [culprit] = found(exported(alpha=0.3), evolve(PROGRAM, again=again, steps=steps)).culprits
    assert (culprit["party"], culprit["cause"]) == ("exporter", "constant")
    assert culprit["nodes"] == ["node_leaky_relu"] and culprit["origin"] == "net.py:2"
    assert "dynamo" not in culprit["remedy"]["note"]


def test_an_input_that_the_model_lacks_is_a_constant_of_the_example() -> None:
    """The program reads a number; the exporter wrote that of its example."""

    def again(feed: Any) -> onnx.ModelProto:
        return exported(alpha=float(feed["slope"]) / 10)

    def leaky(x: Any, slope: Any) -> Any:
        return np.where(x > 0, x, x * slope / 10).astype(x.dtype)

    steps = {**PROGRAM.steps, "leaky_relu": ("aten.leaky_relu", ["matmul", "slope"], leaky)}
    program = evolve(PROGRAM, inputs=["x", "slope"], again=again, steps=steps)
    feed = {**FEED, "slope": np.array(5)}
    [culprit] = found(exported(alpha=0.1), program, feed).culprits
    assert (culprit["party"], culprit["cause"]) == ("exporter", "constant")
    assert culprit["nodes"] == ["node_leaky_relu"]
    assert facts_of(culprit)["lost_inputs"]["names"] == ["slope"]
    assert "int()" in culprit["remedy"]["note"]
    assert found(exported(alpha=0.5), program, feed).verdict == "agree"


def test_a_file_without_what_reads_an_input_is_no_export_of_the_program() -> None:
    """The program scales by an input, which the exported one did not have."""

    def again(feed: Any) -> onnx.ModelProto:
        model = exported()
        model.graph.input.append(value("mask", [3, 6]))
        model.graph.node[3].input[0] = "masked"
        masked = helper.make_node("Mul", ["add", "mask"], ["masked"], name="node_masked")
        model.graph.node.insert(3, masked)
        return model

    steps = {**PROGRAM.steps, "tanh": ("aten.tanh", ["add", "mask"], lambda x, m: np.tanh(x * m))}
    program = evolve(PROGRAM, inputs=["x", "mask"], again=again, steps=steps)
    feed = {**FEED, "mask": np.float32(np.arange(18) % 2).reshape(3, 6)}
    [culprit] = found(exported(), program, feed).culprits
    assert (culprit["party"], culprit["cause"]) == ("model file", "structure")


def test_an_invalid_file_of_training_is_not_the_fault_of_its_node() -> None:
    """The older exporter writes a BatchNormalization with five outputs in training mode."""
    model = exported()
    [tanh] = [node for node in model.graph.node if node.op_type == "Tanh"]
    tanh.op_type = "BatchNormalization"
    for name in ("scale", "bias", "mean", "variance"):
        tanh.input.append(name)
        tanh.output.append(f"{name}_out")
        held = onnx.numpy_helper.from_array(np.ones(6, np.float32), name)
        model.graph.initializer.append(held)
    tanh.attribute.append(helper.make_attribute("training_mode", 1))
    [culprit] = found(model, evolve(PROGRAM, again=lambda feed: exported())).culprits
    assert (culprit["party"], culprit["cause"]) == ("model file", "training")
    assert culprit["nodes"] == ["node_tanh"]


def test_a_large_constant_of_the_example_is_shown_by_an_element_that_differs() -> None:
    table = np.zeros((4, 4))
    table[1, 2] = 0.123456789
    spot = Spot(0, Node("sum", "Add"), "table", table, table * 2, operand=1)
    assert _constant_texts(spot, np.zeros((4, 4))) == [
        "0.123457 at [1, 2]",
        "0.246914 at [1, 2]",
        "0.0 at [1, 2]",
    ]
    spot = evolve(spot, value=np.ones(9), expected=None)
    assert _constant_texts(spot) == ["float64 of shape (9,)", "computed"]
    assert _constant_texts(evolve(spot, operand=None))[1] == "not set"


def test_lengths_that_must_add_up_are_tried_in_another_order() -> None:
    [*_, last] = other_examples({"x": np.ones(2, "f"), "lengths": np.array([4, 4, 1])}, {})
    assert last["lengths"].tolist() == [1, 4, 4] and last["x"].tolist() == [1, 1]


def test_nodes_that_only_the_program_has_are_named_with_their_line() -> None:
    model = exported()
    [tanh] = [node for node in model.graph.node if node.op_type == "Tanh"]
    model.graph.node.remove(tanh)
    model.graph.node[-1].input[0] = tanh.input[0]
    [culprit] = found(model, evolve(PROGRAM, again=lambda feed: exported())).culprits
    assert (culprit["party"], culprit["cause"]) == ("model file", "structure")
    assert facts_of(culprit)["only_in_program"]["origin"] == "net.py:4"
    assert culprit["nodes"] == ["node_mul"]


def test_nodes_inside_one_operation_have_its_line() -> None:
    """Their results are no tensors of the program, unlike that of the last node."""

    def gated(*ops: str) -> onnx.ModelProto:
        names = ["x", *(f"t{index}" for index, _ in enumerate(ops))]
        nodes = [helper.make_node(op, [a], [b]) for op, (a, b) in zip(ops, pairwise(names))]
        nodes.append(helper.make_node("Mul", ["x", names[-1]], ["y"]))
        return make("gated", nodes, [value("x", [3, 6])], [value("y", [3, 6])])

    steps = {"mish": ("aten.mish", ["x"], lambda x: x * np.tanh(np.log1p(np.exp(x))))}
    program = FakeProgram(["x"], steps, ["mish"])
    again = evolve(program, again=lambda feed: gated("Softplus", "Tanh"))
    [culprit] = found(gated("Sigmoid"), again).culprits
    assert (culprit["cause"], culprit["origin"]) == ("structure", "net.py:1")


def test_a_file_of_another_release_is_exported_again_with_this_one() -> None:
    """What an older exporter translates incorrectly is no other program."""
    model = exported()
    model.producer_name, model.producer_version = "pytorch", "2.1.0"
    [node] = [each for each in model.graph.node if each.op_type == "Tanh"]
    node.op_type = "Sigmoid"
    program = evolve(PROGRAM, again=lambda feed: exported(), release="2.13.0")
    [culprit] = found(model, program).culprits
    assert (culprit["party"], culprit["nodes"]) == ("exporter", ["node_tanh"])
    assert "PyTorch 2.13.0" in culprit["remedy"]["note"]


def test_an_operator_that_every_export_has_wrong_is_no_chosen_branch() -> None:
    others = [("dynamo=False", "", lambda feed: other_branch())]
    [culprit] = found(other_branch(), evolve(PROGRAM, others=others, branches=OF_BRANCH)).culprits
    assert culprit["cause"] == "translation"


def test_a_size_that_the_program_takes_from_its_data_is_a_constant_of_the_example() -> None:
    steps = {"reshape": ("aten.view", ["x"], lambda x: x.reshape(x.shape[0], -1, 2))}
    program = FakeProgram(["x"], steps, ["reshape"])
    others = [("dynamo=True", "do it", lambda feed: sized(1))]
    for open_dimensions, command in (({}, None), ({"x": {0: "batch"}}, "do it")):
        made = evolve(program, others=others, open_dimensions=open_dimensions)
        [culprit] = found(sized(9), made).culprits
        assert culprit["cause"] == "constant"
        assert culprit["remedy"]["command"] == command
        assert ("dynamic_shapes" in culprit["remedy"]["note"]) == (command is None)


def sized(rows: int) -> onnx.ModelProto:
    """Return a reshape to so many rows; 1 is as many as there are."""
    shape = np.array([rows if rows > 1 else 3, -1, 2], np.int64)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], "reshape")
    y = value("y", ["a", "b", 2])
    return make("sized", [node], [value("x", [3, 6])], [y], weights={"shape": shape})


@pytest.mark.slow
def test_an_operator_that_makes_much_of_rounding_is_no_fault_of_the_framework() -> None:
    steps = dict(PROGRAM.steps)
    steps["tanh"] = ("aten.sin", ["add"], lambda x: np.sin(x * x.dtype.type(1e4)))
    [culprit] = found(other_branch(), evolve(PROGRAM, steps=steps)).culprits
    assert culprit["party"] == "exporter"


class Frugal(FakeProgram):
    """Holds only what the last operation made."""

    def run(self, feed: Mapping[str, Any], keep: Any = None) -> list[tuple[str, Any]]:
        last = next(iter(feed.values()))
        for tensor, (_, _, compute) in self.steps.items():
            last = compute(last)
            if keep is not None:
                keep(tensor, last)
        return [(tensor, last)]


@pytest.mark.slow
def test_tensors_lie_in_a_file_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_BLOCK", 2048)
    steps: dict[str, Any] = {}
    nodes, before = [], "x"
    for index in range(40):
        op, compute = (("Sin", np.sin), ("Neg", np.negative))[index % 2]
        steps[f"t{index}"] = (f"aten.{op.lower()}", [before], compute)
        wrong = "Cos" if index == 20 else op
        nodes.append(helper.make_node(wrong, [before], [f"t{index}"], f"n{index}"))
        before = f"t{index}"
    model = make("chain", nodes, [value("x", [SIDE, SIDE])], [value(before, [SIDE, SIDE])])
    program = Frugal(["x"], steps, [before])
    feed = {"x": RANDOM.normal(size=(SIDE, SIDE)).astype(np.float32)}
    nbytes = SIDE * SIDE * 4
    runs = []
    for budget in (1 << 40, 12 * nbytes):  # The first imports what is needed.
        runs.append(Kept())
        if len(runs) == 2:
            tracemalloc.start()
        with bind(Findings, runs[-1]):
            diagnose(model, [OnnxParty()], [feed], program=program, memory_budget=budget)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [one["nodes"] for one in runs[0].culprits] == [["n20"]]
    assert runs[0].culprits == runs[1].culprits
    # With all that the program makes held as well, it was 96 times a tensor; now 57 times.
    assert peak < 64 * nbytes


@pytest.mark.slow
def test_a_program_that_computes_otherwise_than_its_operators_is_to_blame_itself() -> None:
    steps = dict(PROGRAM.steps)
    steps["tanh"] = (
        "aten.tanh",
        ["add"],
        lambda x: np.tanh(x) if x.dtype == np.float64 else np.tanh(x) * np.float32(1.1),
    )
    [culprit] = found(exported(), evolve(PROGRAM, steps=steps)).culprits
    assert culprit["party"] == "program"


def test_random_numbers_are_told_before_anything_is_compared() -> None:
    kept = found(exported(alpha=0.3), evolve(PROGRAM, unsteady="It draws random numbers."))
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])


def test_a_closed_program_that_draws_random_numbers_is_told() -> None:
    class Drawing(FakeProgram):
        nodes = ()  # type: ignore[assignment]

        def run(self, feed: Mapping[str, Any], keep: Any = None) -> list[tuple[str, Any]]:
            return [("mul", RANDOM.normal(size=(3, 6)).astype(np.float32))]

    kept = found(exported(), Drawing(["x"], PROGRAM.steps, ["mul"]))
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])


def test_only_outputs_are_compared_of_a_program_that_shows_nothing_else() -> None:
    class Closed(FakeProgram):
        nodes = ()  # type: ignore[assignment]

    closed = Closed(PROGRAM.inputs, PROGRAM.steps, PROGRAM.outputs, PROGRAM.weights)
    assert found(exported(), closed).verdict == "agree"
    assert {one["party"] for one in found(exported(alpha=0.3), closed).culprits} == {"exporter"}


def test_inputs_and_outputs_that_do_not_go_together_are_one_line() -> None:
    with pytest.raises(InputError, match="accepts 2 inputs, not 1"):
        found(exported(), evolve(PROGRAM, inputs=["x", "mask"]))
    with pytest.raises(UsageError, match="no output in common"):
        found(exported(), evolve(PROGRAM, outputs=[]))
    steps = {"all": ("aten.sum", ["x"], np.sum), "rows": ("aten.mean", ["x"], lambda x: x.mean(1))}
    with pytest.raises(UsageError, match=r"no output in common.*all \(\), rows \(3,\)"):
        found(exported(), FakeProgram(["x"], steps, ["all", "rows"]))
    with pytest.raises(UsageError, match="Choose one"):
        found(exported(), golden="saved.json")


def test_a_fixed_dimension_is_told_where_all_matches(capsys: pytest.CaptureFixture[str]) -> None:
    kept = found(exported(), evolve(PROGRAM, open_dimensions={"x": {0: "batch"}}))
    assert kept.verdict == "agree"
    assert "requires shape (3, 6)" in " ".join(capsys.readouterr().out.split())


def test_a_program_runs_the_steps_on_its_own_states_and_the_first_wrong_one_is_searched() -> None:
    factor = np.full(1, 0.5, np.float32)
    program = FakeProgram(
        ["x", "past"],
        {
            "matmul": ("aten.matmul", ["x", "weight"], np.matmul),
            "sum": ("aten.add", ["matmul", "past"], np.add),
            "tanh": ("aten.tanh", ["sum"], np.tanh),
            "mul": ("aten.mul", ["tanh", "factor"], np.multiply),
        },
        ["tanh", "mul"],
        {"weight": WEIGHT, "factor": factor},
    )

    def stateful(scale: float) -> onnx.ModelProto:
        made = [("MatMul", ["x", "w"], "matmul"), ("Add", ["matmul", "past"], "sum"),
                ("Tanh", ["sum"], "y"), ("Mul", ["y", "factor"], "present")]  # fmt: skip
        nodes = [helper.make_node(op, reads, [name], f"n_{name}") for op, reads, name in made]
        ends = [value("x", [1, 6]), value("past", [1, 6])], [value("y", [1, 6])]
        outputs = [*ends[1], value("present", [1, 6])]
        weights = {"w": WEIGHT, "factor": factor * np.float32(scale)}
        return make("stateful", nodes, ends[0], outputs, weights=weights)

    steps = StepLoader(steps=4, states=["present:past"])
    kept = Kept()
    with bind(Findings, kept):
        assert diagnose(stateful(1), [OnnxrtParty()], data_loader=steps, program=program)
        steps = StepLoader(steps=4, states=["present:past"])
        assert not diagnose(stateful(1.3), [OnnxrtParty()], data_loader=steps, program=program)
    [culprit] = kept.culprits
    assert culprit["nodes"] == ["n_present"]
    said = " ".join(culprit["evidence"])
    assert "step 1 is the first wrong step" in said
    assert "'present' is already wrong after step 0" in said
    draws = {**program.steps, "mul": ("aten.rand", [], lambda: RANDOM.random((1, 6), np.float32))}
    with pytest.raises(InconclusiveError):
        random = evolve(program, steps=draws)
        diagnose(stateful(1), [OnnxrtParty()], data_loader=steps, program=random)
    only = evolve(program, outputs=["tanh"])
    with pytest.raises(UsageError, match="no output in common"):
        diagnose(stateful(1), [OnnxrtParty()], data_loader=steps, program=only)
    tanh = ("aten.tanh", ["sum"], lambda x: np.tanh(x) * np.float32(1.0001))
    device = evolve(program, steps={**program.steps, "tanh": tanh}, host=program)
    steps = StepLoader(steps=4, states=["present:past"])
    with bind(Findings, kept):
        assert diagnose(stateful(1), [OnnxrtParty()], data_loader=steps, program=device)
        assert "on the CPU" in kept.summary


def on_device(error: float) -> FakeProgram:
    """Return the program on a device whose function of tanh is less precise by a factor."""
    steps = {
        **PROGRAM.steps,
        "tanh": ("aten.tanh", ["add"], lambda x: (np.tanh(x) * (1 + error)).astype(x.dtype)),
    }
    return evolve(PROGRAM, steps=steps, host=PROGRAM)


@pytest.mark.slow
def test_a_less_precise_device_of_the_program_is_no_fault_of_the_model() -> None:
    kept = found(exported(), on_device(1e-4))
    assert kept.verdict == "agree"
    assert found(exported(), evolve(on_device(1e-4), host=None)).verdict != "agree"
    assert found(exported(), on_device(0.5)).verdict != "agree"


def test_a_wrong_model_is_a_fault_also_if_the_program_runs_on_a_device() -> None:
    [culprit] = found(exported(alpha=0.3), on_device(1e-5)).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["node_leaky_relu"], "attribute")
