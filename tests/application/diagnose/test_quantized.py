"""What quantizing costs is told from faults, and the nodes that lose most of it are named."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.steps import quantization
from polygraphy.application.diagnose.steps.model_rounding import explain_by_rounding
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.quantized_chain import LAYERS, SIZE, build_quantized, plain, weights
from tests.support.models import make, value
from tests.support.parties import CountingParty, WrongRewriter


def products_saturate(model: onnx.ModelProto) -> bool:
    """Return whether products of uint8 and int8 saturate also if they are requested to be exact."""
    party = OnnxrtParty().with_exact_products()
    assert party is not None
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    feed = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    exact = OnnxParty().load(model)(feed)
    return any(
        not np.allclose(value, exact[name], rtol=1e-3, atol=1e-3)
        for name, value in party.load(model)(feed).items()
    )


def found(
    model: onnx.ModelProto, reference: onnx.ModelProto | None = None, level: str | None = None
) -> tuple[str, Any]:
    kept = Kept()
    feeds = [
        {"x": np.random.default_rng(n).standard_normal((8, SIZE)).astype(np.float32)}
        for n in range(3)
    ]
    with bind(Findings, kept), suppress(InconclusiveError):
        party = OnnxrtParty(graph_optimization_level=level).with_exact_products()
        assert party is not None  # Products do not saturate on CPUs without VNNI.
        diagnose(model, [party], reference=reference or plain(), data_loader=feeds)
    return kept.verdict, kept.culprits


@pytest.mark.parametrize(("absorbs", "verdict"), [(False, "inconclusive"), (True, "agree")])
def test_a_healthy_quantized_model_is_not_blamed(absorbs: bool, verdict: str) -> None:
    # Of the first, steps that add up are 0.14 of the size of the output: too much for `run` as well.
    assert found(build_quantized(absorbs=absorbs)) == (verdict, [])


def test_what_adds_up_over_a_coarsely_quantized_model_is_no_fault_of_one_node() -> None:
    assert found(build_quantized(bits=4)) == ("inconclusive", [])


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(0, LAYERS - 1), st.booleans())
def test_the_node_whose_scale_is_too_small_is_named(coarse: int, absorbs: bool) -> None:
    verdict, [culprit] = found(build_quantized(coarse, absorbs=absorbs))
    assert (verdict, culprit["cause"], culprit["nodes"]) == (
        "fault",
        "clipped range",
        [f"product{coarse}"],
    )
    assert culprit["remedy"]["note"].startswith("Set scale")


@pytest.mark.parametrize("is_generated", [False, True])
def test_ranges_that_are_too_small_for_the_data_are_the_reason(is_generated: bool) -> None:
    """Generated data may only be unlike those of the calibration."""
    model, kept = build_quantized(), Kept()
    for weight in model.graph.initializer:
        if weight.name.endswith("_s") and weight.name[0] != "w":
            scale = numpy_helper.to_array(weight) / (24 if is_generated else 8)
            weight.CopyFrom(numpy_helper.from_array(scale, weight.name))
    party = OnnxrtParty().with_exact_products()
    feed = {"x": np.random.default_rng(0).standard_normal((8, SIZE)).astype(np.float32)}
    data = None if is_generated else [feed]
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [party], reference=plain(), data_loader=data)
    if is_generated:
        assert (kept.verdict, kept.culprits) == ("inconclusive", [])
        assert "The generated data exceed ranges" in kept.summary
    else:
        assert {culprit["cause"] for culprit in kept.culprits} == {"calibration data"}
        assert "The range cuts off" in str(kept.culprits)


def test_outputs_of_a_reference_may_come_in_another_order() -> None:
    model, reference = build_quantized(2), plain()
    for each, order in ((model, "yp"), (reference, "py")):
        each.graph.output.append(value("p1", [8, SIZE]))
        ends = {end.name[0]: onnx.ValueInfoProto.FromString(end.SerializeToString())
                for end in each.graph.output}  # fmt: skip
        del each.graph.output[:]
        each.graph.output.extend(ends[name] for name in order)
    verdict, [culprit] = found(model, reference)
    assert (verdict, culprit["nodes"]) == ("fault", ["product2"])


def test_another_operator_in_a_quantized_model_is_named_and_not_quantizing() -> None:
    model = build_quantized()
    next(node for node in model.graph.node if node.name == "relu2").op_type = "Abs"
    verdict, culprits = found(model)
    assert verdict == "fault" and [one["nodes"] for one in culprits] == [["relu2"]]


def by_operators() -> onnx.ModelProto:
    """The products, each an operator that reads and makes integers."""
    scale, zero = np.float32(0.3), np.int8(0)
    held: dict[str, Any] = {"s": scale, "z": zero}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"])]
    for n, array in enumerate(weights().values()):
        step = np.float32(np.abs(array).max() / 7)
        held |= {f"w{n}": np.clip(np.rint(array / step), -7, 7).astype(np.int8), f"s{n}": step}
        reads = [f"q{n}", "s", "z", f"w{n}", f"s{n}", "z", "s", "z"]
        nodes.append(helper.make_node("QLinearMatMul", reads, [f"m{n}"], f"product{n}"))
        nodes.append(helper.make_node("Relu", [f"m{n}"], [f"q{n + 1}"], f"relu{n}"))
    nodes[-1] = helper.make_node("DequantizeLinear", [f"m{LAYERS - 1}", "s", "z"], ["y"], "end")
    ends = [value("x", [8, SIZE])], [value("y", [8, SIZE])]
    return make("operators", nodes, *ends, weights=held)


def test_a_model_quantized_by_operators_is_not_blamed_for_one_of_them() -> None:
    assert found(by_operators()) == ("inconclusive", [])


def spread(*, quantized: bool, wide: int | None) -> onnx.ModelProto:
    """Two products whose weights may have columns of very different sizes, undone behind them."""
    nodes, held, last = [], {}, "x"
    for n, array in enumerate([*weights().values()][:2]):
        sizes = np.logspace(-3, 0, SIZE).astype(np.float32) if n == wide else np.ones(SIZE, "f4")
        held |= {f"undo{n}": 1 / sizes}
        if quantized:
            step = np.abs(array * sizes).max() / 127
            held |= {f"w{n}": np.rint(array * sizes / step).astype(np.int8), f"s{n}": step}
            for op, reads, made, name in (
                ("DynamicQuantizeLinear", [last], [f"q{n}", f"qs{n}", f"qz{n}"], f"quantize{n}"),
                ("MatMulInteger", [f"q{n}", f"w{n}", f"qz{n}"], [f"i{n}"], f"product{n}_quant"),
                ("Cast", [f"i{n}"], [f"f{n}"], f"cast{n}"),
                ("Mul", [f"qs{n}", f"s{n}"], [f"ps{n}"], f"scales{n}"),
                ("Mul", [f"f{n}", f"ps{n}"], [f"p{n}"], f"scale{n}"),
            ):
                extra = {"to": onnx.TensorProto.FLOAT} if op == "Cast" else {}
                nodes.append(helper.make_node(op, reads, made, name, **extra))
        else:
            held |= {f"w{n}": array * sizes}
            nodes.append(helper.make_node("MatMul", [last, f"w{n}"], [f"p{n}"], f"product{n}"))
        last = f"r{n}" if n == 0 else "y"
        nodes.append(helper.make_node("Mul", [f"p{n}", f"undo{n}"], [last], f"undo{n}"))
    ends = [value("x", [8, SIZE])], [value("y", [8, SIZE])]
    return make("spread", nodes, *ends, weights=held)


@pytest.mark.parametrize("wide", [None, 0, 1])
def test_a_product_of_integers_whose_scale_fits_few_columns_is_named(wide: int | None) -> None:
    models = [spread(quantized=quantized, wide=wide) for quantized in (True, False)]
    if wide is None and products_saturate(models[0]):
        pytest.skip("this release of ONNX Runtime saturates products on this CPU in any case")
    verdict, culprits = found(*models)
    names = [(one["nodes"], one["cause"]) for one in culprits]
    assert names == ([] if wide is None else [([f"product{wide}_quant"], "quantization")])
    assert verdict == ("agree" if wide is None else "fault")
    assert all(f"without 'product{wide}'" in one["remedy"]["note"] for one in culprits)


@pytest.mark.parametrize("scaled", ["f1_scaled", "in_two_steps"])
def test_integers_with_the_name_of_the_float_product_are_not_taken_for_it(scaled: str) -> None:
    model = spread(quantized=True, wide=1)
    new_names = {"i1": "p1", "p1": scaled}
    if scaled == "in_two_steps":
        *_, scales, product, _ = model.graph.node
        scales.input[:], scales.output[:] = ["f1", "qs1"], ["half"]
        product.input[:] = ["half", "s1"]
    for node in model.graph.node:
        node.input[:] = [new_names.get(name, name) for name in node.input]
        node.output[:] = [new_names.get(name, name) for name in node.output]
    verdict, culprits = found(model, spread(quantized=False, wide=1))
    assert (verdict, [one["nodes"] for one in culprits]) == ("fault", [["product1_quant"]])


def test_no_change_is_tried_of_what_is_quantized_where_the_reference_is_not() -> None:
    party = CountingParty()
    with bind(Findings, Kept()), suppress(InconclusiveError):
        diagnose(by_operators(), [party], reference=plain())
    assert party.loads < 64


def test_a_model_whose_weights_are_quantized_by_blocks_is_not_blamed_for_one_of_them() -> None:
    rng = np.random.default_rng(1)
    shape, held, packed = [8, 32], {}, {}
    reference, blocked = [], []
    for n in range(3):
        weight = rng.normal(size=(32, 32)).astype(np.float32)
        step = np.abs(weight).max(0) / 7
        codes = (np.clip(np.rint(weight / step), -8, 7) + 8).astype(np.uint8).T
        held[f"w{n}"] = weight
        packed |= {f"b{n}": (codes[:, None, ::2] | codes[:, None, 1::2] << 4), f"s{n}": step}
        made = f"m{n}" if n < 2 else "y"
        read = f"m{n - 1}" if n else "x"
        reference.append(helper.make_node("MatMul", [read, f"w{n}"], [made], f"product{n}"))
        reads = [read, f"b{n}", f"s{n}"]
        size = {"K": 32, "N": 32, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
        blocked.append(helper.make_node("MatMulNBits", reads, [made], f"product{n}", **size))
    ends = [value("x", shape)], [value("y", shape)]
    model = make("blocks", blocked, *ends, weights=packed, domains=["com.microsoft"])
    right = make("blocks", reference, *ends, weights=held)
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [OnnxrtParty()], reference=right)
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])


def test_an_accuracy_level_that_differs_is_named_as_the_reason_of_rounding() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (8, 2, 16)).astype(np.uint8)
    weights = {"b": codes, "s": np.full(16, 0.05, np.float32)}
    models = []
    for level in (4, 0):
        size = {"K": 64, "N": 8, "bits": 4, "block_size": 32, "accuracy_level": level}
        node = helper.make_node(
            "MatMulNBits", ["x", "b", "s"], ["m"], "product", domain="com.microsoft", **size
        )
        nodes = [node, helper.make_node("Softmax", ["m"], ["y"], "shares")]
        ends = [value("x", [3, 64])], [value("y", [3, 8])]
        models.append(make("level", nodes, *ends, weights=weights, domains=["com.microsoft"]))
    kept = Kept()
    with bind(Findings, kept):
        diagnose(models[0], [OnnxrtParty()], reference=models[1])
    [culprit] = kept.culprits
    assert culprit["nodes"] == ["product"]
    assert "'accuracy_level' allows int8 rounding" in str(culprit["evidence"])
    assert "not rounding" not in str(culprit["evidence"])


def chain(operators: Sequence[str], *, quantized: bool) -> onnx.ModelProto:
    """Operators one behind the other, behind what is quantized."""
    step = {"step": np.float32(STEP), "zero": np.int8(0)} if quantized else {}
    nodes = []
    for op, read, made in ("QuantizeLinear", "x", "q"), ("DequantizeLinear", "q", "d"):
        reads = [read, "step", "zero"]
        nodes += [helper.make_node(op, reads, [made], f"{made}_node")] if quantized else []
    tensor = "d" if quantized else "x"
    for index, op in enumerate(operators):
        made = f"t{index}" if index < len(operators) - 1 else "y"
        nodes.append(helper.make_node(op, [tensor], [made], f"node{index}"))
        tensor = made
    return make("chain", nodes, [value("x", [32])], [value("y", [32])], weights=step)


def test_a_quantized_reference_of_another_structure_blames_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operators = ["Sin", "Cos", "Tanh", "Sigmoid", "Softsign", "Atan", "Erf", "Exp", "Softplus"]
    others = [*operators[1:], operators[0]]

    class QuantizedPair:
        """What could not be quantized as the model is."""

        places, is_whole = (0,), True

        def __init__(self, *given: Any) -> None: ...

        def result(self, *given: Any) -> None: ...

        def quantize_reference(self) -> onnx.ModelProto:
            return chain(others, quantized=True)

    monkeypatch.setattr(
        "polygraphy.application.diagnose.steps.quantization.QuantizedPair", QuantizedPair
    )
    feed = {"x": np.random.default_rng(0).normal(size=32).astype(np.float32)}
    model, reference = chain(operators, quantized=True), chain(others, quantized=False)
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [OnnxrtParty()], [feed], reference=reference)
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])


class Shifting(WrongRewriter):
    """Computes in one piece what is quantized behind a node, some steps too much."""

    passes = ()
    steps = 0.1

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        named = {node.name: node for node in made.graph.node}
        if {"middle", "end"} <= named.keys():
            named["middle"].output[0] = "inside"
            named["end"].input[0] = "shifted"
            shift = helper.make_node("Add", ["inside", "tenth"], ["shifted"], "shift")
            made.graph.node.insert([*made.graph.node].index(named["end"]), shift)
            tenth = numpy_helper.from_array(np.float32(self.steps * STEP), "tenth")
            made.graph.initializer.append(tenth)
        return made


STEP = 1 / 256


@pytest.mark.parametrize("op", ["Mul", "Softmax"])
def test_a_step_here_and_there_is_nobodys_fault(op: str) -> None:
    weights = {"step": np.float32(STEP), "zero": np.uint8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"], "begin"),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["d"], "given"),
        helper.make_node(op, ["d", "d"] if op == "Mul" else ["d"], ["m"], "middle"),
        helper.make_node("QuantizeLinear", ["m", "step", "zero"], ["p"], "end"),
        helper.make_node("DequantizeLinear", ["p", "step", "zero"], ["y"], "out"),
    ]
    shape = [256, 4]
    model = make("steps", nodes, [value("x", shape)], [value("y", shape)], weights=weights)
    feed = {"x": np.random.default_rng(0).random(shape).astype(np.float32)}
    kept = Kept()
    with bind(Findings, kept):
        diagnose(model, [Shifting(), OnnxParty()], [feed])
    assert (kept.verdict, kept.culprits) == ("agree", [])


class Hiding(Shifting):
    """Calls all tensors otherwise that are quantized on the way."""

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        made = super().runtime_graph(model, without=without, level=level)
        ends = {each.name for each in (*made.graph.input, *made.graph.output)}
        for node in made.graph.node:
            for names in (node.input, node.output):
                names[:] = [f"{x}_8" if x in HIDDEN - ends else x for x in names]
        return made


HIDDEN = {"q", "d", "r", "k", "e", "m", "p", "inside", "shifted"}


@pytest.mark.parametrize(("op", "steps"), [("Mul", 3.0), ("Mul", 0.1), ("Softmax", 0.1)])
def test_the_node_is_named_whose_steps_are_wrong_of_all_that_is_computed_in_steps(
    op: str, steps: float
) -> None:
    party = Hiding()
    party.steps = steps
    kept = found_in_steps(op, party)
    if steps < 1:
        assert (kept.verdict, kept.culprits) == ("agree", [])
    else:
        [culprit] = kept.culprits
        assert "middle" in culprit["nodes"]
        assert not {"begin", "given", "root"} & {*culprit["nodes"]}


class Joining(Hiding):
    """Is twenty steps off where it computes all of a model as one."""

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        made = super().runtime_graph(model, without=without, level=level)
        if "root" in {node.name for node in model.graph.node}:
            for weight in made.graph.initializer:
                if weight.name == "tenth":
                    far = numpy_helper.from_array(np.float32(20 * STEP), "tenth")
                    weight.CopyFrom(far)
        return made


def test_what_is_far_off_is_not_acquitted_for_a_step_in_a_part_of_it() -> None:
    kept = found_in_steps("Softmax", Joining())
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["party"], culprit["cause"]) == ("fault", "wrong", "rewrite")


def found_in_steps(op: str, party: Any) -> Kept:
    """Diagnose a model of two operators between quantized tensors."""
    step = np.float32(STEP)
    weights = {"step": step, "zero": np.uint8(0)}
    quantized = [
        (("x", "q", "d"), "begin", "given"),
        (("r", "k", "e"), "between", "handed"),
        (("m", "p", "y"), "end", "out"),
    ]
    nodes = []
    for (value_in, held, value_out), one, two in quantized:
        reads = [value_in, "step", "zero"]
        nodes.append(helper.make_node("QuantizeLinear", reads, [held], one))
        reads = [held, "step", "zero"]
        nodes.append(helper.make_node("DequantizeLinear", reads, [value_out], two))
    nodes.insert(2, helper.make_node("Sqrt", ["d"], ["r"], "root"))
    nodes.insert(5, helper.make_node(op, ["e", "e"] if op == "Mul" else ["e"], ["m"], "middle"))
    shape = [256, 4]
    model = make("steps", nodes, [value("x", shape)], [value("y", shape)], weights=weights)
    feed = {"x": np.random.default_rng(0).random(shape).astype(np.float32)}
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [party, OnnxParty()], [feed])
    return kept


def test_the_note_names_all_nodes_that_ask_for_the_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "_culprits_of_goal", lambda *given: [])  # No wrong parameter.
    _, [culprit] = found(build_quantized(2))
    assert "'relu1', 'product2'" in culprit["remedy"]["note"]


def test_the_loss_of_a_pair_is_that_of_both_its_nodes() -> None:
    model = build_quantized()
    node = next(node for node in model.graph.node if node.output[0] == "r1_d")
    node.input[1] = "wrong"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "wrong"))
    verdict, [culprit] = found(model)
    assert (verdict, culprit["nodes"]) == ("fault", ["product2"])
    [loss] = [fact["loss"] for fact in culprit["facts"] if "loss" in fact]
    assert loss.loss > 1


def test_an_fp8_scale_that_cuts_off_most_of_a_tensor_is_not_acquitted() -> None:
    kinds = {onnx.TensorProto.INT8: onnx.TensorProto.FLOAT8E4M3FN}

    def in_fp8(model: onnx.ModelProto, factor: float) -> onnx.ModelProto:
        for weight in model.graph.initializer:
            if weight.data_type in kinds:
                weight.CopyFrom(helper.make_tensor(weight.name, kinds[weight.data_type], [], [0.0]))
            elif weight.name.endswith("_s"):
                scale = numpy_helper.to_array(weight) * np.float32(127 / 448)
                cut = factor if weight.name == "r1_s" else 1.0
                weight.CopyFrom(numpy_helper.from_array(scale * np.float32(cut), weight.name))
        model.opset_import[0].version, model.ir_version = 19, 9
        return model

    # Beyond the basic level, ONNX Runtime 1.32 computes products of fp8 incorrectly.
    assert found(in_fp8(build_quantized(), 1.0), level="basic") == ("agree", [])
    verdict, [culprit] = found(in_fp8(build_quantized(), 1 / 16), level="basic")
    assert (verdict, culprit["nodes"]) == ("fault", ["product2"])


def test_a_diagnosis_says_if_run_accepts_what_it_proves() -> None:
    """One weight differs by less than int8 rounding explains; both models are quantized."""
    model = build_quantized()
    weight = next(one for one in model.graph.initializer if one.name == "w1")
    array = numpy_helper.to_array(weight).copy()
    array[:, 3] *= 0.96
    weight.CopyFrom(numpy_helper.from_array(array, "w1"))
    verdict, [culprit] = found(model, build_quantized())
    assert (verdict, culprit["nodes"]) == ("fault", ["w1_q"])
    assert "so run --rtol auto accepts these outputs" in " ".join(culprit["evidence"])


def selecting(*, quantized: bool) -> onnx.ModelProto:
    """Selects the elements above a limit; one is so close to it that quantizing moves it."""
    pair = (
        " q = QuantizeLinear(h, step, zero) d = DequantizeLinear(q, step, zero)"
        if quantized
        else ""
    )
    operand = "d" if quantized else "h"
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[8] x) => (float[n] y)'
        " <float limit = {0.5}, float step = {0.0625}, uint8 zero = {0}, int64[1] flat = {-1}>"
        f" {{ h = Sigmoid(x){pair} above = Greater({operand}, limit)"
        f" chosen = NonZero(above) places = Reshape(chosen, flat) y = Gather({operand}, places) }}"
    )


@pytest.mark.parametrize("reference", [True, False])
def test_a_selection_that_quantization_changes_is_named_with_the_numbers_of_rows(
    reference: bool, tmp_path: Path
) -> None:
    feed = {"x": np.array([-3, 0.05, -2, 2, 0.04, -1, 3, 1], np.float32)}
    model, right = selecting(quantized=True), selecting(quantized=False)
    how: dict[str, Any] = {"reference": right}
    if not reference:
        results = RunResults()
        results.add([OnnxParty().load(right)(feed)], runner_name="onnx")
        results.save(golden := str(tmp_path / "golden.json"))
        how = {"golden": golden}
    said = r"'y' has 3 rows instead of 5"
    with bind(Findings, Kept()), pytest.raises(InconclusiveError, match=said):
        diagnose(model, [OnnxrtParty()], [feed], **how)


def test_a_selection_for_which_quantization_is_not_proven_is_named_too() -> None:
    model = build_quantized(absorbs=False)
    pairing = pair_graphs(open_model(model).graph, open_model(plain()).graph)
    comparison: Any = SimpleNamespace(
        compared=SimpleNamespace(largest_error=np.inf),
        values=[],
        expected=[],
        feeds=[],
        pair=SimpleNamespace(pairing=pairing),
        outputs={"y": np.ones((2, 4))},
        goal={"y": np.ones((5, 4))},
    )
    answer = explain_by_rounding(SimpleNamespace(parties=[]), comparison)  # type: ignore[arg-type]
    assert "'y' has 2 rows instead of 5" in str(answer.why)  # type: ignore[union-attr]


def test_outputs_of_the_float_model_that_run_accepts_are_said_to_prove_nothing(
    tmp_path: Path,
) -> None:
    feed = {"x": np.random.default_rng(0).standard_normal((8, SIZE)).astype(np.float32)}
    results = RunResults()
    results.add([OnnxParty().load(plain())(feed)], runner_name="onnx")
    results.save(golden := str(tmp_path / "golden.json"))
    said = "so run --rtol auto accepts these outputs. Outputs alone cannot distinguish"
    with bind(Findings, Kept()), pytest.raises(InconclusiveError, match=said):
        diagnose(build_quantized(absorbs=True), [OnnxParty()], [feed], golden=golden)


def test_saved_tensors_of_the_model_before_quantization_blame_no_node(tmp_path: Path) -> None:
    reference = plain()
    names = [name for node in reference.graph.node for name in node.output if name != "y"]
    reference.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    feed = {"x": np.random.default_rng(0).standard_normal((8, SIZE)).astype(np.float32)}
    results = RunResults()
    results.add([OnnxrtParty().load(reference)(feed)], runner_name="onnxrt")
    results.save(golden := str(tmp_path / "golden.json"))
    kept, party = Kept(), OnnxrtParty().with_exact_products()
    assert party is not None
    onnx.save(build_quantized(), path := str(tmp_path / "m.onnx"))
    with bind(Findings, kept), pytest.raises(InconclusiveError):
        diagnose(path, [party], [feed], golden=golden)
    assert (kept.verdict, kept.culprits) == ("inconclusive", [])
    assert "are of a model that is not quantized" in kept.summary


def test_a_loss_on_generated_data_is_to_be_confirmed() -> None:
    kept = Kept()
    model = build_quantized(2)
    with bind(Findings, kept):
        assert not diagnose(model, [OnnxParty()], reference=plain())
    [culprit] = kept.culprits
    assert "product2" in culprit["nodes"]
    assert culprit["remedy"]["note"].endswith("real data gives the same result (--load-inputs).")


def test_a_weight_whose_scales_belong_to_another_axis_is_named() -> None:
    """The scales fit the columns, and are applied to the rows."""
    scales = np.geomspace(0.01, 1, SIZE).astype(np.float32)
    codes = np.random.default_rng(3).integers(-127, 128, (SIZE, SIZE)).astype(np.int8)
    ends = [value("x", [8, SIZE])], [value("y", [8, SIZE])]
    product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    pair = helper.make_node("DequantizeLinear", ["w_q", "w_s", "w_z"], ["w"], axis=0)
    held = {"w_q": codes, "w_s": scales, "w_z": np.zeros(SIZE, np.int8)}
    reference = make("reference", [product], *ends, weights={"w": codes * scales})
    _, [culprit] = found(make("model", [pair, product], *ends, weights=held), reference)
    assert (culprit["nodes"], culprit["cause"]) == (["product"], "weight")
