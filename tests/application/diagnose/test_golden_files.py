"""Results that were saved elsewhere: other names, types and shapes, NaN, one number everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.changes import weight_search
from polygraphy.backend.onnx import ConvertToFp16
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import BackendError, InconclusiveError, UsageError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.models import classifier, make, value

FEED = {"x": np.random.default_rng(2).normal(size=(6, 8)).astype(np.float32)}


def network(scale: float = 1.0, *, is_dead: bool = False) -> onnx.ModelProto:
    """Two layers with an output each; one that is dead has only negative numbers before a Relu."""
    random = np.random.default_rng(3)
    weights = {
        "w1": random.normal(size=(8, 16)) / 3,
        "w2": random.normal(size=(16, 16)) / 4 * scale,
        "low": np.float32(-1000.0 if is_dead else 0.0),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["first"], "first"),
        helper.make_node("Tanh", ["first"], ["z"], "middle"),
        helper.make_node("MatMul", ["z", "w2"], ["second"], "second"),
        helper.make_node("Add", ["second", "low"], ["third"], "third"),
        helper.make_node("Relu" if is_dead else "Sigmoid", ["third"], ["y"], "last"),
    ]
    outputs = [value("y", ["n", 16]), *([] if is_dead else [value("z", ["n", 16])])]
    floats = {name: np.float32(array) for name, array in weights.items()}
    return make("net", nodes, [value("x", ["n", 8])], outputs, weights=floats)


def outputs(
    model: onnx.ModelProto, *tensors: str, feed: dict[str, np.ndarray] = FEED
) -> dict[str, np.ndarray]:
    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)
    made: dict[str, np.ndarray] = OnnxrtParty().load(marked)(feed)
    return made


def found(
    model: onnx.ModelProto,
    folder: Path,
    saved: dict[str, Any],
    feed: dict[str, np.ndarray] = FEED,
    party: OnnxrtParty | None = None,
    **options: Any,
) -> tuple[Kept, str]:
    """Diagnose a model beside arrays that a script saved."""
    results = RunResults()
    results.add([saved], runner_name="right")
    results.save(str(folder / "golden.json"))
    kept, reason = Kept(), ""
    with bind(Findings, kept):
        try:
            golden = str(folder / "golden.json")
            diagnose(model, [party or OnnxrtParty()], [feed], golden=golden, **options)
        except InconclusiveError as error:
            reason = str(error)
    return kept, reason


FOREIGN = {
    "other names": lambda name, array: (f"out_{name}", array),
    "order alone": lambda name, array: (f"arr_{'yz'.index(name)}", array),
    "float64": lambda name, array: (name, array.astype(np.float64)),
    "float16": lambda name, array: (name, array.astype(np.float16)),
}


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.slow
def test_results_of_a_plain_script_are_understood(form: str, tmp_path: Path) -> None:
    saved = dict(FOREIGN[form](name, array) for name, array in outputs(network()).items())
    assert found(network(), tmp_path, saved)[0].verdict == "agree"
    [culprit] = found(network(1.5), tmp_path, saved)[0].culprits
    assert (culprit["nodes"], culprit["cause"]) == (["second"], "weight")


class FewOutputs(OnnxrtParty):
    """ONNX Runtime, which refuses to return many tensors at once."""

    def load(self, model: Any, **options: Any) -> Any:
        if len(model.graph.output) > 2:
            raise BackendError("too many outputs", backend=self.name)
        return super().load(model, **options)


def test_a_backend_that_does_not_return_all_tensors_is_no_obstacle(tmp_path: Path) -> None:
    saved = outputs(network(), "first", "second", "third")
    kept, _ = found(network(1.5), tmp_path, saved, party=FewOutputs())
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["second"], "weight")


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_tensors_in_another_type_are_compared_in_that_of_the_model(
    dtype: Any, tmp_path: Path
) -> None:
    tensors = outputs(network(), "first", "second", "third")
    saved = {name: array.astype(dtype) for name, array in tensors.items()}
    assert found(network(), tmp_path, saved)[0].verdict == "agree"
    if dtype is np.float64:
        [culprit] = found(network(1.5), tmp_path, saved)[0].culprits
        assert culprit["nodes"] == ["second"]


def test_results_of_other_tensors_are_refused_with_both_names(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="they contain 'there', and the outputs of the model are 'y', 'z'"
    ):
        found(network(), tmp_path, {"there": np.zeros(3)})


def test_an_invalid_model_is_at_fault_if_no_backend_runs_it(tmp_path: Path) -> None:
    model = network()
    model.graph.node[0].input.reverse()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = len(FEED["x"])
    kept, reason = found(model, tmp_path, outputs(network()))
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"], reason) == (["first"], "model", "")


def sizes(*, is_swapped: bool = False) -> onnx.ModelProto:
    """A sum with zeros, whose number is a difference of two constants."""
    reads = ["three", "nine"] if is_swapped else ["nine", "three"]
    nodes = [
        helper.make_node("Sub", reads, ["count"], "difference"),
        helper.make_node("ConstantOfShape", ["count"], ["zeros"], "filled"),
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("Add", ["e", "zeros"], ["y"], "sum"),
    ]
    ends = [value("x", [8, 6])], [value("y", [8, 6])]
    weights = {"nine": np.array([9], np.int64), "three": np.array([3], np.int64)}
    return make("sizes", nodes, *ends, weights=weights)


def test_a_node_before_the_one_that_is_rejected_is_named_from_saved_tensors(tmp_path: Path) -> None:
    feed = {"x": FEED["x"].reshape(8, 6)}
    saved = outputs(sizes(), "count", "zeros", "e", feed=feed)
    kept, _ = found(sizes(is_swapped=True), tmp_path, saved, feed)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["difference"]]
    assert kept.culprits[0]["cause"] == "structure"
    assert "rejects the model because of this" in str(kept.culprits[0])


def branching(*, is_swapped: bool = False) -> onnx.ModelProto:
    """A model that takes a branch because of the sign of a difference."""
    bodies = {
        f"{branch}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [branch], f"{branch}_node")],
            branch,
            [],
            [value(branch, ["n", 8])],
        )
        for branch, op in (("then", "Sigmoid"), ("else", "Identity"))
    }
    nodes = [
        helper.make_node("Sub", ["x", "low"][:: -1 if is_swapped else 1], ["d"], "difference"),
        helper.make_node("ReduceMax", ["d"], ["most"], "most", keepdims=0),
        helper.make_node("Greater", ["most", "zero"], ["condition"], "sign"),
        helper.make_node("If", ["condition"], ["y"], "branches", **bodies),
    ]
    weights = {"low": np.float32(-50), "zero": np.float32(0)}
    ends = [value("x", ["n", 8])], [value("y", ["n", 8])]
    return make("branching", nodes, *ends, weights=weights)


def test_a_branch_that_only_the_wrong_model_takes_is_not_at_fault(tmp_path: Path) -> None:
    saved = outputs(branching(), "d", "most", "condition")
    kept, _ = found(branching(is_swapped=True), tmp_path, saved)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["difference"]]


@pytest.mark.parametrize("where", [np.s_[0, 0], np.s_[:]])
@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_what_was_saved_as_no_number_proves_nothing(
    where: Any, scale: float, tmp_path: Path
) -> None:
    saved = {"y": outputs(network())["y"].copy()}
    saved["y"][where] = np.nan
    kept, reason = found(network(scale), tmp_path, saved)
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])
    assert "of 96 elements of the saved 'y' are NaN" in reason


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_one_number_everywhere_proves_nothing(scale: float, tmp_path: Path) -> None:
    saved = outputs(network(is_dead=True))
    kept, reason = found(network(scale, is_dead=True), tmp_path, saved)
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])
    assert "are constant" in reason


@pytest.mark.slow
def test_another_shape_of_the_same_numbers_is_said(tmp_path: Path) -> None:
    _, reason = found(network(), tmp_path, {"y": outputs(network())["y"].reshape(-1)})
    assert "the saved values, but a different shape" in reason


@pytest.mark.slow
def test_float32_results_of_a_model_in_half_precision_agree(tmp_path: Path) -> None:
    half = ConvertToFp16(network())()
    assert found(half, tmp_path, outputs(network()))[0].verdict == "agree"
    every = outputs(network(), "first", "second", "third")
    assert found(half, tmp_path, every)[0].verdict == "agree"
    [culprit] = found(ConvertToFp16(network(1.5))(), tmp_path, every)[0].culprits
    assert "second" in culprit["nodes"]


def test_results_beyond_the_memory_there_is_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"need 768 bytes.*budget is 700"):
        found(network(), tmp_path, outputs(network()), memory_budget=700)


@pytest.mark.slow
def test_a_scaled_weight_of_doubles_is_named(tmp_path: Path) -> None:
    right, wrong = in_double(network()), in_double(network(1.5))
    feed = {"x": FEED["x"].astype(np.float64)}
    saved: dict[str, np.ndarray] = OnnxrtParty().load(right)(feed)
    kept, _ = found(wrong, tmp_path, saved, feed)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["second"], "weight")


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    for tensor in model.graph.initializer:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for each in (*model.graph.input, *model.graph.output):
        each.type.tensor_type.elem_type = TensorProto.DOUBLE
    return model


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_what_an_optional_value_holds_is_no_tensor_to_begin_at(
    scale: float, tmp_path: Path
) -> None:
    def behind(model: onnx.ModelProto) -> onnx.ModelProto:
        last = model.graph.node.pop()
        model.graph.node.append(helper.make_node("Optional", ["third"], ["held"], "hold"))
        model.graph.node.append(helper.make_node("OptionalHasElement", ["held"], ["is"], "ask"))
        model.graph.node.append(helper.make_node("OptionalGetElement", ["held"], ["got"], "get"))
        model.graph.node.append(last)
        last = model.graph.node[-1]
        last.input[0] = "got"
        model.graph.output.append(value("is", [], TensorProto.BOOL))
        return model

    saved = outputs(network(), "first", "second", "third")
    saved = {**saved, "held": saved["third"], "is": np.array(True)}
    kept, _ = found(behind(network(scale)), tmp_path, saved)
    assert [culprit["nodes"] for culprit in kept.culprits] == ([["second"]] if scale > 1 else [])


@pytest.mark.slow
def test_another_scale_of_float8_is_named(tmp_path: Path) -> None:
    """Between two of its codes lies more than what is wrong with most models."""
    [culprit] = found(narrow(0.05), tmp_path, outputs(narrow(0.02), "h", "q", "back"))[0].culprits
    assert (culprit["nodes"], culprit["cause"]) == (["quantize"], "quantization")


def narrow(scale: float) -> onnx.ModelProto:
    """A tensor that is stored in float8."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["h"], "first"),
        helper.make_node("QuantizeLinear", ["h", "s", "z"], ["q"], "quantize"),
        helper.make_node("DequantizeLinear", ["q", "t", "z"], ["back"], "dequantize"),
        helper.make_node("Identity", ["back"], ["y"], "last"),
    ]
    weights = {"s": np.float32(scale), "t": np.float32(0.02)}
    weights["z"] = np.zeros((), ml_dtypes.float8_e4m3fn)
    shape = [*FEED["x"].shape]
    ends = [value("x", shape)], [value("y", shape)]
    return make("narrow", nodes, *ends, weights=weights, opset=19, ir_version=9)


