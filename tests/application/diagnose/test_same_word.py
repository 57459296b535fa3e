"""Where `run --rtol auto` of the same files fails, `diagnose` does not acquit, in half precision,
either.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.backend.onnx import ConvertToBf16, ConvertToFp16, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, RunResults, SimpleCompareFunc
from polygraphy.diagnose import diagnose, diagnose_half
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.tensors.precision import widen_array
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.rounded_squares import ROUNDED, Nearly, squares
from tests.support.examples import scaled
from tests.support.models import make, value

AUTO = SimpleCompareFunc(rtol="auto")
WIDTH = 24


def network(seed: int, depth: int, last: str, scale: float) -> onnx.ModelProto:
    """Products of matrices with normalization between, and outputs of a kind."""
    rng = np.random.default_rng(seed)
    nodes, weights, read = [], {"scale": np.float32(scale)}, "x"
    for number in range(depth):
        weights[f"w{number}"] = (rng.normal(size=(WIDTH, WIDTH)) / 5).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [read, f"w{number}"], [f"m{number}"], f"m{number}"))
        op = ("Tanh", "Relu", "LpNormalization")[int(rng.integers(3))]
        nodes.append(helper.make_node(op, [f"m{number}"], [f"t{number}"], f"t{number}"))
        read = f"t{number}"
    nodes.append(helper.make_node("Mul", [read, "scale"], ["large"], "large"))
    if last == "ArgMax":
        nodes.append(helper.make_node("ArgMax", ["large"], ["y"], "last", axis=1, keepdims=0))
        outputs = [value("y", [8], onnx.TensorProto.INT64)]
    elif last == "TopK":
        weights["k"] = np.array([6], np.int64)
        nodes.append(helper.make_node("TopK", ["large", "k"], ["y", "i"], "last"))
        outputs = [value("y", [8, 6]), value("i", [8, 6], onnx.TensorProto.INT64)]
    else:
        nodes.append(helper.make_node(last, ["large"], ["y"], "last"))
        outputs = [value("y", [8, WIDTH])]
    return make("drawn", nodes, [value("x", [8, WIDTH])], outputs, weights=weights)


def fed(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(8, WIDTH)).astype(np.float32)} for _ in range(2)]


def backend(model: Any, name: str) -> Any:
    if name == "onnx":
        return OnnxReferenceRunner(model, name="onnx")
    return OnnxrtRunner(SessionFromOnnx(model.SerializeToString()), name="onnxrt")


def passes(runners: list[Any], feeds: list[dict[str, Any]], tolerance: Any = AUTO) -> bool:
    results = Comparator.run(runners, data_loader=feeds, streaming=True)
    return bool(Comparator.compare_accuracy(results, compare_func=tolerance))


def acquits(ask: Any) -> bool:
    with bind(Findings, Kept()):
        try:
            return bool(ask())
        except InconclusiveError:
            return False


DRAWN = {
    "seed": st.integers(0, 999),
    "depth": st.integers(1, 8),
    "last": st.sampled_from(["Identity", "Softmax", "Exp", "ArgMax", "TopK"]),
    "scale": st.sampled_from([1e-9, 1e-6, 1.0, 30.0]),
}


@settings(max_examples=scaled(60), deadline=None)
@given(**DRAWN)
@pytest.mark.slow
def test_a_half_model_that_fails_in_a_run_is_not_acquitted(
    seed: int, depth: int, last: str, scale: float
) -> None:
    feeds = fed(seed)
    model = ConvertToFp16(network(seed, depth, last, scale))()
    if not passes([backend(model, "onnxrt"), backend(model, "onnx")], feeds):
        assert not acquits(lambda: diagnose(model, [OnnxrtParty(), OnnxParty()], feeds))


@settings(max_examples=scaled(60), deadline=None)
@given(**DRAWN)
@pytest.mark.slow
def test_a_conversion_that_fails_beside_float32_is_not_acquitted(
    seed: int, depth: int, last: str, scale: float
) -> None:
    feeds = fed(seed)
    model = network(seed, depth, last, scale)
    half = ConvertToFp16(model)()
    if not passes([backend(half, "onnxrt"), backend(model, "onnx")], feeds):
        party = OnnxrtParty()
        assert not acquits(lambda: diagnose_half(model, data_loader=feeds, parties=[party]))
        assert not acquits(lambda: diagnose(half, [party], feeds, reference=model))


def words(
    half: onnx.ModelProto, model: onnx.ModelProto, name: str, feeds: list[Any], folder: Path
) -> dict[str, bool]:
    """Whether each way of asking passes: what a backend makes of a half model, beside float32."""
    party = OnnxParty() if name == "onnx" else OnnxrtParty()
    right = Comparator.run([backend(model, "right")], data_loader=feeds)
    golden = str(folder / "right.json")
    right.save(golden)
    made = Comparator.run([backend(half, name)], data_loader=feeds, streaming=True)
    runs = [made, RunResults.load_streaming(golden)]
    return {
        "run": bool(Comparator.compare_accuracy(runs, compare_func=AUTO)),
        "golden": acquits(lambda: diagnose(half, [party], feeds, golden=golden)),
        "reference": acquits(lambda: diagnose(half, [party], feeds, reference=model)),
    }


@pytest.mark.parametrize(
    ("dtype", "name"), [("fp16", "onnxrt"), ("fp16", "onnx"), ("bf16", "onnx")]
)
@settings(max_examples=scaled(20), deadline=None)
@given(**DRAWN, planted=st.sampled_from([1.0, 1.02, 1.5]))
@pytest.mark.slow
def test_saved_results_a_reference_and_a_run_say_the_same_of_a_half_model(
    dtype: str, name: str, seed: int, depth: int, last: str, scale: float, planted: float
) -> None:
    feeds, model = fed(seed), network(seed, depth, last, scale)
    half = (ConvertToFp16 if dtype == "fp16" else ConvertToBf16)(with_weight(model, planted))()
    made = [OnnxParty().load(half)(feed)["y"] for feed in feeds]
    assume(
        all(np.ptp(widen_array(each)) > 0 for each in made)
    )  # One number everywhere is no proof.
    with tempfile.TemporaryDirectory() as folder:
        said = words(half, model, name, feeds, Path(folder))
    if planted == 1.0 or not said["run"]:
        assert len(set(said.values())) == 1, said
    assert said["golden"] == said["run"]  # Only the reference shows that it is not rounding.


def with_weight(model: onnx.ModelProto, factor: float) -> onnx.ModelProto:
    """The same with a weight times a number."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    weight = next(each for each in other.graph.initializer if each.name == "w0")
    made = onnx.numpy_helper.to_array(weight) * np.float32(factor)
    weight.CopyFrom(onnx.numpy_helper.from_array(made, "w0"))
    return other


