"""Diagnoses of a backend that computes in TF32, with the evaluator as one that rounds so."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from attrs import evolve
from onnx import ModelProto, helper, numpy_helper, parser

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.changes import weight_search
from polygraphy.application.diagnose.steps.precision import tf32
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, CompareFunc, RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.quantization.code_tensors import step_differences
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.domain.tensors.naming import count_text
from polygraphy.domain.tensors.precision import with_digits
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.quantized_chain import SIZE, build_quantized
from tests.support.diagnosis.tf32_party import Tf32Party


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept()
    with bind(Findings, made):
        yield made


def product(offset: float) -> ModelProto:
    """Return a product between two others whose operands have a mean, which its weights cancel."""
    made: ModelProto = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[4,64] x) => (float[4,8] y)
        { a = MatMul(x, w0)  b = Tanh(a)  c = Add(b, offset)  d = MatMul(c, w1)  y = Relu(d) }""")
    rng = np.random.default_rng(11)
    w1 = rng.standard_normal((64, 8))
    w1 -= w1.mean(axis=0)  # So that the offset changes nothing.
    weights = {"w0": rng.standard_normal((64, 64)) / 8, "w1": w1 / 8, "offset": np.array(offset)}
    for name, value in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    return made


def without_mean(model: ModelProto, name: str) -> None:
    weight = next(one for one in model.graph.initializer if one.name == name)
    array = numpy_helper.to_array(weight)
    weight.CopyFrom(numpy_helper.from_array(array - array.mean(axis=0), name))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "m.onnx")