def test_a_float32_node_behind_half_precision_is_rounded_like_its_input(tmp_path: Path) -> None:
    """The saved tensors have all digits, but a Cast keeps the tensor in half precision."""

    def model(half: bool, off: float = 1.0) -> onnx.ModelProto:
        weights = {
            "w": np.random.default_rng(3).normal(size=(8, 16)).astype("f"),
            "off": np.float32(off),
        }
        middle = [
            helper.make_node("Cast", ["first"], ["low"], "low", to=TensorProto.FLOAT16),
            helper.make_node("Tanh", ["low"], ["z"], "z"),
            helper.make_node("Cast", ["z"], ["wide"], "wide", to=TensorProto.FLOAT),
        ]
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["first"], "first"),
            *(middle if half else [helper.make_node("Tanh", ["first"], ["z"], "z")]),
            helper.make_node("Mul", ["wide" if half else "z", "off"], ["third"], "third"),
            helper.make_node("Neg", ["third"], ["y"], "y"),
        ]
        return make("net", nodes, [value("x", [6, 8])], [value("y", [6, 16])], weights=weights)

    saved = outputs(model(half=False), "first", "z", "third")
    assert found(model(half=True), tmp_path, saved)[0].verdict == "agree"
    [culprit] = found(model(half=True, off=1.05), tmp_path, saved)[0].culprits
    assert "third" in culprit["nodes"]


