"""Only outputs were saved: what was changed is found where they prove it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.changes import outputs_alone
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.words import titles
from polygraphy.domain.errors import BackendError, InconclusiveError
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.concluding_reports import Concluding
from tests.support.diagnosis.diagnosis_cases import Kept, network
from tests.support.diagnosis.outputs_alone_cases import FEED, diagnose_outputs
from tests.support.models import make, value
from tests.support.parties import CountingParty


def changed(model: onnx.ModelProto, weights: Mapping[str, Any]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.name in weights:
            array = weights[tensor.name](numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))
    return made


@pytest.mark.parametrize("array", [np.ones((5, 3), np.float32), np.array(["a"]), np.ones((0, 3))])
@pytest.mark.slow
def test_outputs_of_another_shape_are_of_other_data(array: Any, tmp_path: Path) -> None:
    model = network(())
    results = RunResults()
    results.add([{each.name: array for each in model.graph.output}], runner_name="right")
    results.save(str(tmp_path / "golden.json"))
    with (
        bind(Findings, Kept()),
        pytest.raises(InconclusiveError, match=r"but \w+\[.*\] was saved.*--load-inputs"),
    ):
        diagnose(model, [OnnxrtParty()], [FEED], golden=str(tmp_path / "golden.json"))


@pytest.mark.parametrize("factor", [1.5, 0.4])
@pytest.mark.slow
def test_a_weight_that_was_scaled_is_named_and_proven(factor: float, tmp_path: Path) -> None:
    right = network(())
    kept = diagnose_outputs(right, changed(right, {"w2": lambda w: w * factor}), tmp_path)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["mm2"], "weight")
    assert culprit["remedy"]["proven"]
    assert any(f"scaled by {factor:.4g}" in sentence for sentence in culprit["evidence"])


def chain(scale: float) -> onnx.ModelProto:
    """Two products that nothing lies between: a factor may be in either."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], "first"),
        helper.make_node("MatMul", ["h", "b"], ["y"], "second"),
    ]
    rng = np.random.default_rng(1)
    weights = {name: rng.normal(size=(6, 6)).astype(np.float32) for name in "ab"}
    weights["b"] = weights["b"] * np.float32(scale)
    return make("chain", nodes, [value("x", [3, 6])], [value("y", [3, 6])], weights=weights)


@pytest.mark.slow
def test_several_weights_that_explain_it_are_inconclusive(tmp_path: Path) -> None:
    kept = diagnose_outputs(chain(1), chain(1.5), tmp_path)
    assert kept.verdict == "inconclusive"
    assert [one["nodes"] for one in kept.culprits] == [["first"], ["second"]]
    assert not any(one["remedy"]["command"] or one["remedy"]["note"] for one in kept.culprits)