def saved(model: ModelProto, path: str) -> str:
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("how", ["backend", "golden", "reference"])
def test_what_tf32_explains_is_no_fault(
    kept: Kept, path: str, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(product(0.5), path)
    parties, more = [Tf32Party()], {}
    if how == "backend":
        parties.append(OnnxParty())
    elif how == "reference":
        more["reference"] = path
    else:
        runner = OnnxrtRunner(SessionFromOnnx(path))
        Comparator.run([runner]).save(str(tmp_path / "golden.json"))
        more["golden"] = str(tmp_path / "golden.json")
    assert diagnose(path, parties, **more)
    assert kept.verdict == "agree"
    said = capsys.readouterr().out
    assert "onnxrt computes MatMul in TF32, which explains a difference of" in said
    assert "--providers cuda:use_tf32=0" in said


def test_a_product_that_only_fails_in_tf32_is_named_with_the_option(kept: Kept, path: str) -> None:
    """Its operands are far from zero, and what remains of them after 10 bits is too little."""
    saved(product(500.0), path)
    assert not diagnose(path, [Tf32Party(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["op"], culprit["tensor"], culprit["cause"]) == ("MatMul", "d", "precision")
    command = shlex.split(culprit["remedy"]["command"])
    expected = ["polygraphy", "run", path, "--onnxrt", "--onnx", "--rtol", "auto", "--atol", "auto"]
    assert [word for word in command if word in expected or word == "DISABLE_ALL"] == expected


@pytest.mark.parametrize("verdict", ["agree", "inconclusive"])
def test_codes_that_tf32_changes_by_one_step_are_no_fault(
    kept: Kept, path: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(build_quantized(), path)
    feeds = [{"x": np.random.default_rng(1).standard_normal((8, SIZE)).astype(np.float32)}]
    # The bounds of rounding explain less in networks with many layers.
    monkeypatch.setattr(tf32, "rounding_explains", lambda *args, **options: False)
    monkeypatch.setattr(tf32, "_losses", lambda *args: [])
    if verdict == "inconclusive":
        more = lambda *args: [evolve(one, steps=2) for one in step_differences(*args)]  # noqa: E731
        monkeypatch.setattr(tf32, "step_differences", more)
    with suppress(InconclusiveError):
        diagnose(path, [Tf32Party(), OnnxParty()], feeds)
    assert (kept.verdict, kept.culprits) == (verdict, [])
    assert ("by at most one quantization step, in at most" in kept.summary) == (verdict == "agree")


def test_a_fault_in_float32_is_named_as_without_tf32(kept: Kept, path: str, tmp_path: Path) -> None:
    right = saved(product(0.5), str(tmp_path / "right.onnx"))
    wrong = product(0.5)
    wrong.graph.node[1].op_type = "Sigmoid"
    saved(wrong, path)
    assert not diagnose(path, [Tf32Party()], reference=right)
    [culprit] = kept.culprits
    assert culprit["tensor"] == "b"


@pytest.mark.parametrize("factor", [1.0, 1.5])
@pytest.mark.parametrize("data", ["any", "integers"])
def test_results_that_were_saved_in_tf32_blame_only_a_changed_weight(
    kept: Kept, path: str, tmp_path: Path, data: str, factor: float
) -> None:
    """Integers, as of images, are exact in TF32; weights without a mean lose digits with them."""
    right, model = product(0.5), product(0.5)
    right.graph.output.extend(onnx.ValueInfoProto(name=name) for name in "abcd")
    feed = {"x": np.random.default_rng(5).standard_normal((4, 64)).astype(np.float32)}
    if data == "integers":
        feed = {"x": np.round(2 * feed["x"]) + 128}
        for each in (right, model):
            without_mean(each, "w0")
    results = RunResults()
    results.add([Tf32Party().load(right)(feed)], runner_name="cuda")
    results.save(str(tmp_path / "golden.json"))
    weight = next(one for one in model.graph.initializer if one.name == "w1")
    weight.CopyFrom(
        numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(factor), "w1")
    )
    golden = str(tmp_path / "golden.json")
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert kept.verdict == ("agree" if factor == 1 else "fault")
    assert [(one["tensor"], one["cause"]) for one in kept.culprits] == (
        [] if factor == 1 else [("d", "weight")]
    )


@pytest.mark.parametrize("is_all", [True, False])
def test_a_changed_weight_of_a_sensitive_product_is_not_explained_by_tf32(
    kept: Kept, path: str, tmp_path: Path, is_all: bool
) -> None:
    """The operands have a mean that the weights cancel, so that TF32 would have a large effect."""
    model: ModelProto = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[6,16] x) => (float[6,16] y) { h = Relu(x)  y = MatMul(h, w) }""")
    rng = np.random.default_rng(7)
    array = rng.standard_normal((16, 16))
    array -= array.mean(axis=0)
    right = ModelProto.FromString(model.SerializeToString())
    right.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), "w"))
    right.graph.output.append(onnx.ValueInfoProto(name="h"))
    feed = {"x": (rng.standard_normal((6, 16)) + 100).astype(np.float32)}
    results = RunResults()
    results.add([OnnxrtParty().load(right)(feed)], runner_name="onnxrt")
    results.save(golden := str(tmp_path / "golden.json"))
    array[... if is_all else (3, 3)] *= 1.05 if is_all else 1.01
    model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), "w"))
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert [(one["tensor"], one["cause"]) for one in kept.culprits] == [("y", "weight")]


@pytest.mark.parametrize("fault", ["attribute", "structure"])
def test_a_weight_that_fits_any_result_is_not_named_for_a_changed_product_in_tf32(
    kept: Kept, path: str, tmp_path: Path, fault: str
) -> None:
    """With fewer rows than columns, a weight also fits the noise of TF32."""
    model: ModelProto = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[4,6] x) => (float[4,5] y) { h = Relu(x)  y = Gemm<alpha = 0.7>(h, w, b) }""")
    rng = np.random.default_rng(8)
    for name, shape in {"w": (6, 5), "b": (5,)}.items():
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    right = ModelProto.FromString(model.SerializeToString())
    right.graph.output.append(onnx.ValueInfoProto(name="h"))
    feed = {"x": rng.standard_normal((4, 6)).astype(np.float32)}
    results = RunResults()
    results.add([Tf32Party().load(right)(feed)], runner_name="cuda")
    results.save(golden := str(tmp_path / "golden.json"))
    if fault == "attribute":
        model.graph.node[1].attribute[0].f = 1.0
    else:
        del model.graph.node[1].input[2]
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert [(one["tensor"], one["cause"]) for one in kept.culprits] == [("y", fault)]


def test_a_value_that_falls_on_another_quantization_step_is_no_fault(kept: Kept, path: str) -> None:
    model: ModelProto = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[4,64] x) => (float[4,8] y)
        <float scale = {0.02}, uint8 zero = {128}>
        { a = MatMul(x, w0)  q = QuantizeLinear(a, scale, zero)
          y = DequantizeLinear(q, scale, zero) }""")
    w0 = np.random.default_rng(3).standard_normal((64, 8)).astype(np.float32) / 8
    model.graph.initializer.append(numpy_helper.from_array(w0, "w0"))
    assert diagnose(saved(model, path), [Tf32Party()], reference=path)
    assert kept.verdict == "agree"


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_one_product_in_tf32_among_others_in_float32_is_no_fault(
    kept: Kept, path: str, tmp_path: Path, factor: float, drops: bool
) -> None:
    """Libraries choose a kernel for each shape; a changed weight looks like none of them."""
    rng = np.random.default_rng(9)
    nodes = [f"t{i + 1} = MatMul(t{i}, w{i})" for i in range(5)]
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[8,32] t0) => (float[8,32] t5) {{ {"  ".join(nodes)} }}""")
    for number in range(5):
        weight = (rng.standard_normal((32, 32)) / 6).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, f"w{number}"))
    marked = onnx.ModelProto.FromString(model.SerializeToString())
    marked.graph.output.extend(onnx.ValueInfoProto(name=f"t{i}") for i in range(1, 5))
    party = Tf32Party()
    party.only, party.drops = {"t2"}, drops
    feed = {"t0": rng.standard_normal((8, 32)).astype(np.float32)}
    results = RunResults()
    results.add([party.load(marked)(feed)], runner_name="cuda")
    results.save(golden := str(tmp_path / "golden.json"))
    weight = numpy_helper.to_array(model.graph.initializer[3]) * np.float32(factor)
    model.graph.initializer[3].CopyFrom(numpy_helper.from_array(weight, "w3"))
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert [culprit["tensor"] for culprit in kept.culprits] == ([] if factor == 1 else ["t4"])


