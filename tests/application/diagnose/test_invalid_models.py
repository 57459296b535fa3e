"""A backend that refuses an invalid model is correct: the model, or the data, are at fault."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnx_common import evaluator
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.steps import model_refusal
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import BackendError, InconclusiveError
from polygraphy.domain.ports import command_line
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.facts import facts_of
from tests.support.parties import command_of_fakes

F = np.float32


def model_of(text: str, **weights: Any) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}')
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def blamed(model: onnx.ModelProto, *parties: Any, data: Any = None) -> dict[str, Any]:
    kept = Kept()
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert not diagnose(model, list(parties), data)
    [culprit] = kept.culprits
    return culprit


@pytest.mark.slow
def test_the_model_is_at_fault_for_what_one_backend_accepts_and_another_refuses() -> None:
    model = model_of(
        "(float[1,3,4,4] x) => (float[1,3,4,4] y) { a = Relu(x) y = PRelu(a,s) }",
        s=np.ones(3, F),
    )
    culprit = blamed(model, OnnxrtParty())
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["y"], "model", "refusal")
    assert "(3, 1, 1)" in facts_of(culprit)["breaks_specification"]["message"]
    assert facts_of(culprit)["accepts_more"]["party"] == "onnx"
    assert culprit["remedy"]["command"] is None


@pytest.mark.slow
def test_the_model_is_at_fault_if_no_backend_runs_it() -> None:
    text = (
        "(float[2,3] x) => (float[N,M] y) { a = Abs(x) s = Shape(a) t = Add(s,o) y = Reshape(a,t) }"
    )
    culprit = blamed(model_of(text, o=np.array([0, 1])), OnnxrtParty(), OnnxParty())
    assert (culprit["nodes"], culprit["party"]) == (["y"], "model")


@pytest.mark.slow
def test_an_invalid_fp16_model_is_at_fault_beside_its_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A converter declared another type than a Cast computes; no cast of the reference works."""
    monkeypatch.setattr(model_refusal, "find_cast", lambda *_: None)
    half = np.float16
    model = model_of(
        "(float[2,3] x) => (float[2,3] y) { a = Cast<to=10>(x) m = MatMul(a,w)"
        " c = Cast<to=1>(m) o = Mul(c,s) y = Cast<to=1>(o) }",
        w=np.eye(3, dtype=half),
        s=np.ones(3, half),
    )
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("c", 10, None))
    right = model_of(
        "(float[2,3] x) => (float[2,3] y) { m = MatMul(x,w) o = Mul(m,s) y = Identity(o) }",
        w=np.eye(3, dtype=F),
        s=np.ones(3, F),
    )
    kept = Kept()
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert not diagnose(model, [OnnxrtParty()], None, reference=right)
    first = kept.culprits[0]
    assert (first["nodes"], first["party"]) == (["c"], "model")
    message = facts_of(first)["breaks_specification"]["message"]
    assert "the graph declares float16" in message


@pytest.mark.slow
def test_a_wrong_declared_type_is_fixed_by_sanitizing() -> None:
    model = model_of(
        "(float16[2,2] x) => (float16[2,2] y) <float[2,2] h> { h = MatMul(x,w) y = Relu(h) }",
        w=np.eye(2, dtype=np.float16),
    )
    culprit = blamed(model, OnnxrtParty())
    assert (culprit["nodes"], culprit["party"]) == (["h"], "model")
    assert culprit["remedy"]["proven"]
    assert culprit["remedy"]["command"].startswith("polygraphy surgeon sanitize")


@pytest.mark.slow
def test_an_index_out_of_range_is_the_fault_of_the_data_that_hold_it() -> None:
    model = model_of(
        "(int64[2] i) => (float[2,3] y) { j = Cast<to=7>(i) e = Gather(w,j) y = Relu(e) }",
        w=np.ones((4, 3), F),
    )
    data = [{"i": np.array([1, 2])}, {"i": np.array([1, 9])}]
    culprit = blamed(model, OnnxrtParty(), OnnxParty(), data=data)
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["e"], "data", "data")