def quotient(number: float) -> onnx.ModelProto:
    """A product, and a quotient behind it: a factor may be in either."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], "product"),
        helper.make_node("Div", ["h", "number"], ["q"], "quotient"),
        helper.make_node("Softmax", ["q"], ["y"], "shares"),
    ]
    weights = {"a": np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32)}
    weights["number"] = np.array(number, np.float32)
    return make("quotient", nodes, [value("x", [3, 6])], [value("y", [3, 6])], weights=weights)


def attribute(gamma: float) -> onnx.ModelProto:
    """An activation with a factor of its own, and a product behind it."""
    nodes = [
        helper.make_node("Selu", ["x"], ["h"], "selu", gamma=gamma),
        helper.make_node("MatMul", ["h", "a"], ["p"], "product"),
        helper.make_node("Softmax", ["p"], ["y"], "shares"),
    ]
    weights = {"a": np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32)}
    return make("attribute", nodes, [value("x", [3, 6])], [value("y", [3, 6])], weights=weights)


@pytest.mark.parametrize(
    ("build", "nodes"), [(quotient, {"product", "quotient"}), (attribute, {"selu", "product"})]
)
@pytest.mark.slow
def test_a_number_that_scales_as_a_weight_does_is_as_likely(
    build: Callable[[float], onnx.ModelProto], nodes: set[str], tmp_path: Path
) -> None:
    kept = diagnose_outputs(build(2.828), build(1.73), tmp_path)
    assert kept.verdict == "inconclusive"
    assert {name for one in kept.culprits for name in one["nodes"]} == nodes


@pytest.mark.slow
def test_an_attribute_of_several_numbers_is_none_that_scales(tmp_path: Path) -> None:
    def scaler(third: float) -> onnx.ModelProto:
        numbers = {"scale": [1.0, 2.0, third, 0.5, 1.5, 1.0], "offset": [0.0] * 6}
        node = helper.make_node("Scaler", ["x"], ["y"], "scaler", domain="ai.onnx.ml", **numbers)
        ends = [value("x", [3, 6])], [value("y", [3, 6])]
        return make("scaler", [node], *ends, domains=["ai.onnx.ml"])

    assert diagnose_outputs(scaler(3.0), scaler(4.0), tmp_path).verdict == "inconclusive"


@pytest.mark.slow
def test_what_explains_it_is_a_candidate_where_the_rest_was_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = activated("Relu", "Tanh", "Relu")
    wrong = activated("Sigmoid", "Tanh", "Relu")
    assert diagnose_outputs(right, wrong, tmp_path).verdict == "fault"
    budgets = iter([RunBudget(), RunBudget(runs=0)])
    monkeypatch.setattr(outputs_alone._Guesses, "_budget", lambda _: next(budgets))
    kept = diagnose_outputs(right, wrong, tmp_path)
    assert kept.verdict == "inconclusive"
    assert len(kept.culprits) == 1
    assert "Not tried: factors of 3 other weights." in capsys.readouterr().out


@pytest.mark.slow
def test_a_busy_machine_gives_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = activated("Relu", "Tanh", "Relu"), activated("Sigmoid", "Tanh", "Relu")
    documents = []
    for pause in (0.0, 1000.0):
        clock = count(step=pause)
        with monkeypatch.context() as patch:
            for name in ("perf_counter", "monotonic") if pause else ():
                patch.setattr(time, name, lambda clock=clock: next(clock))
            kept = diagnose_outputs(right, wrong, tmp_path)
        documents.append((kept.verdict, [one["nodes"] for one in kept.culprits]))
    assert documents == [("fault", [["act0"]])] * 2


def test_the_other_branch_of_an_if_is_a_candidate(tmp_path: Path) -> None:
    def model_with(op: str) -> onnx.ModelProto:
        return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[3, 6] x) => (float[3, 6] y) {{
            [mean] m = ReduceMean<keepdims=0>(x) zero = Constant<value_float=0.>()
            [condition] c = {op}(m, zero)
            [branch] h = If (c) <then_branch = a () => (float[3, 6] s) {{ s = Sin(x) }},
                                 else_branch = b () => (float[3, 6] e) {{ e = Exp(x) }}>
            y = Softmax(h) }}""")

    kept = diagnose_outputs(model_with("Greater"), model_with("Less"), tmp_path)
    assert kept.verdict == "inconclusive"
    assert [one["nodes"] for one in kept.culprits] == [["e"], ["branch"], ["condition"]]


@pytest.mark.slow
def test_one_element_is_not_guessed(tmp_path: Path) -> None:
    right = network(())

    def one(weight: Any) -> Any:
        made = weight.copy()
        made[2, 3] += 3
        return made

    kept = diagnose_outputs(right, changed(right, {"w1": one}), tmp_path)
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])


def activated(*ops: str) -> onnx.ModelProto:
    """Products with something after each."""
    rng = np.random.default_rng(6)
    nodes, weights, last = [], {}, "x"
    for layer, op in enumerate(ops):
        weights[f"w{layer}"] = rng.normal(size=(6, 6)).astype(np.float32) / 2
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"], f"mm{layer}"))
        last = f"m{layer}"
        if op:
            nodes.append(helper.make_node(op, [last], [f"a{layer}"], f"act{layer}"))
            last = f"a{layer}"
    nodes.append(helper.make_node("Identity", [last], ["y"], "end"))
    return make("activated", nodes, [value("x", [3, 6])], [value("y", [3, 6])], weights=weights)


@pytest.mark.slow
def test_another_operator_is_named(tmp_path: Path) -> None:
    right = activated("Relu", "Sigmoid", "Relu")
    [culprit] = diagnose_outputs(right, activated("Relu", "Tanh", "Relu"), tmp_path).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["act1"], "structure")
    assert any("instead of Sigmoid" in sentence for sentence in culprit["evidence"])