def test_a_fused_product_in_tf32_is_no_fault(kept: Kept, path: str, tmp_path: Path) -> None:
    model, marked = chain(3), chain(3)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("t1", "t2"))
    model.graph.node[0].op_type, model.graph.node[0].domain = "FusedMatMul", "com.microsoft"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    feed = {"t0": np.random.default_rng(9).standard_normal((8, 32)).astype(np.float32)}
    results = RunResults()
    results.add([Tf32Party().load(marked)(feed)], runner_name="cuda")
    results.save(golden := str(tmp_path / "golden.json"))
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert kept.verdict == "agree"


def chain(count: int) -> ModelProto:
    """Return a chain of products."""
    rng = np.random.default_rng(9)
    nodes = [f"t{i + 1} = MatMul(t{i}, w{i})" for i in range(count)]
    made: ModelProto = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[8,32] t0) => (float[8,32] t{count}) {{ {"  ".join(nodes)} }}""")
    for number in range(count):
        weight = (rng.standard_normal((32, 32)) / 6).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(weight, f"w{number}"))
    return made


@pytest.mark.parametrize("is_known", [True, False])
def test_saved_outputs_of_an_unmodified_model_are_not_compared_with_marked_tensors(
    kept: Kept, path: str, tmp_path: Path, is_known: bool
) -> None:
    """A library may compute other products in TF32 if tensors are marked."""
    model = chain(3)
    marked = onnx.ModelProto.FromString(model.SerializeToString())
    marked.graph.output.extend(onnx.ValueInfoProto(name=f"t{i}") for i in (1, 2))
    feed = {"t0": np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)}
    tensors = OnnxrtParty().load(marked)(feed)
    outputs = Tf32Party().load(model)(feed)
    results = RunResults()
    results.add([{**tensors, **outputs}], runner_name="cuda")
    if is_known:
        results[0][1][0].marked_outputs = {"t3": tensors["t3"]}
    results.save(golden := str(tmp_path / "golden.json"))
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert kept.verdict == ("agree" if is_known else "fault")
    assert ("a run of the unmodified model" in kept.summary) == is_known


@pytest.mark.parametrize(
    ("dtype", "factor", "verdict"),
    [("tf32", 1.0, "agree"), ("", 1.0, "inconclusive"), ("tf32", 1.1, "other")],
)
def test_saved_outputs_in_tf32_may_differ_by_its_effect(
    kept: Kept, path: str, tmp_path: Path, dtype: str, factor: float, verdict: str
) -> None:
    model = chain(3)
    feed = {"t0": np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)}
    results = RunResults()
    results.add([Tf32Party().load(model)(feed)], runner_name="cuda")
    if dtype:
        results[0][1][0].facts = ModelFacts({"": dtype})
    results.save(golden := str(tmp_path / "golden.json"))
    weight = numpy_helper.to_array(model.graph.initializer[1]) * np.float32(factor)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(weight, "w1"))
    with suppress(InconclusiveError):
        diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert (kept.verdict == "agree") == (verdict == "agree")
    assert ("were computed in TF32" in kept.summary) == (verdict == "agree")


def test_one_number_in_tf32_may_differ_by_the_effect_of_another_rounding(
    kept: Kept, path: str, tmp_path: Path
) -> None:
    """Rounded errors cancel in this sum; dropped digits do not."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[1,2] x) => (float[1,1] y) <float[2,1] w = {1, 1}> { y = MatMul(x, w) }""")
    feed = {"x": np.array([[1 + 2**-12, 1 - 2**-12]], np.float32)}
    results = RunResults()
    results.add([{"y": np.array([[2 - 2**-11]], np.float32)}], runner_name="cuda")
    results[0][1][0].facts = ModelFacts({"": "tf32"})
    results.save(golden := str(tmp_path / "golden.json"))
    assert diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert kept.verdict == "agree"


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_a_recurrent_node_in_tf32_computes_the_product_of_its_state_in_float32(
    kept: Kept,
    path: str,
    tmp_path: Path,
    factor: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Thousands of runs would say which weight it is.
    monkeypatch.setattr(weight_search, "nearest_array", lambda *_: None)
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[9,2,16] x) => (float[9,1,2,8] z)
        { y = GRU<hidden_size = 8>(x, w, r)  z = Relu(y) }""")
    rng = np.random.default_rng(4)
    arrays = {"w": rng.standard_normal((1, 24, 16)), "r": rng.standard_normal((1, 24, 8))}
    feed = {"x": rng.standard_normal((9, 2, 16)).astype(np.float32)}
    for name, array in arrays.items():
        tensor = numpy_helper.from_array(array.astype(np.float32), name)
        model.graph.initializer.append(tensor)
    rounded = onnx.ModelProto.FromString(model.SerializeToString())
    weight = with_digits(numpy_helper.to_array(rounded.graph.initializer[0]), 2.0**-10)
    rounded.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    rounded.graph.output.append(onnx.ValueInfoProto(name="y"))
    results = RunResults()
    lowered = {"x": with_digits(feed["x"], 2.0**-10)}
    results.add([OnnxrtParty().load(rounded)(lowered)], runner_name="cuda")
    results.save(golden := str(tmp_path / "golden.json"))
    changed = numpy_helper.to_array(model.graph.initializer[1]) * np.float32(factor)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(changed, "r"))
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert [culprit["tensor"] for culprit in kept.culprits] == ([] if factor == 1 else ["y"])


def test_products_between_saved_tensors_may_be_in_tf32(
    kept: Kept, path: str, tmp_path: Path
) -> None:
    model = chain(3)
    relu = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[8,32] t3) => (float[8,32] y) { y = Relu(t3) }""")
    model.graph.node.extend(relu.graph.node)
    model.graph.output.extend(relu.graph.output)
    feed = {"t0": np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)}
    results = RunResults()
    results.add([Tf32Party().load(model)(feed)], runner_name="cuda")
    del model.graph.output[0]  # What was saved is not an output.
    results.save(golden := str(tmp_path / "golden.json"))
    assert diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert kept.verdict == "agree"