@pytest.mark.slow
def test_a_float_bias_that_onnx_runtime_quantizes_is_not_changed(tmp_path: Path) -> None:
    """ONNX Runtime rounds the bias to the product of the scales of input and weight."""

    def model(off: float = 0.0) -> onnx.ModelProto:
        random = np.random.default_rng(3)
        weights = {
            "sx": np.float32(0.05),
            "zx": np.uint8(128),
            "w": random.integers(-127, 128, (4, 2, 1, 1)).astype(np.int8),
            "sw": np.float32(0.05),
            "zw": np.int8(0),
            "b": (random.normal(size=4) + off).astype("f"),
            "shape": np.array([6, 2, 2, 2]),
        }
        nodes = [
            helper.make_node("Reshape", ["x", "shape"], ["image"], "image"),
            helper.make_node("QuantizeLinear", ["image", "sx", "zx"], ["q"], "q"),
            helper.make_node("DequantizeLinear", ["q", "sx", "zx"], ["d"], "d"),
            helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], "dw"),
            helper.make_node("Conv", ["d", "dw", "b"], ["c"], "conv"),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("QuantizeLinear", ["r", "sx", "zx"], ["q2"], "q2"),
            helper.make_node("DequantizeLinear", ["q2", "sx", "zx"], ["y"], "y"),
        ]
        ends = [value("x", [6, 8])], [value("y", [6, 4, 2, 2])]
        return make("net", nodes, *ends, weights=weights)

    saved = outputs(model(), "image", "d", "dw", "c", "r")
    assert found(model(), tmp_path, saved)[0].verdict == "agree"
    [culprit] = found(model(off=0.1), tmp_path, saved)[0].culprits
    assert culprit["nodes"] == ["conv"]


