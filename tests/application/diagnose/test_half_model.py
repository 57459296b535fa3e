"""Models that compute in half precision as they are, in two backends that round otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.run.half_precision import (
    OnnxNarrowModels,
    narrow_nodes,
    widen_model,
)
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.oracles import against_reference
from polygraphy.backend.onnx import ConvertToFp16
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.culprit import Attempt, DiagnosisResult
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.ports import command_line
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.half_precision_cases import BLAMED, network
from tests.support.models import make, value
from tests.support.parties import command_of_fakes


def found(
    model: onnx.ModelProto, parties: Any = None, reference: onnx.ModelProto | None = None
) -> Kept:
    kept = Kept()
    with bind(Findings, kept):
        try:
            diagnose(model, parties or [OnnxrtParty(), OnnxParty()], reference=reference)
        except InconclusiveError:
            assert kept.verdict == "inconclusive"
    return kept


def half(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    made: onnx.ModelProto = ConvertToFp16(model, **options)()
    return made


@pytest.mark.parametrize("cast_io", [False, True])
def test_a_model_that_works_in_half_precision_agrees(cast_io: bool) -> None:
    kept = found(half(network(None), cast_io=cast_io))
    assert (kept.verdict, kept.culprits) == ("agree", [])


@pytest.mark.parametrize("cause", ["overflow", "underflow", "epsilon"])
def test_what_half_precision_loses_is_named(cause: str) -> None:
    kept = found(half(network(cause)))
    assert kept.verdict == "fault"
    [culprit] = kept.culprits
    assert culprit["nodes"] == [BLAMED[cause]]
    assert (culprit["party"], culprit["cause"]) == ("model", cause)
    assert culprit["remedy"]["command"] is None and culprit["remedy"]["note"]


def test_an_overflow_is_proven_by_keeping_its_node() -> None:
    [culprit] = found(half(network("overflow"))).culprits
    assert culprit["remedy"]["proven"]
    assert "--cast-keep-nodes" in culprit["remedy"]["note"]


def casting() -> onnx.ModelProto:
    """A model that makes infinity of what is too large for float16, and a bound of that."""
    weights = {"far": np.float32(1e5), "low": np.float32(-1e6), "high": np.float32(1e6)}
    weights["back"] = np.float32(1e-5)
    nodes = [
        helper.make_node("Mul", ["x", "far"], ["large"], "enlarge"),
        helper.make_node("Cast", ["large"], ["narrow"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["narrow"], ["wide"], "widen", to=TensorProto.FLOAT),
        helper.make_node("Clip", ["wide", "low", "high"], ["bounded"], "bound"),
        helper.make_node("Mul", ["bounded", "back"], ["y"], "end"),
    ]
    return make("casting", nodes, [value("x", [64])], [value("y", [64])], weights=weights)


class Coarse(OnnxParty):
    """Rounds the last product more coarsely, or not to float16 at all."""

    name = "coarse"

    def __init__(self, is_wide: bool) -> None:
        self.is_wide = is_wide

    def load(self, model: Any, *, plain: bool = False, without: Any = ()) -> Any:
        compute = super().load(widen_model(model) if self.is_wide else model)

        def run(feed: Any) -> Any:
            made = compute({name: np.asarray(array, np.float32) for name, array in feed.items()})
            return {n: a * np.float32(1.00005) if n == "y" else a for n, a in made.items()}

        return run


def test_what_both_backends_lose_is_not_why_they_differ() -> None:
    kept = found(casting(), [Coarse(is_wide=False), OnnxParty()])
    assert (kept.verdict, kept.culprits) == ("agree", [])


SELECTION = """<ir_version: 8, opset_import: ["": 17]> g (float[1,16] x) => (float[8,4] y) {
    h = Cast<to=10>(x) a = MatMul(h, w) b = Reshape(a, s) c = Softmax<axis=2>(b)
    d = ReduceMax<axes=[2], keepdims=0>(c) e = Cast<to=1>(d) top, i = TopK(e, k) j = Squeeze(i, z)
    y = Gather<axis=0>(t, j) }"""


def test_equal_numbers_in_half_precision_that_change_places_are_no_fault() -> None:
    rng = np.random.default_rng(2)
    model = onnx.parser.parse_model(SELECTION)
    weights = {
        "w": rng.normal(size=(16, 512)).astype(np.float16) * np.float16(0.6),
        "s": np.array([1, 256, 2]), "k": np.array([8]), "z": np.array([0]),
        "t": rng.normal(size=(256, 4)).astype(np.float32),
    }  # fmt: skip
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    kept = found(model)
    assert (kept.verdict, kept.culprits) == ("agree", [])


def test_what_one_backend_loses_is_why_they_differ() -> None:
    [culprit] = found(casting(), [Coarse(is_wide=True), OnnxParty()]).culprits
    assert culprit["nodes"] in (["narrow"], ["enlarge"])


def test_a_lost_epsilon_is_named_with_one_backend_that_makes_nan() -> None:
    [culprit] = found(half(network("epsilon")), [OnnxParty()]).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["safe"], "epsilon")


def test_an_epsilon_that_half_precision_rounds_to_zero_is_not_the_advice() -> None:
    def normalizing(epsilon: float, dtype: int) -> onnx.ModelProto:
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        nodes = [
            helper.make_node("ReduceMean", ["x"], ["mean"], "mean", axes=[-1]),
            helper.make_node("Sub", ["x", "mean"], ["d"], "centered"),
            helper.make_node("Mul", ["d", "d"], ["sq"], "squared"),
            helper.make_node("ReduceMean", ["sq"], ["var"], "variance", axes=[-1]),
            helper.make_node("Add", ["var", "eps"], ["safe"], "safe"),
            helper.make_node("Sqrt", ["safe"], ["sd"], "root"),
            helper.make_node("Div", ["d", "sd"], ["y"], "divided"),
        ]
        ends = [helper.make_tensor_value_info(name, dtype, [3, 8]) for name in "xy"]
        weights = {"eps": np.array(epsilon, kind)}
        return make("norm", nodes, ends[:1], ends[1:], weights=weights)

    x = np.random.RandomState(0).randn(3, 8).astype(np.float16)
    x[1] = 0.25
    kept = Kept()
    with bind(Findings, kept):
        reference = normalizing(1e-8, TensorProto.FLOAT)
        model = normalizing(0.0, TensorProto.FLOAT16)
        assert not diagnose(model, [OnnxrtParty()], [{"x": x}], reference=reference)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["safe"], "epsilon")
    assert culprit["remedy"]["command"].endswith(
        "--cast-keep-nodes safe root -o REFERENCE_fp16.onnx"
    )


def test_an_epsilon_that_is_only_coarse_is_not_lost() -> None:
    model = network("epsilon")
    kept = numpy_helper.from_array(np.array([1e-5], np.float32), "kept")
    model.graph.initializer.append(kept)
    at = [node.name for node in model.graph.node].index("relu0")
    relu = model.graph.node[at]
    model.graph.node.insert(at + 1, helper.make_node("Sqrt", ["guarded"], ["rooted"], "rooting"))
    guard = helper.make_node("Add", [relu.output[0], "kept"], ["guarded"], "guard")
    model.graph.node.insert(at + 1, guard)
    for node in model.graph.node:
        if node.name == "add0":
            node.input[1] = "rooted"
    [culprit] = found(half(model)).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["safe"], "epsilon")


def quantized_twice() -> onnx.ModelProto:
    """What ONNX Runtime rewrites wrongly, in float32 as well."""
    weights = {"fine": np.float32(0.02), "coarse": np.float32(0.05), "zero": np.uint8(128)}
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"], "tanh"),
        helper.make_node("QuantizeLinear", ["t", "fine", "zero"], ["q1"], "quantize1"),
        helper.make_node("DequantizeLinear", ["q1", "fine", "zero"], ["d1"], "dequantize1"),
        helper.make_node("QuantizeLinear", ["d1", "coarse", "zero"], ["q2"], "quantize2"),
        helper.make_node("DequantizeLinear", ["q2", "coarse", "zero"], ["d2"], "dequantize2"),
        helper.make_node("Mul", ["d2", "t"], ["y"], "mul"),
    ]
    shape = [4, 16]
    return make("quantized", nodes, [value("x", shape)], [value("y", shape)], weights=weights)


@pytest.mark.slow
def test_a_rewrite_that_is_wrong_in_float32_too_is_named() -> None:
    kept = found(half(quantized_twice()))
    assert {(one["party"], one["rewrite"]) for one in kept.culprits} == {
        ("onnxrt", "DoubleQDQPairsRemover")
    }
    named = {name for one in kept.culprits for name in one["nodes"]}
    assert named <= {"quantize1", "dequantize1", "quantize2", "dequantize2"}


def mixed() -> onnx.ModelProto:
    """One node in float16, with its constants in an attribute, an initializer and a branch."""
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["h"], [f"{op}_out"], op)],
            op,
            [],
            [value(f"{op}_out", [2], TensorProto.FLOAT16)],
        )
        for op in ("Neg", "Abs")
    ]
    constant = numpy_helper.from_array(np.array([2, 3], np.float16))
    nodes = [
        helper.make_node("Constant", [], ["c"], "c", value=constant),
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("Cast", ["e"], ["low"], "low", to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["low", "c"], ["m"], "mul"),
        helper.make_node("Add", ["m", "w"], ["h"], "add"),
        helper.make_node(
            "If", ["is"], ["i"], "if", then_branch=branches[0], else_branch=branches[1]
        ),
        helper.make_node("Cast", ["i"], ["y"], "high", to=TensorProto.FLOAT),
    ]
    weights = {"w": np.array([1, 2], np.float16), "is": np.array(True)}
    return make("mixed", nodes, [value("x", [2])], [value("y", [2])], weights=weights)


def test_the_nodes_that_are_narrow_are_known_also_in_branches() -> None:
    known = narrow_nodes(mixed())
    assert known is not None
    dtype, names = known
    assert dtype == DataType.FLOAT16
    assert set(names) == {"c", "low", "mul", "add", "Neg", "Abs"}
    assert narrow_nodes(network(None)) is None


def test_a_model_in_float32_computes_the_same_without_rounding() -> None:
    model = mixed()
    before = model.SerializeToString(deterministic=True)
    wide = widen_model(model)
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(wide, full_check=True)
    assert narrow_nodes(wide) is None
    assert [n.name for n in wide.graph.node] == [n.name for n in model.graph.node]
    x = np.array([0.3, 0.7], np.float32)
    made = OnnxParty().load(wide)({"x": x})["y"]
    assert made == pytest.approx(-(np.exp(x) * [2, 3] + [1, 2]), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("cast_io", [False, True])
@pytest.mark.parametrize("change", ["weight", "operator", None])
def test_what_else_differs_from_a_float32_reference_is_named(
    change: str | None, cast_io: bool
) -> None:
    right = network(None)
    changed = onnx.ModelProto()
    changed.CopyFrom(right)
    if change == "weight":
        held = numpy_helper.to_array(changed.graph.initializer[2]).copy()
        held[3] *= 5
        changed.graph.initializer[2].CopyFrom(numpy_helper.from_array(held, "w2"))
    if change == "operator":
        next(node for node in changed.graph.node if node.name == "relu2").op_type = "Sigmoid"
    kept = found(half(changed, cast_io=cast_io), [OnnxrtParty()], right)
    if change is None:
        assert (kept.verdict, kept.culprits) == ("agree", [])
        return
    [culprit] = kept.culprits
    assert culprit["nodes"] == ["matmul2" if change == "weight" else "relu2"]
    assert culprit["cause"] == ("weight" if change == "weight" else "structure")
    assert culprit["remedy"]["proven"]


def test_shares_too_small_for_half_precision_are_not_blamed() -> None:
    right = network(None)
    right.graph.node.pop()
    last = right.graph.node[-1].output[0]
    right.graph.initializer.append(numpy_helper.from_array(np.float32(-16), "low"))
    right.graph.node.append(helper.make_node("Add", [last, "low"], ["lowered"], "lower"))
    right.graph.node.append(helper.make_node("Sigmoid", ["lowered"], ["y"], "end"))
    kept = found(half(right), [OnnxrtParty()], right)
    assert (kept.verdict, kept.culprits) == ("agree", [])


def test_nodes_that_a_converter_appended_are_no_fault() -> None:
    model = half(network(None))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes[1:], nodes[0]])
    kept = found(model)
    assert (kept.verdict, kept.culprits) == ("agree", [])


def test_a_backend_that_does_not_round_is_told_apart_from_rounding() -> None:
    lines: list[str] = []

    class Reports:
        def show_attempt(self, attempt: Attempt) -> None:
            lines.append(attempt.result)

        def show_result(self, result: DiagnosisResult) -> None: ...

    weights = {"up": np.float32(1e3), "down": np.float32(1e-3)}
    steps = [("x", "up", "a"), ("a", "up", "b"), ("b", "down", "c"), ("c", "down", "y")]
    nodes = [helper.make_node("Mul", reads, [made], made) for *reads, made in steps]
    model = make("large", nodes, [value("x", [64])], [value("y", [64])], weights=weights)
    with bind(DiagnosisReports, Reports()):
        diagnose(half(model), [Coarse(is_wide=True)], reference=model)
    assert lines[0].startswith("coarse: ")
    assert "With every operator rounded to float16: 1 of 1 output differs" in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("parties", [[OnnxrtParty()], [OnnxrtParty(), OnnxParty()]])
def test_a_cast_that_a_converter_left_is_named_with_the_command_that_casts_its_reference(
    parties: list[Any],
) -> None:
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"], "sum"),
        helper.make_node("Cast", ["count"], ["c"], "left", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["a", "c"], ["y"], "times"),
    ]
    inputs = [value("x", [8]), helper.make_tensor_value_info("count", TensorProto.INT64, [1])]
    weights = {"w": np.linspace(-1, 1, 8, dtype=np.float32)}
    reference = make("float32", nodes, inputs, [value("y", [8])], weights=weights)
    broken = onnx.ModelProto()
    broken.CopyFrom(reference)
    narrow = numpy_helper.from_array(weights["w"].astype(np.float16), "w")
    broken.graph.initializer[0].CopyFrom(narrow)
    for end in (broken.graph.input[0], broken.graph.output[0]):
        end.type.tensor_type.elem_type = TensorProto.FLOAT16
    broken.graph.value_info.append(helper.make_tensor_value_info("c", TensorProto.FLOAT16, [1]))
    kept = found(broken, parties, reference)
    [culprit] = kept.culprits
    assert kept.verdict == "fault"
    assert (culprit["nodes"], culprit["op"]) == (["left"], "Cast")
    assert (culprit["party"], culprit["cause"]) == ("model", "refusal")
    assert culprit["remedy"]["command"].startswith("polygraphy convert ")
    assert culprit["remedy"]["proven"]


def climbing(kind: Any, factor: float = 1e-3) -> onnx.ModelProto:
    """Return products that leave the range of float16 and come back, and a bound."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    names, read = ["x", "b", "d", "e", "g"], ["up", "up", "down", "last"]
    nodes = [helper.make_node("Mul", [a, c], [b], b) for a, b, c in zip(names, names[1:], read)]
    nodes.append(helper.make_node("Tanh", ["g"], ["y"], "y"))
    ends = [[helper.make_tensor_value_info(n, number, [2, 4])] for n in "xy"]
    held = {"up": 1e3, "down": 1e-3, "last": factor}
    weights = [numpy_helper.from_array(np.array(v, kind), n) for n, v in held.items()]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_a_weight_is_named_and_not_an_overflow_that_the_backend_does_not_have() -> None:
    """The backend computes the reference in half precision correctly."""
    kept = Kept()
    data = [{"x": np.linspace(0.2, 1, 8).reshape(2, 4).astype(np.float16)}]
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        diagnose(climbing(np.float16, 3e-4), [OnnxrtParty()], data, climbing(np.float32))
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["g"], "weight")