@pytest.mark.parametrize("fault", ["strides = [2, 2]", "pads = [0, 0, 0, 0]", "dilations = [2, 2]"])
def test_tf32_does_not_explain_another_shape(
    kept: Kept, path: str, tmp_path: Path, fault: str
) -> None:
    """The error of a tensor with another shape is infinite, and so is what remains of it."""
    text = """<ir_version: 8, opset_import: ["": 17]> m (float[1,2,9,9] x) => (float[?,?,?,?] y)
        { mid = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w)  y = Relu(mid) }"""
    wrong = text.replace(">(x", f", {fault}>(x")
    if "pads" in fault:
        wrong = text.replace("pads = [1, 1, 1, 1]", fault)
    weight = np.random.default_rng(1).standard_normal((3, 2, 3, 3)).astype(np.float32)
    models = [parser.parse_model(each) for each in (text, wrong)]
    for each in models:
        each.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    feed = {"x": np.random.default_rng(2).standard_normal((1, 2, 9, 9)).astype(np.float32)}
    marked = onnx.ModelProto.FromString(models[0].SerializeToString())
    marked.graph.output.append(onnx.ValueInfoProto(name="mid"))
    results = RunResults()
    results.add([OnnxrtParty().load(marked)(feed)], runner_name="onnxrt")
    results.save(golden := str(tmp_path / "golden.json"))
    diagnose(saved(models[1], path), [OnnxrtParty()], [feed], golden=golden)
    assert [(one["tensor"], one["cause"]) for one in kept.culprits] == [("mid", "attribute")]