@pytest.mark.parametrize("fault", ["scaled", "no bias"])
def test_a_kernel_that_few_data_leave_open_and_a_missing_bias_are_solved_for(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same kernel is found in few runs, however many channels its bias would have."""
    random = np.random.default_rng(5)
    kernel, bias = random.normal(size=(6, 4, 3, 3)), random.normal(size=6)

    def model(factor: float, is_biased: bool) -> onnx.ModelProto:
        weights = {"k": np.float32(kernel * factor), "b": np.float32(bias)}
        weights = weights if is_biased else {"k": weights["k"]}
        nodes = [
            helper.make_node("Tanh", ["x"], ["t"], "before"),
            helper.make_node("Conv", ["t", *weights], ["c"], "conv"),
            helper.make_node("Tanh", ["c"], ["y"], "after"),
        ]
        shapes = [value("x", [1, 4, 5, 5])], [value("y", [1, 6, 3, 3])]
        return make("net", nodes, *shapes, weights=weights)

    def fail(*_: Any) -> Any:
        raise AssertionError("elements of a bias were searched one by one")

    monkeypatch.setattr(weight_search, "nearest_array", fail)
    feed = {"x": random.normal(size=(1, 4, 5, 5)).astype(np.float32)}
    right = model(1.0, fault == "no bias")
    right.graph.output.extend(onnx.ValueInfoProto(name=name) for name in "tc")
    saved = OnnxrtParty().load(right)(feed)
    wrong = model(1.5 if fault == "scaled" else 1.0, False)
    [culprit] = found(wrong, tmp_path, saved, feed)[0].culprits
    kinds = [fact["change"]["kind"] for fact in culprit["facts"] if "change" in fact]
    assert culprit["nodes"] == ["conv"]
    if fault == "scaled":
        assert "The weight 'k' of Conv is scaled by 1.5." in culprit["evidence"]
    else:
        assert kinds == ["missing_bias"]


def maps_of(model: onnx.ModelProto) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data of a classifier, and what it computes of them."""
    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    marked.graph.output.append(onnx.ValueInfoProto(name="s"))
    feed = {"x": np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)}
    return feed, OnnxrtParty().load(marked)(feed)


@pytest.mark.parametrize("labels", ["cab", "xyz"])
def test_other_labels_of_a_classifier_are_named(labels: str, tmp_path: Path) -> None:
    feed, saved = maps_of(classifier())
    [culprit] = found(classifier(labels), tmp_path, saved, feed)[0].culprits
    assert (culprit["op"], culprit["cause"]) == ("ZipMap", "attribute")


def test_other_numbers_of_saved_maps_are_not_called_another_shape(tmp_path: Path) -> None:
    feed, saved = maps_of(classifier())
    reason = found(classifier("cab"), tmp_path, {"y": saved["y"]}, feed)[1]
    assert "Outputs alone cannot show which node differs" in reason


def residual(skipped: str) -> onnx.ModelProto:
    """Return a layer to whose result a tensor before it is added."""
    weights = {"w": np.float32(np.random.default_rng(3).normal(size=(8, 8)))}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["first"], "first"),
        helper.make_node("Tanh", ["first"], ["second"], "second"),
        helper.make_node("Add", [skipped, "second"], ["y"], "add"),
    ]
    return make("net", nodes, [value("x", ["n", 8])], [value("y", ["n", 8])], weights=weights)