class Noisy(OnnxrtParty):
    """Computes half precision less precisely than one rounding for each operator."""

    share = 2e-3

    def load(self, model: Any, **options: Any) -> Any:
        compute = super().load(model, **options)
        share = 0.0 if callable(model) or narrow_nodes(model) is None else self.share
        return lambda feed: {n: a * np.float32(1 + share) for n, a in compute(feed).items()}


def with_float32_tail(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with a last product in float32."""
    last = next(node for node in model.graph.node if "y" in node.output)
    last.output[0] = "before"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1.5), "factor"))
    model.graph.node.append(helper.make_node("Mul", ["before", "factor"], ["y"], "tail"))
    return model


def test_outputs_within_the_tolerance_of_half_precision_are_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In float32, the models are equal, but rounding every operator loses less."""
    monkeypatch.setattr(against_reference, "rounding_explains", lambda *args, **options: False)
    model, right = half(network(None), cast_io=False), network(None)
    kept = found(with_float32_tail(model), [Noisy()], with_float32_tail(right))
    assert (kept.verdict, kept.culprits) == ("agree", [])


def test_a_weight_is_rounded_alike_although_only_its_shape_is_read_in_float32() -> None:
    nodes = [
        helper.make_node("Shape", ["w"], ["shape"], "shape"),
        helper.make_node("Expand", ["x", "shape"], ["wide"], "expand"),
        helper.make_node("MatMul", ["wide", "w"], ["y"], "product"),
    ]
    weights = {"w": np.full((4, 4), 0.1, np.float32)}
    model = make("net", nodes, [value("x", [4])], [value("y", [4, 4])], weights=weights)
    narrow = half(model)
    [stored] = [one for one in narrow.graph.initializer if one.name == "w"]
    assert stored.data_type == TensorProto.FLOAT16
    [rounded] = OnnxNarrowModels().widen_model(model, like=narrow).graph.initializer
    assert (numpy_helper.to_array(rounded) == np.float32(np.float16(0.1))).all()


def test_an_overflow_that_a_backend_hides_is_reported_with_the_command_that_finds_it() -> None:
    """ONNX Runtime computes a product of half precision in float32 on a CPU."""

    def hiding(kind: Any) -> onnx.ModelProto:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        names = ["x", "b", "d", "e", "g"]
        nodes = [
            helper.make_node("Mul", [a, c], [b], b)
            for a, b, c in zip(names, names[1:], ["up", "up", "down", "down"])
        ]
        nodes.append(helper.make_node("Tanh", ["g"], ["y"], "y"))
        ends = [[helper.make_tensor_value_info(n, number, [2, 4])] for n in "xy"]
        weights = [
            numpy_helper.from_array(np.array(v, kind), n) for n, v in (("up", 1e3), ("down", 1e-3))
        ]
        graph = helper.make_graph(nodes, "g", *ends, weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])

    kept = Kept()
    data = [{"x": np.linspace(0.2, 1, 8).reshape(2, 4).astype(np.float16)}]
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert diagnose(hiding(np.float16), [OnnxrtParty()], data, hiding(np.float32))
    assert "To find the cause: polygraphy diagnose" in kept.summary