def classes(rows: int) -> ModelProto:
    """Return a model that chooses one of 32 classes for each row, of which two each are alike."""
    model: ModelProto = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[{rows},256] x) => (int64[{rows}] y)
        {{ a = MatMul(x, w)  y = ArgMax<axis = 1, keepdims = 0>(a) }}""")
    rng = np.random.default_rng(4)
    weight = np.repeat(rng.standard_normal((256, 16)), 2, axis=1).astype(np.float32)
    weight += 0.03 * rng.standard_normal((256, 32)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def test_classes_with_nearly_equal_scores_may_differ_in_tf32(kept: Kept, path: str) -> None:
    saved(classes(2000), path)
    feed = {"x": np.random.default_rng(8).standard_normal((2000, 256)).astype(np.float32)}
    values = [party.load(path)(feed)["y"] for party in (Tf32Party(), OnnxParty())]
    count = np.count_nonzero(values[0] != values[1])
    assert 0 < count < 20
    assert diagnose(path, [Tf32Party(), OnnxParty()], [feed])
    assert f"in TF32, which explains a difference in {count_text(count, 'element')}" in kept.summary
    results = RunResults()
    for name, array in zip(("cuda", "cpu"), values):
        results.add([{"y": array}], runner_name=name)
    results[0][1][0].facts = ModelFacts({"": "tf32"})
    results[1][1][0].facts = ModelFacts({"": "float32"})
    auto = CompareFunc.simple(rtol="auto", atol="auto")
    assert Comparator.compare_accuracy(results, compare_func=auto)
    results[0][1][0].facts = ModelFacts({"": "float32"})
    assert not Comparator.compare_accuracy(results, compare_func=auto)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_an_operator_without_a_formula_may_be_saved_in_tf32(
    kept: Kept, path: str, tmp_path: Path, factor: float
) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        m (float[2,10,32] x) => (float[2,10,32] y)
        { a = com.microsoft.Attention<num_heads = 4>(x, w, b)  y = Neg(a) }""")
    rng = np.random.default_rng(6)
    for name, shape in {"w": (32, 96), "b": (96,)}.items():
        array = rng.standard_normal(shape).astype(np.float32) / 6
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    feed = {"x": rng.standard_normal((2, 10, 32)).astype(np.float32)}
    rounded = onnx.ModelProto.FromString(model.SerializeToString())
    weight = with_digits(numpy_helper.to_array(model.graph.initializer[0]), 2.0**-10)
    rounded.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight * np.float32(factor), "w"))
    rounded.graph.output.append(onnx.ValueInfoProto(name="a"))
    results = RunResults()
    values = OnnxrtParty().load(rounded)({"x": with_digits(feed["x"], 2.0**-10)})
    results.add([values], runner_name="cuda")
    results.save(golden := str(tmp_path / "golden.json"))
    diagnose(saved(model, path), [OnnxrtParty()], [feed], golden=golden)
    assert [culprit["tensor"] for culprit in kept.culprits] == ([] if factor == 1 else ["a"])