def test_an_input_of_the_model_that_a_node_should_read_is_named(tmp_path: Path) -> None:
    saved = outputs(residual("x"), "first", "second")
    [culprit] = found(residual("first"), tmp_path, saved)[0].culprits
    assert (culprit["nodes"], culprit["cause"]) == (["add"], "structure")
    assert "Add reads 'first' instead of 'x'" in str(culprit)


def test_an_input_that_is_a_constant_instead_of_computed_is_named(tmp_path: Path) -> None:
    """What computed it is still there, or not."""
    model = network()
    saved = outputs(model, "first", "second", "third")
    constant = outputs(model, "second", feed={"x": FEED["x"][::-1].copy()})["second"]
    model.graph.initializer.append(numpy_helper.from_array(constant, "frozen"))
    model.graph.node[3].input[0] = "frozen"
    kept, _ = found(model, tmp_path, saved)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["third"]]
    assert "Add reads 'frozen' instead of 'second'" in str(kept.culprits)
    del model.graph.node[2]
    kept, _ = found(model, tmp_path, saved)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["third"]]
    assert "The node that computes 'second' is missing before Add" in str(kept.culprits)


def test_a_scale_is_not_taken_for_an_epsilon_larger_than_any(tmp_path: Path) -> None:
    """If the variance is 1 everywhere, both have the same effect."""

    def norm(scale: float) -> onnx.ModelProto:
        parameters = {"scale": scale, "bias": 0.2, "mean": 0.0, "var": 1.0}
        weights = {name: np.full(8, number, np.float32) for name, number in parameters.items()}
        weights["scale"] *= np.linspace(1, 2, 8, dtype=np.float32)
        nodes = [
            helper.make_node("Tanh", ["x"], ["a"], "first"),
            helper.make_node("BatchNormalization", ["a", *parameters], ["b"], "norm"),
            helper.make_node("Neg", ["b"], ["y"], "last"),
        ]
        return make("net", nodes, [value("x", ["n", 8])], [value("y", ["n", 8])], weights=weights)

    kept, _ = found(norm(1.5), tmp_path, outputs(norm(1.0), "a", "b"))
    assert [(culprit["nodes"], culprit["cause"]) for culprit in kept.culprits] == [
        (["norm"], "weight")
    ]


def two_paths(positive: float = 1.0, negative: float = 1.0) -> onnx.ModelProto:
    """A model in which positive inputs use one weight, scaled by a factor, and others another."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[4, 6] x) => (float[4, 5] y)
        { p = Relu(x) minus = Neg(x) n = Relu(minus) a = MatMul(p, wa) b = MatMul(n, wb)
          ta = Tanh(a) tb = Tanh(b) s = Add(ta, tb) y = MatMul(s, wo) }""")
    draw = np.random.default_rng(5)
    for name, shape in {"wa": (6, 8), "wb": (6, 8), "wo": (8, 5)}.items():
        factor = {"wa": positive, "wb": negative}.get(name, 1.0)
        weight = draw.standard_normal(shape).astype(np.float32) * np.float32(0.3 * factor)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    for node in model.graph.node:
        node.name = node.output[0]
    return model


def found_by_signs(model: onnx.ModelProto, names: list[str], folder: Path) -> list[dict[str, Any]]:
    """The culprits, beside saved tensors of a positive and of a negative input set."""
    draw, evaluator = np.random.default_rng(6), ReferenceEvaluator(two_paths())
    first, second = (np.abs(draw.standard_normal((4, 6))).astype("f") for _ in range(2))
    feeds = [{"x": first}, {"x": -second}]
    computed = [evaluator.run(None, feed, intermediate=True) for feed in feeds]
    results, golden, kept = RunResults(), str(folder / "golden.json"), Kept()
    results.add([{name: values[name] for name in names} for values in computed], "right")
    results.save(golden)
    with bind(Findings, kept):
        assert not diagnose(model, [OnnxrtParty()], feeds, golden=golden)
    return kept.culprits


def test_a_fault_that_only_another_input_set_shows_is_named_too(tmp_path: Path) -> None:
    culprits = found_by_signs(two_paths(1.3, 1.3), [*"pnabsy", "minus", "ta", "tb"], tmp_path)
    assert sorted(culprit["nodes"] for culprit in culprits) == [["a"], ["b"]]


def test_a_change_that_explains_one_input_set_does_not_claim_all(tmp_path: Path) -> None:
    [culprit] = found_by_signs(two_paths(1.3, 1.3), ["y"], tmp_path)
    assert culprit["nodes"] in (["a"], ["b"])
    assert culprit["facts"][-1] == {"kind": "undone_matches_one_set", "number": 1}
    assert "another input set still differs" in culprit["remedy"]["note"]