def test_data_with_nan_are_at_fault_for_nan_in_the_outputs() -> None:
    model = model_of("(float[2] x) => (float[2] y) { y = Abs(x) }")
    culprit = blamed(model, OnnxParty(), data=[{"x": np.array([1, np.nan], F)}])
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["y"], "data", "data")


class ReadsAnything(OnnxrtParty):
    """Reads the first row for each index out of range, as devices do."""

    def load(self, model: Any, **options: Any) -> Any:
        """Load the model with as many rows as the indices ask for."""
        made = onnx.ModelProto()
        made.CopyFrom(model)
        for weight in made.graph.initializer:
            if weight.name == "w":
                rows = numpy_helper.to_array(weight)
                weight.CopyFrom(numpy_helper.from_array(np.resize(rows, (50, 3)), "w"))
        return super().load(made, **options)


@pytest.mark.parametrize("is_constant", [False, True])
def test_an_index_that_the_only_backend_ignores_is_reported(is_constant: bool) -> None:
    graph = "(int64[2] i) => (float[2,3] y) { j = Add(i,o) e = Gather(w,@) y = Relu(e) }"
    given = {"k": np.array([1, 9])} if is_constant else {}
    model = model_of(
        graph.replace("@", "k" if is_constant else "j"),
        w=np.ones((4, 3), F),
        o=np.array([0, 0 if is_constant else 2]),
        **given,
    )
    data = [{"i": np.array([1, 2])}]
    culprit = blamed(model, ReadsAnything(), data=data)
    assert (culprit["nodes"], culprit["party"]) == (["e"], "model")
    assert facts_of(culprit)["accepts_more"]["party"] == "onnxrt"
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((10, 3), F), "w"))
    with pytest.raises(InconclusiveError, match="nothing to compare"):
        diagnose(model, [ReadsAnything()], data)


@pytest.mark.slow
def test_shapes_that_were_made_up_accuse_neither_the_model_nor_a_backend() -> None:
    """Both inputs have open sizes, and a weight fits only one that nobody gave."""
    model = model_of(
        "(float[N,A] x, float[M,B] z) => (float[N,C] y) { a = MatMul(x,w) y = MatMul(a,z) }",
        w=np.ones((37, 41), F),
    )
    with pytest.raises((InconclusiveError, Exception), match="dynamic, and default to 1"):
        blamed(model, OnnxrtParty())


@pytest.mark.slow
def test_a_tensor_of_other_sizes_than_declared_is_the_fault_of_the_model() -> None:
    """Only the second input set shows it, on which a remedy has to work."""
    model = model_of(
        "(float[1,s,4] x, float[1,p,4] z) => (float[1,4] y, float[1,s,4] c)"
        " { k = MatMul(x,w) c = Concat<axis=1>(z,k) a = Relu(c) y = ReduceMean<axes=[1],keepdims=0>(a) }",
        w=np.eye(4, dtype=F),
    )
    sets = [(4, 0), (1, 4)]
    data = [{"x": np.ones((1, s, 4), F), "z": np.ones((1, p, 4), F)} for s, p in sets]
    culprit = blamed(model, OnnxrtParty(), data=data)
    assert (culprit["nodes"], culprit["party"]) == (["c"], "model")
    assert "where s is 1" in facts_of(culprit)["breaks_specification"]["message"]
    assert culprit["remedy"]["command"] is None


def test_a_node_that_reads_the_shape_of_an_invalid_node_is_not_named() -> None:
    model = model_of(
        "(float[1,12] x) => (float[N,M,H,W] y) { a = Reshape(x,s) y = Conv(a,w) }",
        s=np.array([7, 7, 7, 7]),
        w=np.ones((2, 3, 1, 1), F),
    )
    assert blamed(model, OnnxrtParty(), OnnxParty())["nodes"] == ["a"]