@pytest.mark.slow
def test_a_node_that_is_missing_is_seen_in_what_was_saved(tmp_path: Path) -> None:
    right = activated("Relu", "Tanh", "Relu")
    tensors = ["m0", "a0", "m1", "a1", "m2", "a2"]
    [culprit] = diagnose_outputs(right, activated("Relu", "", "Relu"), tmp_path, *tensors).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["mm2"], "structure")
    assert culprit["remedy"]["proven"]
    assert any(
        "'a1' from 'm1' is missing before MatMul" in sentence for sentence in culprit["evidence"]
    )


@pytest.mark.parametrize(("columns", "is_told"), [(2, False), (40, True)])
@pytest.mark.slow
def test_few_numbers_do_not_show_that_data_are_others(
    columns: int, is_told: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    weights = {"w": rng.normal(size=(6, columns)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Sin", ["t"], ["y"])]
    ends = [value("x", [3, 6])], [value("y", [3, columns])]
    model = make("few", nodes, *ends, weights=weights)
    other = {"x": rng.normal(size=(3, 6)).astype(np.float32)}
    results = RunResults()
    results.add([OnnxrtParty().load(model)(other)], runner_name="right")
    results.save(str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept):
        try:
            diagnose(model, [OnnxrtParty()], [FEED], golden=str(tmp_path / "golden.json"))
        except InconclusiveError as error:
            assert "either the model or the data changed" in str(error)
            assert ("pass the original data" in str(error)) == is_told
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])


@pytest.mark.slow
def test_a_changed_weight_is_found_beside_operators_of_onnx_runtime(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    weights = {
        "w": rng.normal(size=(6, 6)).astype(np.float32),
        "b": rng.normal(size=6).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"], name="product"),
        helper.make_node("Gelu", ["t"], ["u"], name="gelu", domain="com.microsoft"),
        helper.make_node("BiasGelu", ["u", "b"], ["y"], name="last", domain="com.microsoft"),
    ]
    ends = [value("x", [3, 6])], [value("y", [3, 6])]
    right = make("own", nodes, *ends, weights=weights, domains=["com.microsoft"])
    wrong = changed(right, {"b": lambda b: b + 1})
    [culprit] = diagnose_outputs(right, wrong, tmp_path, "t", "u").culprits
    assert (culprit["nodes"], culprit["party"]) == (["last"], "model")


class Device(OnnxrtParty):
    """ONNX Runtime on a device, where nothing is loaded to try a guess."""

    uses_device = True
    survives_fork = True

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        if plain:
            raise BackendError("Loading takes long.")
        return super().load(model, plain=plain, without=without)


@pytest.mark.slow
def test_guesses_are_tried_on_the_cpu_and_proven_on_the_device(tmp_path: Path) -> None:
    right = network(())
    kept = diagnose_outputs(
        right, changed(right, {"w2": lambda w: w * 1.5}), tmp_path, party=Device()
    )
    assert [one["nodes"] for one in kept.culprits] == [["mm2"]]
    kept = diagnose_outputs(activated("Relu"), activated("Sigmoid"), tmp_path, party=Device())
    assert [one["cause"] for one in kept.culprits] == ["structure"]


def test_a_cpu_that_computes_something_else_tries_nothing(tmp_path: Path) -> None:
    class Apart(CountingParty):
        uses_device = True
        survives_fork = True

        def on_host(self) -> Any:
            return Wrong()

    class Wrong(OnnxrtParty):
        def load(self, model: Any, **options: Any) -> Any:
            compute = super().load(model, **options)
            return lambda feed: {name: array + 1 for name, array in compute(feed).items()}

    kept = diagnose_outputs(activated("Relu"), activated("Sigmoid"), tmp_path, party=Apart())
    assert [one["cause"] for one in kept.culprits] == ["structure"]


def stumps(outputs: Collection[float], mode: str = "BRANCH_LEQ") -> onnx.ModelProto:
    """Two trees of one comparison each: x0 <= 0.1, and x1 <= 0.7, or of another mode."""
    attributes = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1], "nodes_nodeids": [0, 1, 2] * 2,
        "nodes_featureids": [0, 0, 0, 1, 0, 0], "nodes_values": [0.1, 0, 0, 0.7, 0, 0],
        "nodes_modes": [mode, "LEAF", "LEAF"] * 2, "nodes_truenodeids": [1, 0, 0] * 2,
        "nodes_falsenodeids": [2, 0, 0] * 2, "target_treeids": [0, 0, 1, 1],
        "target_nodeids": [1, 2] * 2, "target_ids": [0] * 4, "target_weights": list(outputs),
    }  # fmt: skip
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], "trees", domain="ai.onnx.ml", n_targets=1,
        **attributes,
    )  # fmt: skip
    ends = [value("x", [32, 2])], [value("y", [32, 1])]
    return make("stumps", [node], *ends, domains=["ai.onnx.ml"])