def test_weights_that_only_branches_read_are_rounded_alike() -> None:
    generator = np.random.default_rng(0)
    shapes = {"w1": (8, 64), "w2": (64, 4)}
    body = helper.make_graph(
        [
            *(
                helper.make_node(
                    "Constant",
                    [],
                    [name],
                    name,
                    value=numpy_helper.from_array(
                        generator.standard_normal(shape).astype(np.float32)
                    ),
                )
                for name, shape in shapes.items()
            ),
            helper.make_node("MatMul", ["x", "w1"], ["h"], "first"),
            helper.make_node("MatMul", ["h", "w2"], ["inner"], "second"),
        ],
        "body",
        [],
        [value("inner", [2, 4])],
    )
    branch = helper.make_node("If", ["is"], ["y"], "if", then_branch=body, else_branch=body)
    weights = {"is": np.array(True)}
    model = make("net", [branch], [value("x", [2, 8])], [value("y", [2, 4])], weights=weights)
    kept = found(half(model), [OnnxrtParty()], model)
    assert (kept.verdict, kept.culprits) == ("agree", [])


def test_tiny_numbers_that_half_precision_rounds_are_no_fault() -> None:
    """A variance of 3e-7 has two digits left in float16, which matters less than its rounding."""
    generator = np.random.default_rng(0)
    weights = {
        "w": generator.standard_normal((8, 8)).astype(np.float32),
        "scale": np.ones(8, np.float32),
        "bias": np.zeros(8, np.float32),
        "mean": np.zeros(8, np.float32),
        "variance": np.full(8, 3.3e-7, np.float32),
    }
    rest = [name for name in weights if name != "w"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "product"),
        helper.make_node("BatchNormalization", ["h", *rest], ["n"], "normalize", epsilon=1e-5),
        helper.make_node("Sigmoid", ["n"], ["s"], "squash"),
        helper.make_node("Exp", ["s"], ["y"], "last"),
    ]
    model = make("net", nodes, [value("x", [4, 8])], [value("y", [4, 8])], weights=weights)
    clipped = OnnxNarrowModels().widen_model(model, like=half(model), keeps_range=False)
    stored = {one.name: numpy_helper.to_array(one) for one in clipped.graph.initializer}
    assert stored["variance"][0] == np.float32(np.float16(3.3e-7)) != np.float32(3.3e-7)
    party = Noisy()
    party.share = 0.05
    kept = found(half(model, cast_io=False), [party], model)
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])