def test_many_nodes_that_break_one_rule_are_one_culprit() -> None:
    steps = " ".join(f"a{n + 1} = Abs(a{n}) y{n} = Gelu(a{n})" for n in range(12))
    makes = ", ".join(f"float[2] y{n}" for n in range(12))
    model = model_of(f"(float[2] a0) => ({makes}) {{ {steps} }}")
    culprit = blamed(model, OnnxrtParty(), OnnxParty())
    assert culprit["nodes"] == ["y0"]
    assert facts_of(culprit)["same_violation"]["nodes"] == [f"y{n}" for n in range(1, 12)]


class OfDevice(OnnxParty):
    """Computes what the specification leaves open as a device does, and divides by 0."""

    name = "device"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
            if node.op_type == "Cast":
                return lambda x, **how: (np.clip(x, 0, 255).astype(np.uint8),)
            if node.op_type == "ScatterND":
                return lambda x, i, u, **how: run(x, i[::-1], u[::-1], **how)
            return run

        made = evaluator.evaluator_of(model, watched=watched)
        return lambda feed: dict(zip(made.output_names, made.run(None, dict(feed))))


@pytest.mark.parametrize(
    "text, weights",
    [
        ("(float[9] x) => (uint8[9] y) { q = Mul(x,w) y = Cast<to=2>(q) }", {"w": F(900)}),
        (
            "(float[4,3] x, float[3,3] u) => (float[4,3] y) { y = ScatterND(x,i,u) }",
            {"i": np.array([[1], [2], [-2]])},
        ),
    ],
)
def test_no_backend_is_at_fault_for_a_result_that_is_undefined(
    text: str, weights: dict[str, Any]
) -> None:
    culprit = blamed(model_of(text, **weights), OfDevice(), OnnxParty())
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["y"], "model", "invalid")
    assert "undefined_result" in facts_of(culprit)


def test_a_refusal_of_the_baseline_shows_that_the_model_is_invalid() -> None:
    """A device divides integers by 0 without an error."""

    class Refuses(OnnxParty):
        def load(self, *args: Any, **options: Any) -> Any:
            raise BackendError("Integer division by zero", backend="cpu")

    model = model_of("(int32[4] x) => (int32[4] y) { z = Sub(x,x) y = Div(x,z) }")
    kept = Kept()
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert not diagnose(model, [OfDevice()], baseline=Refuses())
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"]) == (["y"], "model")
    assert "divisor" in facts_of(culprit)["breaks_specification"]["message"]


def _branch_that_shadows() -> onnx.ModelProto:
    return model_of(
        "(float[2] x) => (float[2] y) { t = Relu(x) c = Constant<value = bool {1}>() y = If(c)"
        " <then_branch = a() => (float[2] p) { t = Neg(x) p = Abs(t) },"
        " else_branch = b() => (float[2] q) { q = Abs(t) }> }"
    )


def _two_nodes_of_one_output() -> onnx.ModelProto:
    model = model_of("(float[2] x) => (float[2] y) { a = Relu(x) a = Neg(x) y = Abs(a) }")
    model.graph.node[1].name = "negative"
    return model


def _two_inputs_of_one_name() -> onnx.ModelProto:
    model = model_of("(float[2] x, float[2] z) => (float[2] y) { y = Abs(x) }")
    model.graph.input[1].name = "x"
    return model


def _function_without_import() -> onnx.ModelProto:
    return parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = f.foo(x) }'
        ' <domain: "f", opset_import: ["": 17]> foo (p) => (r) { r = Abs(p) }'
    )


def _call_without_its_second_output() -> onnx.ModelProto:
    return parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[2] x) => (float[2] y) {'
        ' y = f.pair(x) } <domain: "f", opset_import: ["": 17]> pair (p) => (r, s) {'
        " r = Abs(p) s = Neg(p) }"
    )