@pytest.mark.parametrize("leaf", [3.0, 3.5])
def test_rows_on_a_threshold_are_named_unless_a_leaf_differs_as_well(
    leaf: float, tmp_path: Path
) -> None:
    rows = np.random.default_rng(3).integers(0, 10, (32, 2)) / 10
    table = rows.astype(np.float32)
    left = table.astype(np.float64) <= [0.1, 0.7]  # float32(0.1) > 0.1, float32(0.7) < 0.7
    right = np.where(left[:, 0], 1.0, 2.0) + np.where(left[:, 1], leaf, 5.0)
    results, kept = RunResults(), Kept()
    results.add([{"y": right.astype(np.float32)[:, None]}], runner_name="sklearn")
    results.save(str(tmp_path / "golden.json"))
    model = stumps([1.0, 2.0, 3.0, 5.0])
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [OnnxrtParty()], [{"x": table}], golden=str(tmp_path / "golden.json"))
    tied = int((table[:, 0] == np.float32(0.1)).sum())
    assert tied
    if leaf == 3.0:
        [culprit] = kept.culprits
        assert (culprit["nodes"], culprit["cause"]) == (["trees"], "rounding")
        assert f"{tied} of 32 rows differ" in culprit["evidence"][0]
    else:
        assert (kept.verdict, kept.culprits) == ("inconclusive", [])


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
def test_equal_features_take_the_other_branch_in_each_mode(mode: str, tmp_path: Path) -> None:
    compare = {
        "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less,
        "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
    }[mode]  # fmt: skip
    table = (np.random.default_rng(3).integers(0, 10, (32, 2)) / 10).astype(np.float32)
    first, second = compare(table.astype(np.float64), [0.1, 0.7]).T
    right = np.where(first, 1.0, 2.0) + np.where(second, 3.0, 5.0)
    results, kept = RunResults(), Kept()
    results.add([{"y": right.astype(np.float32)[:, None]}], runner_name="sklearn")
    results.save(str(tmp_path / "golden.json"))
    model = stumps([1.0, 2.0, 3.0, 5.0], mode)
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [OnnxrtParty()], [{"x": table}], golden=str(tmp_path / "golden.json"))
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["trees"], "rounding")