@pytest.mark.parametrize("factor", [1.0, 1.5])
@pytest.mark.slow
def test_a_model_in_float32_is_compared_with_a_reference_in_float64(factor: float) -> None:
    model = network(3, 1, "Identity", 1.0)
    right = onnx.ModelProto()
    right.CopyFrom(model)
    for weight in right.graph.initializer:
        wide = onnx.numpy_helper.to_array(weight).astype(np.float64)
        weight.CopyFrom(onnx.numpy_helper.from_array(wide, weight.name))
    for each in (*right.graph.input, *right.graph.output):
        each.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    changed = with_weight(model, factor)
    said = acquits(lambda: diagnose(changed, [OnnxrtParty()], fed(3), reference=right))
    assert said is (factor == 1.0)


@settings(max_examples=scaled(60), deadline=None)
@given(**DRAWN, noise=st.sampled_from([0.0, 3e-6, 1e-4, 1e-2]))
@pytest.mark.slow
def test_a_float32_model_that_fails_in_a_run_is_not_acquitted(
    seed: int, depth: int, last: str, scale: float, noise: float
) -> None:
    feeds = fed(seed)
    model = network(seed, depth, last, scale)
    other = with_weight(model, 1 + noise)
    if not passes([backend(model, "onnxrt"), backend(other, "onnxrt")], feeds):
        assert not acquits(lambda: diagnose(model, [OnnxrtParty()], feeds, reference=other))


@pytest.mark.parametrize("given", ["rtol", "atol"])
@pytest.mark.slow
def test_one_tolerance_that_is_auto_stands_for_both(given: str) -> None:
    exact = np.random.default_rng(3).normal(size=(8, WIDTH)).astype(np.float32) * np.float32(1e3)
    exact[0, 0] = 0.0
    off = exact * np.float32(1 + 1e-6)  # Beyond the usual absolute tolerance.
    off[0, 0] = 1e-4  # Beyond any relative one.
    results = RunResults()
    for name, made in (("a", off), ("b", exact)):
        results.add([{"y": made}], runner_name=name)
    function = SimpleCompareFunc(**{given: "auto"})  # type: ignore[arg-type]
    assert Comparator.compare_accuracy(results, compare_func=function)


def drifting(model: onnx.ModelProto, factor: float) -> onnx.ModelProto:
    """The same, with what each node makes multiplied by a number; all tensors are outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    nodes = [*made.graph.node]
    del made.graph.node[:]
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(factor), "factor"))
    for node in nodes:
        name = node.output[0]
        node.output[0] = f"{name}_raw"
        made.graph.node.extend([node, helper.make_node("Mul", [f"{name}_raw", "factor"], [name])])
        if name != "y":
            made.graph.output.append(onnx.ValueInfoProto(name=name))
    return made


@pytest.mark.parametrize("factor", [1.0, 1.0 + 5e-5])
@pytest.mark.slow
def test_how_far_saved_outputs_may_be_off_is_what_adds_up_and_no_share(
    factor: float, tmp_path: Path
) -> None:
    feeds, model = fed(3), network(3, 3, "Identity", 1.0)
    right = drifting(model, factor)
    alone = onnx.ModelProto()
    alone.CopyFrom(right)
    del alone.graph.output[1:]
    runners = [backend(model, "onnxrt"), backend(alone, "onnxrt")]
    assert passes(runners, feeds) is (factor == 1.0)
    results = RunResults()
    results.add([OnnxrtParty().load(right)(feed) for feed in feeds], runner_name="right")
    golden = str(tmp_path / "golden.json")
    results.save(golden)
    said = acquits(lambda: diagnose(model, [OnnxrtParty()], feeds, golden=golden))
    assert said is (factor == 1.0)


@pytest.mark.parametrize("off", [0.0, 0.1])
@pytest.mark.slow
def test_parties_are_compared_where_what_parts_the_first_from_the_reference_adds_up(
    off: float,
) -> None:
    model, reference = squares(), squares()
    [last] = [weight for weight in reference.graph.initializer if weight.name == "w15"]
    array = numpy_helper.to_array(last) * np.float32(1 + ROUNDED)
    last.CopyFrom(numpy_helper.from_array(array, "w15"))
    feeds = [{"x": np.random.default_rng(7).standard_normal((4, 8)).astype(np.float32)}]
    first, other = OnnxParty(), Nearly([{"t15": off}])
    assert acquits(lambda: diagnose(model, [first], feeds, reference=reference))
    said = acquits(lambda: diagnose(model, [first, other], feeds, reference=reference))
    assert said == (not off)