def _output_without_type() -> onnx.ModelProto:
    model = model_of("(float[2] x) => (float[2] y) { y = Abs(x) }")
    model.graph.output[0].type.tensor_type.elem_type = 0
    return model


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (_branch_that_shadows, "an output of Relu at index 0, and an output of Neg at index 0"),
        (_two_nodes_of_one_output, "output of Relu at index 0, and an output of Neg 'negative' at"),
        (_two_inputs_of_one_name, "'x'"),
        (_function_without_import, "'f'"),
        (_call_without_its_second_output, "requires 2 outputs"),
        (_output_without_type, "'y'"),
    ],
)
def test_a_model_that_is_invalid_as_a_whole_is_at_fault_for_its_refusal(
    make: Any, word: str
) -> None:
    culprit = blamed(make(), OnnxrtParty(), OnnxParty())
    assert (culprit["op"], culprit["party"], culprit["cause"]) == ("Model", "model", "refusal")
    assert word in facts_of(culprit)["breaks_specification"]["message"]


def test_an_attribute_that_refers_to_a_function_belongs_into_one() -> None:
    model = model_of("(float[2] x) => (float[2] y) { y = Softmax <axis = 0> (x) }")
    model.graph.node[0].attribute[0].ref_attr_name = "axis"
    culprit = blamed(model, OnnxrtParty(), OnnxParty())
    assert culprit["party"] == "model"
    assert "Softmax 'y'" in facts_of(culprit)["breaks_specification"]["message"]


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("y = Dropout(x,r,t)", {"r": F(0.5), "t": np.array(True)}),
        ("n = RandomNormalLike(x) y = Add(x,n)", {}),
    ],
)
def test_the_model_is_at_fault_if_backends_draw_different_random_numbers(
    text: str, weights: dict[str, Any]
) -> None:
    model = model_of(f"(float[40] x) => (float[40] y) {{ {text} }}", **weights)
    for parties in ([OnnxrtParty(), OnnxParty()], [OfDevice(), OnnxParty()]):
        culprit = blamed(model, *parties)
        assert (culprit["nodes"], culprit["party"]) == ([text[0]], "model")


class Lacking(OnnxParty):
    """A backend without Bernoulli."""

    name = "lacking"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        if any(node.op_type == "Bernoulli" for node in model.graph.node):
            raise BackendError("Could not find an implementation for Bernoulli", backend=self.name)
        return super().load(model, plain=plain, without=without)


def test_random_numbers_are_no_reason_for_a_refusal() -> None:
    model = model_of("(float[40] x) => (float[40] y) { b = Bernoulli(x) y = Neg(b) }")
    model.opset_import[0].version = 15
    culprit = blamed(model, Lacking(), OnnxParty(), data=[{"x": np.zeros(40, F)}])
    assert (culprit["nodes"], culprit["party"]) == (["b"], "lacking")


def test_results_that_a_device_saved_do_not_blame_an_undefined_cast(tmp_path: Path) -> None:
    model = model_of("(float[9] x) => (uint8[9] y) { q = Mul(x,w) y = Cast<to=2>(q) }", w=F(900))
    marked = onnx.ModelProto.FromString(model.SerializeToString())
    marked.graph.output.append(onnx.ValueInfoProto(name="q"))
    feed = {"x": np.linspace(0, 1, 9, dtype=F)}
    results = RunResults()
    results.add([OfDevice().load(marked)(feed)], runner_name="device")
    results.save(golden := str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert not diagnose(model, [OnnxParty()], [feed], golden=golden)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["y"], "invalid")
    assert culprit["remedy"]["command"] is None