JOINED = """<ir_version: 8, opset_import: ["": 17]> g (float[8,4] x) => (float[8,8] y) {
    %s  p = Sigmoid(back)  b = Mul(x, size)  y = Concat<axis=1>(b, p) }"""
CAST = "far = Add(x, shift) near = Cast<to=10>(far) wide = Cast<to=1>(near) back = Sub(wide, shift)"


def test_a_small_part_of_an_output_that_half_precision_loses_is_a_fault() -> None:
    """Of the size of all elements it is nothing."""
    feed = {"x": np.random.default_rng(5).normal(size=(8, 4)).astype(np.float32)}
    models = []
    for text in (CAST, "back = Identity(x)"):
        model = onnx.parser.parse_model(JOINED % text)
        for name, number in (("size", 1e4), ("shift", 300.0)):
            model.graph.initializer.append(numpy_helper.from_array(np.float32(number), name))
        models.append(model)
    kept = Kept()
    with bind(Findings, kept):
        diagnose(models[0], [OnnxrtParty()], [feed], reference=models[1])
    assert kept.verdict == "fault"
    assert kept.culprits[0]["op"] == "Cast"


def test_a_number_that_the_narrow_model_does_not_store_is_not_rounded() -> None:
    """A fused Gelu contains the root of two that its reference stores."""
    nodes = [
        helper.make_node("Div", ["x", "root"], ["a"], "a"),
        helper.make_node("Mul", ["a", "half"], ["y"], "y"),
    ]
    weights = {"root": np.array(2**0.5, np.float32), "half": np.array(0.3, np.float32)}
    model = make("net", nodes, [value("x", [4])], [value("y", [4])], weights=weights)
    narrow = half(make("net", nodes[1:], [value("a", [4])], [value("y", [4])], weights=weights))
    narrow.graph.initializer.pop(0 if narrow.graph.initializer[0].name == "root" else 1)
    wide = OnnxNarrowModels().widen_model(model, like=narrow).graph.initializer
    rounded = {tensor.name: float(numpy_helper.to_array(tensor)) for tensor in wide}
    assert rounded == {"root": np.float32(2**0.5), "half": np.float16(0.3)}