def enlarged(factor: float) -> onnx.ModelProto:
    """A product that a Resize enlarges, whose scales are a weight as well."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], "product"),
        helper.make_node("Resize", ["h", "", "scales"], ["y"], "enlarge", mode="nearest"),
    ]
    matrix = np.random.default_rng(1).normal(size=(6, 6)) * factor
    weights = {"a": matrix.astype(np.float32), "scales": np.array([2, 2], np.float32)}
    return make("enlarged", nodes, [value("x", [3, 6])], [value("y", [6, 12])], weights=weights)


@pytest.mark.slow
def test_other_scales_of_a_resize_explain_nothing_if_shapes_differ(tmp_path: Path) -> None:
    kept = diagnose_outputs(enlarged(1), enlarged(1.5), tmp_path)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["product"], "weight")


def test_gates_in_another_order_are_named_and_proven_by_outputs_alone(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    weights = {
        name: draw.standard_normal((1, 9, size)).astype(np.float32)
        for name, size in (("w", 4), ("r", 3))
    }
    order = [3, 4, 5, 0, 1, 2, 6, 7, 8]

    def model_of(places: list[int]) -> onnx.ModelProto:
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[6,2,4] x) => (float[6,1,2,3] y)'
            " { y = GRU<hidden_size=3>(x, w, r) }"
        )
        for name, array in weights.items():
            model.graph.initializer.append(numpy_helper.from_array(array[:, places], name))
        return model

    feed = {"x": draw.standard_normal((6, 2, 4)).astype(np.float32)}
    results = RunResults()
    results.add([OnnxrtParty().load(model_of([*range(9)]))(feed)], runner_name="right")
    results.save(golden := str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model_of(order), [OnnxrtParty()], [feed], golden=golden)
    [culprit] = kept.culprits
    assert culprit["cause"] == "weight"
    assert "the slices along axis 1 are 3-5, 0-2, 6-8" in " ".join(map(str, culprit["evidence"]))


def test_data_that_were_scaled_in_a_usual_way_are_named(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).normal(size=(4, 3, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Tanh", ["c"], ["y"])]
    shapes = [value("x", [1, 3, 4, 4])], [value("y", [1, 4, 4, 4])]
    model = make("image", nodes, *shapes, weights={"w": weight})
    pixels = np.random.default_rng(2).integers(0, 255, (1, 3, 4, 4)).astype(np.float32)
    results = RunResults()
    saved = OnnxrtParty().load(model)({"x": pixels / 255})
    results.add([{**saved}], runner_name="right")
    results.save(str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept):
        golden = str(tmp_path / "golden.json")
        assert not diagnose(model, [OnnxrtParty()], [{"x": pixels}], golden=golden)
    [culprit] = kept.culprits
    assert culprit["cause"] == "data" and "x / 255" in culprit["evidence"][0]


def test_an_output_with_an_offset_says_so(tmp_path: Path) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Sum", ["e", "e"], ["y"])]
    model = make("sum", nodes, [value("x", [3, 6])], [value("y", [3, 6])])
    results = RunResults()
    saved = OnnxrtParty().load(model)(FEED)
    results.add([{"y": saved["y"] + np.float32(0.5)}], runner_name="right")
    results.save(str(tmp_path / "golden.json"))
    with (
        bind(Findings, Kept()),
        pytest.raises(InconclusiveError, match=r"computed one plus 0\.5 in each element"),
    ):
        diagnose(model, [OnnxrtParty()], [FEED], golden=str(tmp_path / "golden.json"))


def test_rows_on_exact_thresholds_show_the_opposite_mode(tmp_path: Path) -> None:
    model = stumps([1.0, 2.0, 3.0, 5.0], "BRANCH_LT")
    [values] = [each for each in model.graph.node[0].attribute if each.name == "nodes_values"]
    values.floats[:] = [2, 0, 0, 0.5, 0, 0]
    table = np.random.default_rng(3).integers(0, 4, (32, 2)).astype(np.float32) / [1, 2]
    left = table <= [2, 0.5]
    right = np.where(left[:, 0], 1.0, 2.0) + np.where(left[:, 1], 3.0, 5.0)
    results, kept = RunResults(), Kept()
    results.add([{"y": right.astype(np.float32)[:, None]}], runner_name="lightgbm")
    results.save(str(tmp_path / "golden.json"))
    feed = {"x": table.astype(np.float32)}
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], [feed], golden=str(tmp_path / "golden.json"))
    [culprit] = kept.culprits
    assert culprit["cause"] == "attribute"
    assert "BRANCH_LT instead of BRANCH_LEQ" in culprit["evidence"][-1]


def padded_pool(filling: float) -> onnx.ModelProto:
    """A Pad before MaxPool: with the lowest number, the pads never win."""
    nodes = [
        helper.make_node("Pad", ["x", "pads", "filling"], ["p"], "pad"),
        helper.make_node("MaxPool", ["p"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
    ]
    weights = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "filling": np.float32(filling)}
    return make(
        "pool", nodes, [value("x", [1, 2, 8, 8])], [value("y", [1, 2, 4, 4])], weights=weights
    )


def test_zeros_before_a_maximum_are_called_that(tmp_path: Path) -> None:
    """Reflected elements have the same maximum."""
    feed = {"x": np.random.default_rng(0).normal(size=(1, 2, 8, 8)).astype(np.float32) - 1}
    # ONNX Runtime 1.23 fuses a Pad of zeros into MaxPool, which pads with -inf.
    party = OnnxrtParty(graph_optimization_level="DISABLE_ALL")
    kept = diagnose_outputs(padded_pool(-np.inf), padded_pool(0), tmp_path, feed=feed, party=party)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["pad"], "weight")
    assert "Pad fills with 0 instead of -inf" in culprit["evidence"][0]


def masked_attention(filling: float) -> onnx.ModelProto:
    """Attention that suppresses keys, and has zeros where all are suppressed with -inf."""
    nodes = [
        helper.make_node("Where", ["mask", "scores", "filling"], ["w"], "where"),
        helper.make_node("Softmax", ["w"], ["s"], "softmax"),
        helper.make_node("IsNaN", ["s"], ["n"], "isnan"),
        helper.make_node("Where", ["n", "zero", "s"], ["p"], "zeros"),
        helper.make_node("MatMul", ["p", "v"], ["y"], "product"),
    ]
    values = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
    weights = {"filling": np.float32(filling), "zero": np.float32(0), "v": values}
    inputs = [value("scores", [4, 4]), value("mask", [4, 4], TensorProto.BOOL)]
    return make("attention", nodes, inputs, [value("y", [4, 3])], weights=weights)


def test_a_mask_with_the_lowest_number_is_called_that(tmp_path: Path) -> None:
    """A factor of the number overflows to -inf, which is no factor."""
    mask = np.tril(np.ones((4, 4), bool), -1)
    feed = {"scores": np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32), "mask": mask}
    lowest = float(np.finfo(np.float32).min)
    kept = diagnose_outputs(
        masked_attention(-np.inf), masked_attention(lowest), tmp_path, feed=feed
    )
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["where"], "weight")
    assert "'filling' of Where is -3.40282e+38 instead of -inf" in culprit["evidence"][0]


@pytest.mark.parametrize("count", [1, 2])
def test_outputs_of_every_node_are_all_tensors(count: int, tmp_path: Path) -> None:
    """Nothing more can be saved of a single node; of several, they show which one differs."""
    model = make(
        "net",
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], "product"),
            helper.make_node("Tanh", ["y"], ["z"], "curve"),
        ][:count],
        [value("x", [40, 4])],
        [value("y", [40, 4]), value("z", [40, 4])][:count],
        weights={"w": np.eye(4, dtype=np.float32)},
    )
    random = np.random.default_rng(0)
    other = changed(model, {"w": lambda w: w + [0, 0, 1, 0] * random.normal(size=(4, 4))})
    feed = {"x": random.normal(size=(40, 4)).astype(np.float32)}
    kept = diagnose_outputs(model, other, tmp_path, feed=feed)
    if count == 1:
        assert "its only node, 'product'" in kept.summary
        assert "Save all" not in kept.summary
    else:
        [culprit] = kept.culprits
        assert (culprit["nodes"], culprit["cause"]) == (["product"], "weight")


def test_an_input_that_no_node_reads_is_named_beside_unexplained_outputs(tmp_path: Path) -> None:
    """An exporter lost the lengths of the sequences."""

    def reader(*lengths: str) -> onnx.ModelProto:
        rng = np.random.default_rng(3)
        shapes = {"w": (2, 16, 5), "r": (2, 16, 4)}
        weights = {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
        inputs = ["x", "w", "r", *(["", *lengths] if lengths else [])]
        node = helper.make_node(
            "LSTM", inputs, ["", "y"], "lstm", hidden_size=4, direction="bidirectional"
        )
        ends = [value("x", [6, 3, 5]), helper.make_tensor_value_info("lens", 6, [3])]
        return make("reader", [node], ends, [value("y", [2, 3, 4])], weights=weights)

    x = np.random.default_rng(4).normal(size=(6, 3, 5)).astype(np.float32)
    feed, results = {"x": x, "lens": np.array([6, 4, 2], np.int32)}, RunResults()
    results.add([OnnxrtParty().load(reader("lens"))(feed)], runner_name="right")
    results.save(golden := str(tmp_path / "golden.json"))
    with (
        bind(Findings, Kept()),
        pytest.raises(InconclusiveError, match="No node reads the input 'lens'"),
    ):
        diagnose(reader(), [OnnxrtParty()], [feed], golden=golden)


def test_a_node_that_several_numbers_explain_is_listed_once(tmp_path: Path) -> None:
    def normalized(epsilon: float) -> onnx.ModelProto:
        weights = {"w": np.ones(6, np.float32)}
        node = helper.make_node("LayerNormalization", ["x", "w"], ["y"], "norm", epsilon=epsilon)
        return make("norm", [node], [value("x", [3, 6])], [value("y", [3, 6])], weights=weights)

    reports = Concluding()
    with bind(DiagnosisReports, reports):
        kept = diagnose_outputs(normalized(1e-5), normalized(0.5), tmp_path)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["norm"]]
    [attempt] = [attempt for attempt in reports.attempts if attempt.title == titles.CHANGED_NODES]
    assert attempt.result.count("'epsilon'") == 1