@pytest.mark.parametrize(
    ("inner", "weights", "size"),
    [
        ("r = Relu(x) y = Reshape(r,s)", {"s": np.array([1, 2, 3])}, 1),
        ("r = Relu(x) y = Add(r,p)", {"p": np.ones((5, 3), F)}, 5),
        (
            "z = Shape<start=0,end=1>(x) q = Mul(z,o) y = Reshape(k,q)",
            {"k": np.arange(4, dtype=F), "o": np.array([4])},
            1,
        ),
    ],
)
def test_a_size_of_the_example_is_found_by_a_run_with_that_size(
    inner: str, weights: dict[str, Any], size: int
) -> None:
    shape = "2,3" if "Reshape(r" in inner else "t,3"
    model = model_of(f"(float[n,{shape}] x) => (float[a,b,c] y) {{ {inner} }}", **weights)
    model.opset_import[0].version = 15
    model.graph.output[0].type.tensor_type.ClearField("shape")
    feed = {"x": np.ones((3, 2, 3), F)}
    culprit = blamed(model, OnnxrtParty(), data=[feed])
    assert (culprit["party"], culprit["cause"]) == ("model", "constant")
    fact = facts_of(culprit)["runs_with_other_size"]
    assert (fact["size"], f"{size}" in fact["shape"]) == (size, True)


def test_a_size_of_the_example_far_from_the_node_that_it_breaks_is_found() -> None:
    model = model_of(
        "(float[n,2,h,w] x) => (float[n,2,h,w] y) {"
        ' r = Resize<mode="nearest">(x, , , c) a = Relu(r) y = Add(a, x) }',
        c=np.array([2, 2, 7, 6]),
    )
    culprit = blamed(model, OnnxrtParty(), data=[{"x": np.ones((2, 2, 9, 6), F)}])
    assert (culprit["nodes"], culprit["cause"]) == (["y"], "constant")
    assert facts_of(culprit)["runs_with_other_size"]["constants"] == ["c"]


def test_both_sizes_of_an_example_image_are_found() -> None:
    model = model_of(
        "(float[1,3,h,w] x) => (float[1,3,h,w] y) {"
        ' r = Resize<mode="nearest">(x, , , c) y = Add(r, x) }',
        c=np.array([1, 3, 7, 8]),
    )
    culprit = blamed(model, OnnxrtParty(), data=[{"x": np.ones((1, 3, 9, 6), F)}])
    assert (culprit["nodes"], culprit["cause"]) == (["y"], "constant")
    assert "x:1x3x7x8" in facts_of(culprit)["runs_with_other_size"]["shape"]


@pytest.mark.parametrize(
    "inner",
    [
        "p = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x)"
        ' u = Resize<mode="nearest">(p, , s) y = Concat<axis=1>(x, u)',
        "r = Shape<start=3>(x) n = Div(r, two) z = Concat<axis=0>(o, n, two) y = Reshape(x, z)",
    ],
    ids=["halved", "windows"],
)
def test_sizes_that_must_be_multiples_are_found_by_runs(inner: str) -> None:
    weights = {
        "s": np.array([1, 1, 2, 2], F),
        "two": np.array([2]),
        "o": np.array([0, 0, 0]),
    }
    used = {
        name: array for name, array in weights.items() if f"{name})" in inner or f"{name}," in inner
    }
    model = model_of(f"(float[1,2,h,w] x) => (float y) {{ {inner} }}", **used)
    model.opset_import[0].version = 15
    model.graph.output[0].type.tensor_type.ClearField("shape")
    culprit = blamed(model, OnnxrtParty(), data=[{"x": np.ones((1, 2, 6, 5), F)}])
    assert (culprit["party"], culprit["cause"]) == ("model", "refusal")
    fact = facts_of(culprit)["runs_with_multiples"]
    assert (fact["shapes"], fact["number"]) == ("x:1x2x6x6", 2)
    assert "multiples of 2" in culprit["remedy"]["note"]


def test_sizes_of_windows_are_no_sizes_of_an_example() -> None:
    model = model_of(
        "(float[1,2,h,w] x) => (float[a,b,c,d] y) { y = Reshape(x, z) }", z=np.array([2, -1, 8, 8])
    )
    culprit = blamed(model, OnnxrtParty(), data=[{"x": np.ones((1, 2, 12, 6), F)}])
    assert (culprit["party"], culprit["cause"]) == ("model", "refusal")
    assert facts_of(culprit)["runs_with_multiples"]["number"] == 8


def test_a_state_with_a_fixed_batch_is_the_fault_of_the_model() -> None:
    model = model_of(
        "(float[t,n,2] x, float[1,1,3] h) => (float[t,1,n,3] y) { y = RNN<hidden_size=3>(x,w,r,,,h) }",
        w=np.ones((1, 3, 2), F),
        r=np.ones((1, 3, 3), F),
    )
    feed = {"x": np.ones((4, 5, 2), F), "h": np.ones((1, 1, 3), F)}
    culprit = blamed(model, OnnxrtParty(), data=[feed])
    assert (culprit["party"], culprit["cause"]) == ("model", "constant")
    fact = facts_of(culprit)["runs_with_other_size"]
    assert (fact["shape"], fact["constants"]) == ("x:4x1x2", [])


@pytest.mark.parametrize("declared", [TensorProto.FLOAT, TensorProto.INT64])
def test_a_weight_of_another_type_than_declared_is_the_fault_of_the_model(declared: int) -> None:
    array = np.array([1], np.int64 if declared == TensorProto.FLOAT else F)
    model = model_of("(float[2,3] x) => (float[1,3] y) { y = Gather(x,i) }", i=array)
    model.graph.input.append(helper.make_tensor_value_info("i", declared, [1]))
    culprit = blamed(model, OnnxrtParty())
    assert (culprit["party"], culprit["nodes"]) == ("model", ["y"])
    assert "of 'i', but the weight is" in facts_of(culprit)["breaks_specification"]["message"]
    # A weight that the node accepts only needs another declaration.
    assert bool(culprit["remedy"]["command"]) is (declared == TensorProto.FLOAT)


def operator_of_a_backend(number_of_inputs: int) -> onnx.ModelProto:
    """Return a model with an operator that only ONNX Runtime has, and whose inputs do not fit."""
    reads = ["a", "x", "g", "g", "g", "g"][:number_of_inputs]
    model = model_of(
        "(float[1,2,4] x) => (float[1,2,4] y) { a = Relu(x) y = Neg(a) }", g=np.ones(3, F)
    )
    [_, last] = model.graph.node
    last.CopyFrom(
        helper.make_node("SkipLayerNormalization", reads, ["y"], "own", domain="com.microsoft")
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


@pytest.mark.parametrize(("number_of_inputs", "verdict"), [(3, "inconclusive"), (6, "fault")])
def test_the_operator_that_its_only_backend_rejects_is_named(
    number_of_inputs: int, verdict: str
) -> None:
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(operator_of_a_backend(number_of_inputs), [OnnxrtParty()])
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["nodes"], culprit["party"]) == (verdict, ["own"], "model")


@pytest.mark.parametrize(
    ("line", "attribute"),
    [("n = Cast<to=1>(x)", "to"), ("n = RandomNormalLike<dtype=1>(x)", "dtype")],
)
def test_an_attribute_that_contradicts_the_declared_type_is_named_alone(
    line: str, attribute: str
) -> None:
    model = model_of(f"(float16[4] x) => (float16[4] y) {{ {line} y = Add(x,n) }}")
    model.graph.value_info.append(helper.make_tensor_value_info("n", TensorProto.FLOAT16, [4]))
    culprit = blamed(model, OnnxrtParty())
    assert (culprit["nodes"], culprit["party"]) == (["n"], "model")
    assert f"Set '{attribute}' of" in culprit["remedy"]["note"]
    assert "to float16" in culprit["remedy"]["note"]
    model.graph.node[0].attribute[0].i = TensorProto.FLOAT16
    assert OnnxrtParty().load(model)({"x": np.ones(4, np.float16)})["y"].shape == (4,)


ADDS = "(float[2] x, bool c) => (float[2] y) {{ y = If(c) <then_branch = t () => (float[2] a) {{ {} }},"
ADDS += " else_branch = e () => (float[2] b) {{ b = Neg(x) }}> }}"
EARLY = "[late] a = Add(m, x) [begin] m = Neg(x)"
ITS_FUNCTION = (
    '<ir_version: 8, opset_import: ["": 13, "own": 1]> g (float[2] x) => (float[2] y)'
    ' {y = own.F(x)} <domain: "own", opset_import: ["": 13]> F (x) => (a) {' + EARLY + "}"
)


@pytest.mark.parametrize(
    ("model", "owner"),
    [
        (model_of(ADDS.format(EARLY)), "the subgraph of If 'y'"),
        (parser.parse_model(ITS_FUNCTION), "the function 'F'"),
    ],
    ids=["branch", "function"],
)
def test_a_node_before_the_one_that_it_reads_is_fixed_by_sorting(
    model: onnx.ModelProto, owner: str, tmp_path: Path
) -> None:
    """The diagnosis sorts nodes, so that its own runs show nothing."""
    onnx.save(model, tmp_path / "m.onnx")
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(str(tmp_path / "m.onnx"), [OnnxrtParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["late"], "model", "refusal")
    assert f"Add 'late', in {owner}, reads 'm' before" in culprit["evidence"][0]
    assert culprit["remedy"]["proven"]
    assert "surgeon sanitize" in culprit["remedy"]["command"]


def test_images_with_their_channels_last_are_a_fault_of_the_data() -> None:
    model = model_of(
        "(float[n,c,h,w] x) => (float[n,4,i,j] y) { s = Div(x,d) y = Conv(s,k) }",
        d=np.array(255, F),
        k=np.ones((4, 3, 3, 3), F),
    )
    culprit = blamed(model, OnnxrtParty(), OnnxParty(), data=[{"x": np.ones((1, 8, 9, 3), F)}])
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["y"], "data", "data")
    assert facts_of(culprit)["channels_last"]["name"] == "x"


def test_channels_that_no_weight_fits_are_a_fault_of_the_data_behind_an_activation() -> None:
    model = model_of(
        "(float[1,c,h,w] x) => (float[1,4,i,j] y) { a = Relu(x) y = Conv(a,k) }",
        k=np.ones((4, 3, 3, 3), F),
    )
    culprit = blamed(model, OnnxrtParty(), OnnxParty(), data=[{"x": np.ones((1, 5, 8, 9), F)}])
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["y"], "data", "data")


def test_an_output_of_another_shape_than_declared_is_reported_once() -> None:
    lines: list[str] = []
    reports = SimpleNamespace(
        show_attempt=lambda attempt: lines.append(attempt.result), show_result=lambda result: None
    )
    model = model_of("(float[n,2] x) => (float[5,2] y, float[n,2] z) { y = Abs(x) z = Neg(y) }")
    feeds = [{"x": np.ones((3, 2), F)}, {"x": np.zeros((3, 2), F)}]
    with bind(DiagnosisReports, reports):
        assert diagnose(model, [OnnxrtParty(), OnnxParty()], feeds)
    [line] = [line for line in lines if "declared" in line]
    assert "The output 'y' is declared with shape (5, 2), but has shape (3, 2)." in line
    with pytest.raises(InconclusiveError, match=r"^The output 'y' is declared .*nothing to comp"):
        diagnose(model, [OnnxrtParty()], feeds)


def test_an_output_without_a_shape_does_not_hide_a_name_that_a_branch_uses_again() -> None:
    model = model_of(
        "(float[2] x, bool c) => (float[2] y) { a = Relu(x)"
        " i = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) },"
        " else_branch = e () => (float[2] b) { b = Abs(x) }> y = Add(a, i) }"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    culprit = blamed(model, OnnxrtParty())
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == ([], "model", "refusal")
    assert "'a' is an output of Relu" in facts_of(culprit)["breaks_specification"]["message"]
