"""A quantized model that has to reach a goal: wrong parameters, the fewest nodes in float."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import combinations, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from attrs import evolve
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.edit.quantized_model import open_quantized
from polygraphy.adapters.onnx.edit.quantized_nodes import convert_codes
from polygraphy.adapters.onnx.storage import elements
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.onnxruntime.quantizing_again import (
    quantize_again as quantize_by_onnxruntime,
)
from polygraphy.application.diagnose.steps.quantized import memory, runs, switches
from polygraphy.application.diagnose.steps.quantized.runs import reduce_metric
from polygraphy.application.models.quantized_tensors import show_quantization
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.quantizing import rms_ratio
from polygraphy.domain.errors import BackendError, InconclusiveError, InputError, UsageError
from polygraphy.domain.quantization.causes import cause_of, is_suspect
from polygraphy.domain.quantization.losses import weight_loss
from polygraphy.domain.quantization.metrics import BUILT_IN, Outputs, RmsRatio
from polygraphy.domain.quantization.requantization import Requantization
from polygraphy.domain.quantization.rules import rules_of
from polygraphy.domain.tensors.parts import Layout
from polygraphy.ports.diagnosing import quantize_again
from polygraphy.ports.models import find_quantized_tensors
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept, network
from tests.support.diagnosis.quantized_chain import SIZE, build_quantized, plain
from tests.support.models import make, value

FEEDS = [
    {"x": np.random.default_rng(n).standard_normal((8, SIZE)).astype(np.float32)} for n in range(3)
]


def exact_party() -> OnnxrtParty:
    """Return a party whose products do not saturate on CPUs without VNNI."""
    party = OnnxrtParty().with_exact_products()
    assert party is not None
    return party


def found(
    model: onnx.ModelProto,
    reference: onnx.ModelProto | str | None = None,
    party: OnnxrtParty | None = None,
    **options: Any,
) -> Kept:
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [party or OnnxrtParty()], FEEDS, reference=reference or plain(), **options)
    return kept


def outputs(model: onnx.ModelProto, party: OnnxrtParty | None = None) -> Outputs:
    compute = (party or OnnxrtParty()).load(model)
    return Outputs([compute(feed) for feed in FEEDS])


def with_weight(model: onnx.ModelProto, name: str, change: Callable[[Any], Any]) -> onnx.ModelProto:
    for weight in model.graph.initializer:
        if weight.name == name:
            array = np.asarray(change(numpy_helper.to_array(weight)))
            weight.CopyFrom(numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize(
    ("name", "change", "cause"),
    [
        ("r1_s", lambda scale: scale * np.float32(0.1), "clipped range"),
        ("r1_s", lambda scale: scale * np.float32(15), "wide range"),
        ("r1_z", lambda zero: np.int8(100), "zero point"),
        ("w2_s", lambda scale: scale * np.float32(0.2), "scale"),
        ("w2_s", lambda scale: scale * np.float32(np.nan), "scale"),
        ("r1_s", lambda scale: scale * np.float32(0), "scale"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_cause(
    name: str, change: Callable[[Any], Any], cause: str, tmp_path: Path
) -> None:
    path, party = str(tmp_path / "fixed.onnx"), exact_party()
    model = with_weight(build_quantized(), name, change)
    kept = found(model, party=party, within=0.05, save=path)
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["cause"]) == ("fault", cause)
    assert RmsRatio()(outputs(onnx.load(path), party), outputs(plain())) <= 0.05


def with_transposes(model: onnx.ModelProto, *, quantized: bool) -> onnx.ModelProto:
    """Transpose a tensor twice; quantize what the first node computes with the same parameters."""
    read = "r1_d" if quantized else "r1"
    reader = next(n for n in model.graph.node if read in n.input and "r1_q" not in n.output)
    nodes = [helper.make_node("Transpose", [read], ["turned"], "turn")]
    if quantized:
        names = ["r1_s", "r1_z"]
        nodes.append(helper.make_node("QuantizeLinear", ["turned", *names], ["turned_q"]))
        nodes.append(helper.make_node("DequantizeLinear", ["turned_q", *names], ["turned_d"]))
    last = "turned_d" if quantized else "turned"
    nodes.append(helper.make_node("Transpose", [last], ["back"], "turn_back"))
    for at, node in enumerate(nodes, [*model.graph.node].index(reader)):
        model.graph.node.insert(at, node)
    reader.input[[*reader.input].index(read)] = "back"
    return model


def with_residual(model: onnx.ModelProto) -> onnx.ModelProto:
    """Add the input to a small share of the output."""
    model.graph.node[-1].output[0] = "z"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.15), "share"))
    model.graph.node.append(helper.make_node("Mul", ["z", "share"], ["small"], "scaled"))
    model.graph.node.append(helper.make_node("Add", ["small", "x"], ["y"], "residual"))
    return model


@pytest.mark.parametrize("change", [lambda model: model, with_residual], ids=["large", "usual"])
def test_tensors_that_share_a_wrong_parameter_are_one_culprit(change: Callable[[Any], Any]) -> None:
    model = change(with_transposes(build_quantized(), quantized=True))
    wrong = with_weight(model, "r1_s", lambda scale: scale * np.float32(0.2))
    [culprit] = found(wrong, change(with_transposes(plain(), quantized=False))).culprits
    assert (culprit["cause"], culprit["nodes"]) == ("clipped range", ["relu1"])
    assert "'turned' has the same parameters." in str(culprit)


def with_log(model: onnx.ModelProto) -> onnx.ModelProto:
    """Compute the logarithm of the output, which is positive and sometimes small."""
    model.graph.node[-1].output[0] = "z"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1e-4), "least"))
    model.graph.node.append(helper.make_node("Mul", ["z", "z"], ["square"], "square"))
    model.graph.node.append(helper.make_node("Add", ["square", "least"], ["positive"], "positive"))
    return model


def test_quantization_that_makes_an_output_infinite_is_explained() -> None:
    reference, model = with_log(plain()), with_log(build_quantized())
    held = {"positive_s": np.float32(0.05), "positive_z": np.int8(-128)}
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in held.items())
    names = ["positive_s", "positive_z"]
    nodes = [
        helper.make_node("QuantizeLinear", ["positive", *names], ["positive_q"]),
        helper.make_node("DequantizeLinear", ["positive_q", *names], ["positive_d"]),
    ]
    model.graph.node.extend([*nodes, helper.make_node("Log", ["positive_d"], ["y"], "log")])
    reference.graph.node.append(helper.make_node("Log", ["positive"], ["y"], "log"))
    [culprit] = found(model, reference).culprits
    assert (culprit["cause"], culprit["nodes"]) == ("quantization", ["log"])
    assert "rms ratio falls from inf" in str(culprit)


@pytest.mark.parametrize(("scale", "cause"), [(1 / 256, "quantization"), (0.1, "wide range")])
def test_the_fixed_range_of_a_bounded_operator_is_not_wrong(scale: float, cause: str) -> None:
    held = {
        "w": np.random.default_rng(3).standard_normal((1024, 4)).astype(np.float32),
        "s": np.float32(scale), "z": np.uint8(0),
    }  # fmt: skip
    soften = helper.make_node("Softmax", ["x"], ["p"], "soften")
    pair = [
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["p_q"]),
        helper.make_node("DequantizeLinear", ["p_q", "s", "z"], ["p_d"]),
    ]
    ends = [value("x", [8, 1024])], [value("y", [8, 4])]
    plain_nodes = [soften, helper.make_node("MatMul", ["p", "w"], ["y"], "product")]
    nodes = [soften, *pair, helper.make_node("MatMul", ["p_d", "w"], ["y"], "product")]
    reference = make("float", plain_nodes, *ends, weights={"w": held["w"]})
    feeds = [{"x": np.random.default_rng(1).standard_normal((8, 1024)).astype(np.float32)}]
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        model = make("quantized", nodes, *ends, weights=held)
        diagnose(model, [OnnxrtParty()], feeds, reference=reference)
    [culprit] = kept.culprits
    assert culprit["cause"] == cause


def test_a_weight_that_differs_from_the_reference_is_not_a_sensitive_node() -> None:
    model = build_quantized()
    held = {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}
    codes = np.rint(held["w2"] / held["w2_s"]).astype(np.int8)
    model.graph.node.remove(next(node for node in model.graph.node if "w2_q" in node.output))
    model.graph.initializer.append(numpy_helper.from_array(codes, "w2_q"))
    changed = with_weight(
        plain(), "w2", lambda weight: weight + np.float32(0.04) * np.eye(SIZE, dtype=np.float32)
    )
    culprit, _ = found(model, changed, within=0.03).culprits
    assert (culprit["cause"], culprit["nodes"]) == ("weight", ["product2"])


def test_a_bias_that_is_not_stored_for_the_product_of_scales_is_named(tmp_path: Path) -> None:
    # By itself, the bias is exact; integer kernels read it with the product of the scales.
    feeds = [{"x": np.random.default_rng(n).standard_normal((8, 16)).astype("f")} for n in range(3)]
    draw = np.random.default_rng(4).standard_normal
    weights = {"w": draw((16, 16)).astype("f"), "b": draw(16).astype("f")}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "gemm")]
    ends = [value("x", [8, 16])], [value("y", [8, 16])]
    reference = make("gemm", nodes, *ends, weights=weights)
    held = {
        "xs": np.float32(4 / 127), "ws": np.float32(np.abs(weights["w"]).max() / 127),
        "ys": np.float32(0.15), "z": np.int8(0), "bs": np.float32(1e-6),
    }  # fmt: skip
    held["wq"] = np.rint(weights["w"] / held["ws"]).astype(np.int8)
    held["bq"] = np.rint(weights["b"] / held["bs"]).astype(np.int32)
    quantized = [
        helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "ws", "z"], ["wd"]),
        helper.make_node("DequantizeLinear", ["bq", "bs"], ["bd"]),
        helper.make_node("Gemm", ["xd", "wd", "bd"], ["yf"], "gemm"),
        helper.make_node("QuantizeLinear", ["yf", "ys", "z"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "ys", "z"], ["y"]),
    ]
    model = make("quantized", quantized, *ends, weights=held)
    kept, path = Kept(), str(tmp_path / "fixed.onnx")
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], feeds, reference=reference, within=0.1, save=path)
    [culprit] = kept.culprits
    assert (culprit["cause"], culprit["nodes"]) == ("bias scale", ["gemm"])
    compute, right = OnnxrtParty().load(path), OnnxrtParty().load(reference)
    pairs = [Outputs([run(feed) for feed in feeds]) for run in (compute, right)]
    assert RmsRatio()(*pairs) <= 0.1


def test_an_output_without_axes_has_a_ratio() -> None:
    zero, two = ([{"count": np.array(number)}] for number in (0, 2))
    assert RmsRatio()(Outputs(zero), Outputs(two)) == 1


def test_a_part_that_becomes_constant_is_lost_however_small_its_error_is() -> None:
    """Scores near 0.5 that are all 0.5 are wrong by 4% of their size, and say nothing."""
    boxes, scores = np.full((1, 20), 640.0), np.linspace(0.47, 0.53, 20)[None]
    joined = Layout(
        "join", operands=(Layout("leaf", name="a"), Layout("leaf", name="b")), numbers=(1,),
        shape=(20, 20),
    )  # fmt: skip
    right = Outputs([{"y": np.concatenate([boxes, scores], 1)}])
    lost = Outputs([{"y": np.concatenate([boxes, np.full_like(scores, 0.5)], 1)}])
    near = Outputs([{"y": np.concatenate([boxes, scores + 0.02], 1)}])
    metric = RmsRatio(lambda name: joined)
    assert metric(lost, right) >= 1
    assert 0.03 < metric(near, right) < 0.05


def test_scales_of_an_invalid_shape_are_no_sites() -> None:
    held = {"wq": np.ones((4, 3, 2), np.int8), "ws": np.ones((4, 3), np.float32)}
    blocks = {"bq": np.zeros((4, 2, 8), np.uint8), "bs": np.ones((2, 7), np.float32)}
    ends = [value("x", [2, 32])], [value("y", [2, 4])]
    nodes = [helper.make_node("MatMul", ["x", "m"], ["y"], "blocks")]
    reference = make("reference", nodes, *ends, weights={"m": np.ones((32, 4), np.float32)})
    model = onnx.ModelProto()
    model.CopyFrom(reference)
    del model.graph.node[:]
    options = {"K": 32, "N": 4, "bits": 4, "block_size": 16, "domain": "com.microsoft"}
    model.graph.node.extend(
        [
            helper.make_node("DequantizeLinear", ["wq", "ws"], ["w"], axis=0),
            helper.make_node("Shape", ["w"], ["s"]),
            helper.make_node("MatMulNBits", ["x", "bq", "bs"], ["y"], "blocks", **options),
        ]
    )
    for name, array in {**held, **blocks}.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    sites = open_quantized(model, [reference]).sites
    assert [(site.name, site.scheme) for site in sites] == [("y", None)]


def branched(model: onnx.ModelProto, reads: str) -> onnx.ModelProto:
    """Add a second product that reads a tensor, to the output."""
    next(node for node in model.graph.node if "y" in node.output).output[0] = "y0"
    weight = np.random.default_rng(9).standard_normal((SIZE, SIZE)) / SIZE**0.5
    model.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), "v"))
    model.graph.node.append(helper.make_node("MatMul", [reads, "v"], ["z"], "branch"))
    model.graph.node.append(helper.make_node("Add", ["y0", "z"], ["y"], "sum"))
    return model


def without_pair(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let all nodes read `p1` without its pair."""
    pair = [node for node in model.graph.node if node.output[0] in ("p1_q", "p1_d")]
    for node in model.graph.node:
        node.input[:] = ["p1" if name == "p1_d" else name for name in node.input]
    for node in pair:
        model.graph.node.remove(node)
    return model


@pytest.mark.parametrize(
    ("model", "reference", "nodes"),
    [
        (without_pair(build_quantized(absorbs=True)), plain(), ["product2"]),
        (
            branched(build_quantized(absorbs=True), "p1"),
            branched(plain(), "r1"),
            ["branch"],
        ),
    ],
    ids=["whole pair", "one branch"],
)
def test_nodes_without_the_pair_that_replaces_a_relu_are_named(
    model: onnx.ModelProto, reference: onnx.ModelProto, nodes: list[str], tmp_path: Path
) -> None:
    path, party = str(tmp_path / "fixed.onnx"), exact_party()
    [culprit] = found(model, reference, party, within=0.04, save=path).culprits
    assert (culprit["cause"], culprit["nodes"], culprit["tensor"]) == ("missing pair", nodes, "r1")
    assert "after 'r1'" in culprit["remedy"]["note"]
    assert RmsRatio()(outputs(onnx.load(path), party), outputs(reference)) <= 0.04


def test_a_relu_that_is_missing_is_no_missing_pair_if_ranges_replace_no_relu() -> None:
    model = build_quantized()
    [relu] = [node for node in model.graph.node if node.name == "relu1"]
    reads = {"r1": relu.input[0]}
    model.graph.node.remove(relu)
    for node in model.graph.node:
        node.input[:] = [reads.get(name, name) for name in node.input]
    [culprit] = found(model, within=0.04).culprits
    assert culprit["cause"] != "missing pair"


@pytest.mark.parametrize("is_branch", [False, True])
def test_a_pair_whose_halves_differ_is_named(is_branch: bool) -> None:
    model = build_quantized()
    node = next(node for node in model.graph.node if node.output[0] == "r1_d")
    if is_branch:  # Another node reads the same codes correctly.
        other = helper.make_node("DequantizeLinear", node.input, ["other"])
        model.graph.node.insert([*model.graph.node].index(node), other)
        model.graph.node.append(helper.make_node("Identity", ["other"], ["z"]))
        model.graph.output.append(value("z", [8, SIZE]))
    node.input[1] = "wrong"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "wrong"))
    [culprit] = found(model, within=0.05).culprits
    assert (culprit["cause"], culprit["tensor"]) == ("pair mismatch", "r1")


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_wrong_scale_of_an_integer_operator_is_not_that_of_the_next_bias(
    per_channel: bool, tmp_path: Path
) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    nodes, held = [], {}
    rng = np.random.default_rng(3)
    for n, (reads, makes) in enumerate((("x4", "a"), ("a", "b"), ("b", "c"))):
        nodes.append(helper.make_node("Conv", [reads, f"w{n}", f"b{n}"], [makes], f"conv{n}"))
        held[f"w{n}"] = rng.normal(0, 0.5, (8, 4 if not n else 8, 1, 1)).astype(np.float32)
        held[f"b{n}"] = rng.normal(0, 1, 8).astype(np.float32)
    held["shape"] = np.array([8, 4, 4, SIZE // 16])
    nodes.insert(0, helper.make_node("Reshape", ["x", "shape"], ["x4"], "reshape"))
    ends = [value("x", [8, SIZE])], [value("c", [8, 8, 4, SIZE // 16])]
    reference = make("convolutions", nodes, *ends, weights=held, opset=12)  # Without axis.
    path = str(tmp_path / "q.onnx")
    copy = onnx.load_from_string(reference.SerializeToString())
    options = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8}
    options |= {"quant_format": QuantFormat.QOperator, "per_channel": per_channel}
    quantize_static(copy, path, _Reader(), **options)
    model = with_weight(onnx.load(path), "a_scale", lambda scale: scale * np.float32(3))
    [culprit] = found(model, reference, within=0.05).culprits
    assert (culprit["cause"], culprit["tensor"]) == ("wide range", "a")


def test_a_mask_does_not_hide_that_all_other_elements_are_lost() -> None:
    right = np.random.RandomState(0).randn(4, 12).astype(np.float32)
    right[:, 9:] = -1e4
    wrong = right.copy()
    wrong[:, :9] = 0
    assert RmsRatio()(Outputs([{"y": wrong}]), Outputs([{"y": right}])) == 1
    assert rms_ratio(wrong, right) == 1


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_the_nodes_that_stay_in_float_are_the_fewest(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Runs are the limit: a busy machine, here with seconds of an hour, gives the same answer.
    slow = SimpleNamespace(perf_counter=count(step=3600).__next__)
    for module in (runs, switches):
        monkeypatch.setattr(module, "time", slow)
    model, right = build_quantized(), outputs(plain())
    metric = RmsRatio()
    target = share * metric(outputs(model), right)
    opened = open_quantized(model, [plain()])
    rules = rules_of(opened.nodes, opened.sites)

    def left(nodes: tuple[str, ...]) -> float:
        off = set(range(len(opened.sites))) - rules.quantized_sites(nodes)
        return metric(outputs(opened.float_at_sites(off)), right)

    fewest = next(
        size
        for size in range(1, 9)
        if any(left(some) <= target for some in combinations(rules.candidates, size))
    )
    path = str(tmp_path / "mixed.onnx")
    kept = found(model, within=target, save=path)
    if fewest > max(8, len(rules.candidates) // 2):
        assert (kept.verdict, kept.culprits) == ("inconclusive", [])
        return
    [culprit] = kept.culprits
    assert len(culprit["nodes"]) == fewest
    is_repair = culprit["cause"] != "quantization"
    assert is_repair or "Not tried in the quantizer." in str(culprit["remedy"])
    assert metric(outputs(onnx.load(path)), right) <= target


class _Reader:
    def __init__(self) -> None:
        self.feeds = iter(FEEDS)

    def get_next(self) -> Any:
        return next(self.feeds, None)


@pytest.mark.parametrize("absorbs", [False, True])
def test_only_what_is_switched_on_is_computed(absorbs: bool) -> None:
    model = open_quantized(build_quantized(absorbs=absorbs), [plain()])
    everywhere, lazy = (model.add_switches(is_lazy=is_lazy) for is_lazy in (False, True))
    operators = {node.op_type for node in lazy.graph.node}
    assert operators.isdisjoint({"Where", "QuantizeLinear", "DequantizeLinear"})
    flags = np.random.default_rng(2).random((4, len(model.sites))) < 0.5
    switch = lazy.graph.input[-1].name
    for flag in (*flags, flags[0] | True):
        one, other = (
            OnnxrtParty().load(each)({**FEEDS[0], switch: flag}) for each in (everywhere, lazy)
        )
        np.testing.assert_array_equal(one["y"], other["y"])


@pytest.mark.slow
def test_the_line_is_tried_in_the_quantizer_that_made_the_model(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_static

    path = str(tmp_path / "quantized.onnx")
    quantize_static(plain(), path, _Reader())
    before = RmsRatio()(outputs(onnx.load(path)), outputs(plain()))
    [culprit] = found(onnx.load(path), within=0.6 * before, save=path + ".mixed").culprits
    note = str(culprit["remedy"])
    model = onnx.load(path)
    model.metadata_props.add(key="olive_version", value="0.13.0")  # Olive calls this quantizer.
    [by_olive] = found(model, within=0.6 * before).culprits
    listed = json.dumps(culprit["nodes"])
    assert f'"nodes_to_exclude": {listed} in the configuration' in str(by_olive["remedy"])
    assert "Quantized again: " in str(by_olive["remedy"])
    quantize_static(plain(), path, _Reader(), nodes_to_exclude=list(culprit["nodes"]))
    after = RmsRatio()(outputs(onnx.load(path)), outputs(plain()))
    assert f"quantize_static(..., nodes_to_exclude={culprit['nodes']!r})" in note
    assert f"Quantized again: {after:.3g}." in note and "--save" not in note


def test_the_line_is_tried_although_inputs_and_outputs_of_the_reference_have_other_names(
    tmp_path: Path,
) -> None:
    from onnxruntime.quantization import quantize_static

    path, names = str(tmp_path / "quantized.onnx"), {"x": "pixels", "y": "scores"}
    quantize_static(plain(), path, _Reader())
    reference = plain()
    for node in reference.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for end in (*reference.graph.input, *reference.graph.output):
        end.name = names[end.name]
    before = RmsRatio()(outputs(onnx.load(path)), outputs(plain()))
    [culprit] = found(onnx.load(path), reference, within=0.6 * before).culprits
    assert "Quantized again: 0." in culprit["remedy"]["note"]


def test_the_quantizer_gets_the_operators_that_the_model_quantizes(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_static

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Sigmoid", ["a"], ["b"], "sigmoid"),
        helper.make_node("Add", ["a", "b"], ["y"], "sum"),
    ]
    ends = [value("x", [8, SIZE])], [value("y", [8, SIZE])]
    reference = make("sum", nodes, *ends, weights={"w": np.eye(SIZE, dtype=np.float32)})
    path = str(tmp_path / "quantized.onnx")
    copy = onnx.load_from_string(reference.SerializeToString())
    quantize_static(copy, path, _Reader(), op_types_to_quantize=["MatMul"])
    model = onnx.load(path)
    opened = open_quantized(model, [reference])
    request = Requantization("static", reference, model, opened.sites, FEEDS, [[]], [False], 60)
    [again] = quantize_by_onnxruntime(request) or []
    assert count_pairs(again) == count_pairs(model) > 0


def test_weights_that_are_quantized_at_run_time_do_not_hide_the_options(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    array = np.random.default_rng(1).normal(size=(4, 8, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(array)),
        helper.make_node("Constant", [], ["shape"], value_ints=[1, 8, SIZE]),
        helper.make_node("Reshape", ["x", "shape"], ["rows"], "reshape"),
        helper.make_node("Conv", ["rows", "w"], ["y"], "conv"),
    ]
    reference = make("constant", nodes, [value("x", [8, SIZE])], [value("y", [1, 4, SIZE])])
    path = str(tmp_path / "quantized.onnx")
    quantize_dynamic(onnx.load_from_string(reference.SerializeToString()), path)
    model = onnx.load(path)
    sites = open_quantized(model, [reference]).sites
    request = Requantization("dynamic", reference, model, sites, FEEDS, [[]], [False], 60)
    [again] = quantize_by_onnxruntime(request) or []
    assert sites and np.array_equal(outputs(again).samples[0]["y"], outputs(model).samples[0]["y"])


def count_pairs(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "QuantizeLinear" for node in model.graph.node)


def test_a_model_that_reaches_the_goal_is_not_blamed() -> None:
    assert (kept := found(build_quantized(), within=0.1)).verdict == "agree" and not kept.culprits


def test_what_differs_without_quantization_is_searched_as_usual() -> None:
    model = build_quantized()
    next(node for node in model.graph.node if node.name == "relu2").op_type = "Abs"
    [culprit] = found(model, within=0.05).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["relu2"], "structure")


def test_the_metric_may_be_a_function_of_all_outputs() -> None:
    def worst(values: Any, right: Any) -> float:
        assert values["y"].shape == (24, SIZE) and values[0]["y"].shape == (8, SIZE)
        return float(np.abs(values["y"] - right["y"]).max())

    model = with_weight(build_quantized(), "r1_s", lambda scale: scale * np.float32(0.1))
    [culprit] = found(model, within=0.5, metric=worst).culprits
    assert culprit["cause"] == "clipped range"


def _ending(values: Any, right: Any) -> float:
    raise SystemExit(7)


class _MessageCopier(OnnxrtParty):
    """Leaves out a Relu, unless it may not rewrite the graph."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        is_quantized = any(node.op_type == "QuantizeLinear" for node in copy.graph.node)
        for node in copy.graph.node if is_quantized and not plain else ():
            if node.op_type == "Relu" and node.output[0] == "r2":
                node.op_type = "Identity"
        return super().load(copy, plain=plain, without=without)


def test_a_loss_that_the_backends_rewrites_cause_is_not_quantization() -> None:
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(build_quantized(), [_MessageCopier()], FEEDS, reference=plain(), within=0.1)
    assert [one for one in kept.culprits if one["party"] == "model"] == []
    assert "match with all rewrites of onnxrt disabled" in kept.summary


def test_other_ways_to_quantize_are_tried_if_many_nodes_lose_a_little() -> None:
    kept = found(build_quantized(), within=0.006)
    assert kept.verdict == "inconclusive"
    tried = kept.summary.partition("Tried with this model")[2]
    values = {name: float(value) for value, name in re.findall(r"([\d.e-]+) with ([\w-]+)", tried)}
    assert values.keys() == {"a", "16-bit", "the", "activations"}
    assert 0.006 < values["activations"] <= values["16-bit"] < 1.5 * values["activations"] < 0.0351


def test_a_target_between_two_ways_to_compute_does_not_blame_the_backend() -> None:
    class Rounding(OnnxrtParty):
        def load(self, model: Any, *, plain: bool = False, **options: Any) -> Any:
            compute = super().load(model, plain=plain, **options)
            factor = 1.0 if plain or not is_quantized_chain(model) else 1.003
            return lambda feed: {name: factor * y for name, y in compute(feed).items()}

    def is_quantized_chain(model: Any) -> bool:
        return any(node.op_type == "QuantizeLinear" for node in model.graph.node)

    own, target = (RmsRatio()(outputs(build_quantized()), outputs(plain())), 0.0352)
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(build_quantized(), [Rounding()], FEEDS, reference=plain(), within=target)
    assert own < target
    assert [one["cause"] for one in kept.culprits] == ["quantization"]


class SaturatingParty(OnnxrtParty):
    """Computes as a CPU without VNNI: sums of integer products saturate."""

    def load(self, model: Any, **options: Any) -> Any:
        compute = super().load(model, **options)
        is_quantized = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
        if self._has_exact_products or not is_quantized:
            return compute
        return lambda feed: {name: np.clip(y, -1, 1) for name, y in compute(feed).items()}


def test_products_that_saturate_are_not_a_sensitive_node() -> None:
    kept = Kept()
    with bind(Findings, kept):
        diagnose(build_quantized(), [SaturatingParty()], FEEDS, reference=plain(), within=0.05)
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["cause"], culprit["party"]) == ("fault", "saturation", "onnxrt")


def test_products_that_saturate_are_named_between_two_backends() -> None:
    kept, other = Kept(), OnnxrtParty(graph_optimization_level="DISABLE_ALL", name="other")
    with bind(Findings, kept):
        diagnose(build_quantized(), [SaturatingParty(), other], FEEDS)
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["cause"], culprit["party"]) == ("fault", "saturation", "onnxrt")
    assert "the difference from the other backend, relative to the RMS, falls" in str(culprit)
    assert "run --rtol auto accepts" not in str(culprit)


def test_a_diagnosis_of_backends_says_if_run_accepts_what_it_proves() -> None:
    class Slightly(SaturatingParty):
        def load(self, model: Any, **options: Any) -> Any:
            compute = OnnxrtParty().load(model, **options)
            factor = 1.0 if self._has_exact_products else 1.01
            return lambda feed: {name: factor * y for name, y in compute(feed).items()}

    kept, other = Kept(), OnnxrtParty(graph_optimization_level="DISABLE_ALL", name="other")
    with bind(Findings, kept):
        diagnose(build_quantized(), [Slightly(), other], FEEDS)
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["cause"]) == ("fault", "saturation")
    assert "so run --rtol auto accepts these outputs" in " ".join(culprit["evidence"])


class RefusingParty(OnnxrtParty):
    """Refuses a quantized model without saturation, and without rewrites."""

    def load(self, model: Any, *, plain: bool = False, **options: Any) -> Any:
        if self._has_exact_products or plain:
            raise BackendError("refused", backend="onnxruntime")
        return super().load(model, plain=plain, **options)


def test_options_that_a_backend_refuses_do_not_end_the_search() -> None:
    model, kept = (
        with_weight(build_quantized(), "r1_s", lambda scale: scale * np.float32(0.1)),
        Kept(),
    )
    with bind(Findings, kept):
        diagnose(model, [RefusingParty()], FEEDS, reference=plain(), within=0.05)
    assert [culprit["cause"] for culprit in kept.culprits] == ["clipped range"]


def test_a_metric_may_change_its_arrays() -> None:
    def careless(values: Any, right: Any) -> float:
        ratio = RmsRatio()(values, right)
        for sample in range(len(FEEDS)):
            values[sample]["y"][:] = right[sample]["y"][:] = 0
        return ratio

    model = with_weight(build_quantized(), "r1_s", lambda scale: scale * np.float32(0.1))
    [careful], [other] = (
        found(model, within=0.05, metric=metric).culprits for metric in (RmsRatio(), careless)
    )
    assert careful["evidence"][0] == other["evidence"][0]


def _broken(values: Any, right: Any) -> float:
    raise KeyError("labels")


def test_the_metrics_that_are_built_in() -> None:
    right = Outputs([{"y": np.array([[4.0, 1, 0], [0, 3, 0]])}])
    other = Outputs([{"y": np.array([[4.0, 1, 0], [0, 3, 4]])}])
    scores = np.exp([[4.0, 1, 0], [0, 3, 0]])
    expected = scores / scores.sum(1, keepdims=True)
    moved = np.exp([[4.0, 1, 0], [0, 3, 4]])
    moved /= moved.sum(1, keepdims=True)
    divergence = float(np.mean(np.sum(expected * np.log(expected / moved), axis=1)))
    assert BUILT_IN["top1"](other, right) == 0.5 and BUILT_IN["top1"](right, right) == 0
    assert BUILT_IN["kl"](other, right) == pytest.approx(divergence)
    assert BUILT_IN["sqnr"](other, right) == pytest.approx(10 * np.log10(16 / 26))
    assert BUILT_IN["sqnr"](right, right) == -np.inf


def test_the_rms_ratio_follows_its_reference() -> None:
    ratio, values = RmsRatio(), Outputs([{"y": np.array([1.0, 1])}])
    references = [Outputs([{"y": np.array([size, size])}]) for size in (2.0, 4.0)]
    assert [ratio(values, one) for one in (*references, *references)] == [0.5, 0.75] * 2


@pytest.mark.parametrize("metric", ["top1", "kl", "sqnr"])
def test_a_metric_that_is_built_in_judges_the_model(metric: str) -> None:
    model = with_weight(build_quantized(), "r1_s", lambda scale: scale * np.float32(0.05))
    within = 0.5 * BUILT_IN[metric](outputs(model), outputs(plain()))
    within = within if metric != "sqnr" else -15.0
    [culprit] = found(model, within=within, metric=metric).culprits
    assert culprit["cause"] == "clipped range"


def _with_input(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.input.append(helper.make_tensor_value_info("mask", onnx.TensorProto.FLOAT, [2]))
    return model


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"metric": _broken}, InputError, r"_broken raises KeyError: '\w+'\. It receives"),
        ({"metric": _ending}, InputError, r"_ending raises SystemExit: 7\."),
        ({"memory_budget": 1000}, UsageError, r"needs about 0\.\d+ MB of memory"),
        ({"reference": network()}, UsageError, r"input 'x' has shape \(3, 6\), but"),
        ({"metric": lambda values, right: float("nan")}, InputError, "returns NaN"),
        ({"metric": lambda values, right: float("-inf")}, InputError, "returns -inf, although"),
        ({"metric": lambda values, right: True}, InputError, "returns a boolean"),
        ({"metric": lambda values, right: right["y"]}, InputError, r"an array of shape \(24, 32\)"),
        ({"metric": lambda values, right: "0"}, InputError, "returns a value of type str"),
        ({"metric": lambda values, right: np.complex64(1)}, InputError, "of type complex64"),
        ({"metric": lambda values, right: 10**400}, InputError, "returns a value of type int"),
        ({"reference": _with_input(plain())}, UsageError, "no input that corresponds to 'mask'"),
        ({"within": -1.0}, UsageError, "--within -1 cannot be reached: rms is never negative"),
        ({"within": float("inf")}, UsageError, "--within inf accepts every model"),
        ({"within": -0.5, "metric": "kl"}, UsageError, "kl is never negative"),
        ({"metric": "psnr"}, UsageError, "'psnr' is not a metric"),
        ({"reference": build_quantized()}, UsageError, "--within needs a quantized model"),
    ],
)
def test_bad_input_is_one_line(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        found(build_quantized(), **{"within": 0.01, **options})


def test_weights_are_measured_one_by_one_if_a_search_does_not_fit_into_memory() -> None:
    model = build_quantized()
    node = next(node for node in model.graph.node if "w2_d" in node.output)
    node.input[1] = "wrong"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.001), "wrong"))
    kept = found(model, within=0.01, memory_budget=40_000)
    assert kept.verdict == "inconclusive"
    assert re.search(r"misses the target: rms .* because this needs about", kept.summary)
    assert re.search(
        r": the weight of 'product2' loses [^;]* possible; wrong: pair mismatch\);", kept.summary
    )

    assert "With the wrong weight corrected, rms ratio is" in kept.summary


def test_a_wrong_weight_is_corrected_even_if_a_search_does_not_fit_into_memory(
    tmp_path: Path,
) -> None:
    path, party, reference = tmp_path / "fixed.onnx", exact_party(), tmp_path / "float.onnx"
    onnx.save(plain(), str(reference))
    model = with_weight(build_quantized(), "w2_s", lambda scale: scale * np.float32(0.2))
    options: dict[str, Any] = {"party": party, "memory_budget": 40_000, "save": str(path)}
    kept = found(model, str(reference), within=0.05, **options)
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["cause"], culprit["nodes"]) == ("fault", "scale", ["product2"])
    assert RmsRatio()(outputs(onnx.load(path), party), outputs(plain())) <= 0.05


def test_a_reference_that_is_too_large_for_a_search_stays_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elements, "_LARGE", 0)
    path, party, loaded = str(tmp_path / "float.onnx"), OnnxrtParty(), []
    onnx.save(plain(), path, save_as_external_data=True, size_threshold=0)
    load = party.load

    def record(model: Any, **options: Any) -> Any:
        loaded.append(model)
        return load(model, **options)

    party.load = record
    found(build_quantized(), path, party, within=0.01, memory_budget=40_000)
    assert path in loaded


@pytest.mark.parametrize(
    ("within", "why"), [(10.0, "reaches the target as it is"), (1e-6, "was found")]
)
def test_a_model_that_is_not_saved_is_explained(
    within: float, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mixed.onnx"
    found(build_quantized(), within=within, save=str(path))
    assert not path.exists() and why in capsys.readouterr().out


def test_a_weight_that_does_not_fit_into_memory_is_refused_before_a_model_runs() -> None:
    party = OnnxrtParty()
    party.load = lambda *model, **options: pytest.fail("a model runs")
    with pytest.raises(UsageError, match="needs about") as caught:
        diagnose(
            build_quantized(), [party], FEEDS, reference=plain(), within=0.01, memory_budget=1000
        )
    assert "With --memory-budget 1M or more, each weight is measured by itself" in str(caught.value)


def test_a_model_that_protobuf_cannot_copy_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_MESSAGE_BYTES", 100)
    party = OnnxrtParty()
    party.load = lambda *model, **options: pytest.fail("a model runs")
    with pytest.raises(UsageError, match="can have at most 2 GB"):
        diagnose(build_quantized(), [party], FEEDS, reference=plain(), within=0.01)
    path = str(tmp_path / "m.onnx")
    onnx.save(build_quantized(), path)
    with pytest.raises(UsageError, match="can have at most 2 GB"):
        show_quantization(path, find_quantized_tensors(path), None, ["data.json"], is_complete=True)


def test_a_target_that_float_misses_is_reported() -> None:
    kept = found(build_quantized(), within=0.1, metric=lambda values, right: 0.5)
    assert kept.verdict == "inconclusive" and "Choose a larger --within" in kept.summary


def test_a_metric_that_is_infinite_in_float_is_not_a_matter_of_the_target() -> None:
    kept = found(build_quantized(), within=0.1, metric=lambda values, right: np.inf)
    assert kept.verdict == "inconclusive"
    assert "is infinite" in kept.summary and "larger --within" not in kept.summary


def test_every_finite_metric_is_an_improvement_of_an_infinite_one() -> None:
    assert 1e300 < reduce_metric(np.inf) < np.inf


def test_a_transposed_weight_of_a_gemm_is_measured() -> None:
    draw = np.random.default_rng(0)
    weight = draw.normal(size=(6, 4)).astype(np.float32)
    gemm = helper.make_node("Gemm", ["x", "w", "b"], ["y"], "gemm", transB=1)
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [3, 4]), ("y", [3, 6]))]
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(weight[:, 0], "b")]
    graph = helper.make_graph([gemm], "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    quantized = _quantize_dynamically(model)
    [site] = open_quantized(quantized, [model]).sites
    assert site.exact is not None and site.values is not None
    assert np.allclose(site.exact, weight.T)
    assert np.abs(site.values - site.exact).max() < 0.05


def test_the_channels_of_a_transposed_weight_are_its_rows() -> None:
    weight = np.ones((4, 6), np.float32) * [[1.0], [1.0], [1.0], [0.01]]
    model = make_gemm(weight, transposed=True)
    [site] = [one for one in open_quantized(model, []).sites if one.kind == "weight"]
    assert site.channel_axis == 0
    loss = weight_loss(evolve(site, exact=weight))
    assert loss is not None and loss.shared is not None
    assert loss.shared == pytest.approx((0.213, 0.0), abs=0.001)


def make_gemm(weight: Any, *, transposed: bool) -> onnx.ModelProto:
    """Return a Gemm with an int8 weight, one scale for all channels."""
    scale = np.float32(np.abs(weight).max() / 127)
    codes = np.rint(weight / scale).astype(np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w_q", "s"], ["w"], "weight"),
        helper.make_node("Gemm", ["x", "w"], ["y"], "gemm", transB=int(transposed)),
    ]
    size, count = weight.shape[::-1] if transposed else weight.shape
    ends = [value("x", [2, size])], [value("y", [2, count])]
    return make("gemm", nodes, *ends, weights={"w_q": codes, "s": scale})


def _quantize_dynamically(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/q.onnx"
        quantize_dynamic(model, path, weight_type=QuantType.QUInt8)
        return onnx.load(path)


def test_blocks_whose_halves_are_exchanged_are_named() -> None:
    rng = np.random.default_rng(1)
    weight = rng.normal(size=(32, 32)).astype(np.float32)
    step = (np.abs(weight).max(0) / 7).astype(np.float32)
    codes = (np.clip(np.rint(weight / step), -8, 7) + 8).astype(np.uint8).T
    size = {"K": 32, "N": 32, "bits": 4, "block_size": 32}

    def model(packed: Any) -> onnx.ModelProto:
        node = helper.make_node(
            "MatMulNBits", ["x", "b", "s"], ["y"], "product", domain="com.microsoft", **size
        )
        from tests.support.models import make, value

        ends = [value("x", [8, 32])], [value("y", [8, 32])]
        held = {"b": packed[:, None], "s": step}
        return make("blocks", [node], *ends, weights=held, domains=["com.microsoft"])

    product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    ends = [value("x", [8, 32])], [value("y", [8, 32])]
    right = make("plain", [product], *ends, weights={"w": weight})
    assert found(model(codes[:, ::2] | codes[:, 1::2] << 4), right, within=0.2).verdict == "agree"
    [culprit] = found(model(codes[:, 1::2] | codes[:, ::2] << 4), right, within=0.2).culprits
    assert (culprit["cause"], culprit["nodes"]) == ("nibble order", ["product"])


@pytest.mark.parametrize("kind", ["int4", "uint4", "uint8", "uint8 without zero point", "rows"])
def test_an_embedding_in_few_bits_is_measured_and_repaired(kind: str) -> None:

    weight = np.random.default_rng(2).normal(size=(12, 32)).astype(np.float32)
    ends = [value("x", [5], onnx.TensorProto.INT64)], [value("y", [5, 32])]
    right = make(
        "plain", [helper.make_node("Gather", ["w", "x"], ["y"])], *ends, weights={"w": weight}
    )
    dtype = "uint4" if kind.startswith("uint8") else "int8" if kind == "rows" else kind
    zero = {"int4": 0, "int8": 0}.get(dtype, 8)
    blocks = weight.reshape(12, 2, 16)
    size = np.abs(blocks).max(-1) if kind != "rows" else np.abs(weight).max()
    scale = (size / (127 if kind == "rows" else 7)).astype(np.float32)
    codes = np.rint(weight / (scale.repeat(16, 1) if kind != "rows" else scale)) + zero

    def model(scale: Any) -> onnx.ModelProto:
        if kind == "rows":
            weights = {
                "c": codes.astype(np.int8),
                "s": np.asarray(scale, np.float32),
                "z": np.array(0, np.int8),
            }
            nodes = [
                helper.make_node("Gather", ["c", "x"], ["r"]),
                helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
            ]
            return make("rows", nodes, *ends, weights=weights, opset=19)
        held = codes.astype(np.uint8)
        stored = {"c": convert_codes(codes, dtype), "z": convert_codes(0 * scale + zero, dtype)}
        if kind.startswith("uint8"):
            stored = {"c": held[:, ::2] | held[:, 1::2] << 4, "z": np.full((12, 1), 0x88, np.uint8)}
        names = ["c", "x", "s", "z"][: 3 if kind.endswith("without zero point") else 4]
        node = helper.make_node(
            "GatherBlockQuantized", names, ["y"], block_size=16, domain="com.microsoft"
        )
        used = {name: array for name, array in {**stored, "s": scale}.items() if name in names}
        versions = {"opset": 21, "ir_version": 10, "domains": ["com.microsoft"]}
        return make("g", [node], *ends, weights=used, **versions)

    [site] = open_quantized(model(scale), [right]).sites
    loss = weight_loss(site)
    assert loss is not None and loss.loss < 0.15 and not is_suspect(site, loss)
    opened = open_quantized(model(scale[::-1].copy() if scale.ndim else 3 * scale), [right])
    [site], loss = opened.sites, weight_loss(opened.sites[0])
    assert loss is not None and is_suspect(site, loss)
    assert cause_of(site, loss) == ("scale" if kind == "rows" else "scale order")
    feed = {"x": np.arange(5)}
    made, expected = (
        OnnxrtParty().load(one)(feed)["y"]
        for one in (opened.with_schemes({0: loss.best}).float_at_sites(()), right)
    )
    assert np.sqrt(np.mean((made - expected) ** 2)) < 0.15


def test_operators_that_move_integers_are_in_float_with_their_sites() -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    rng = np.random.default_rng(4)
    weights = {
        "table": rng.normal(size=(16, 8)).astype(np.float32),
        "b": rng.normal(size=8).astype(np.float32),
        "pads": np.array([0, 1, 0, 1]),
        "zero": np.array(0, np.float32),
        "w": rng.normal(size=(10, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["rows"], "gather"),
        helper.make_node("Add", ["rows", "b"], ["sum"], "add"),
        helper.make_node("Relu", ["sum"], ["positive"], "relu"),
        helper.make_node("Shape", ["positive"], ["shape"], "shape"),  # Reads what is dequantized.
        helper.make_node("Reshape", ["positive", "shape"], ["same"], "reshape"),
        helper.make_node("Split", ["same"], ["left", "right"], "split", axis=1),
        helper.make_node("Concat", ["right", "left"], ["turned"], "concat", axis=1),
        helper.make_node("Pad", ["turned", "pads", "zero"], ["padded"], "pad"),
        helper.make_node("MatMul", ["padded", "w"], ["y"], "matmul"),
    ]
    ends = [value("i", [5], onnx.TensorProto.INT64)], [value("y", [5, 4])]
    right = make("moves", nodes, *ends, weights=weights, opset=13)
    feeds = [{"i": rng.integers(0, 16, 5)} for _ in range(3)]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(feeds)

        def get_next(self) -> Any:
            return next(self.left, None)

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/q.onnx"
        quantize_static(right, path, Reader(), quant_format=QuantFormat.QOperator)
        quantized = onnx.load(path)
    opened = open_quantized(quantized, [right])
    for model, same in (
        (opened.float_at_sites(()), quantized),
        (opened.float_at_sites(range(len(opened.sites))), right),
    ):
        made, expected = (OnnxrtParty().load(one)(feeds[0])["y"] for one in (model, same))
        assert np.allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("both", "Quantized again: "),
        ("missing", "Not tried in the quantizer: nncf is not installed."),
        ("failing", "Not tried in the quantizer: nncf fails: no such option."),
        ("other", "Not tried in the quantizer: nncf does not reproduce this model"),
    ],
)
def test_the_quantizer_of_another_package_gets_the_ranges_and_the_line(
    made: str, said: str
) -> None:
    model = build_quantized()
    model.metadata_props.add(key="maker", value="nncf")
    before = RmsRatio()(outputs(model), outputs(plain()))
    requests: list[Requantization] = []

    def again(request: Requantization) -> list[Any] | None:
        requests.append(request)
        if made == "failing":
            raise RuntimeError("no such option")
        same = plain() if made == "other" else request.model
        return None if made == "missing" else [same, plain()]

    with bind(quantize_again, again, "nncf"):
        [culprit] = found(model, within=0.7 * before).culprits
    [request] = requests
    assert [*request.excluded] == [[], list(culprit["nodes"])]
    assert len(request.feeds) == len(FEEDS) and request.seconds > 0
    assert said in str(culprit["remedy"]) and "IgnoredScope" in str(culprit["remedy"])


def test_tensors_that_are_only_quantized_without_the_nodes_are_told() -> None:
    def again(request: Requantization) -> list[Any]:
        made = onnx.ModelProto()
        made.CopyFrom(request.model)
        last = next(node for node in made.graph.node if "y" in node.output)
        last.output[0] = "other"
        for op, read, to in (("Quantize", "other", "codes"), ("Dequantize", "codes", "y")):
            made.graph.node.append(helper.make_node(f"{op}Linear", [read, "r1_s", "r1_z"], [to]))
        return [request.model, made]

    model = build_quantized()
    model.metadata_props.add(key="maker", value="modelopt")
    before = RmsRatio()(outputs(model), outputs(plain()))
    with bind(quantize_again, again, "modelopt"):
        [culprit] = found(model, within=0.7 * before).culprits
    assert "The quantizer then quantizes 1 other tensor, here" in culprit["remedy"]["note"]


def with_products(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that stores codes of weights, and reads them through Cast, Sub and Mul."""
    held = {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        name = node.input[0].removesuffix("_q")
        if not (name in held and node.op_type.endswith("Linear")):
            nodes.append(node)
        elif node.op_type == "DequantizeLinear":
            codes = np.clip(np.rint(held[name] / held[f"{name}_s"]) + 3, -128, 127)
            model.graph.initializer.append(
                numpy_helper.from_array(codes.astype(np.int8), f"{name}_c")
            )
            model.graph.initializer.append(numpy_helper.from_array(np.float32(3), f"{name}_three"))
            nodes += [
                helper.make_node("Cast", [f"{name}_c"], [f"{name}_f"], to=onnx.TensorProto.FLOAT),
                helper.make_node("Sub", [f"{name}_f", f"{name}_three"], [f"{name}_e"]),
                helper.make_node("Mul", [f"{name}_s", f"{name}_e"], [node.output[0]]),
            ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def test_weights_that_are_read_through_cast_sub_and_mul_are_sites(tmp_path: Path) -> None:
    model = with_products(
        with_weight(build_quantized(), "w2_s", lambda scale: scale * np.float32(0.2))
    )
    assert "Sub" in {node.op_type for node in model.graph.node}
    path = str(tmp_path / "fixed.onnx")
    [culprit] = found(model, within=0.05, save=path).culprits
    assert culprit["cause"] == "scale"
    assert RmsRatio()(outputs(onnx.load(path)), outputs(plain())) <= 0.05


def test_an_lstm_with_two_outputs_is_one_site(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    draw = np.random.default_rng(4).standard_normal
    weights = {name: draw((1, 16, 4)).astype(np.float32) for name in ("w", "r")}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["h", "last"], "lstm", hidden_size=4)
    ends = [value("h", [3, 1, 1, 4]), value("last", [1, 1, 4])]
    model = make("lstm", [node], [value("x", [3, 1, 4])], ends, weights=weights)
    quantize_dynamic(model, tmp_path / "q.onnx")
    opened = open_quantized(onnx.load(str(tmp_path / "q.onnx")), [model])
    assert [(site.name, site.kind) for site in opened.sites] == [("h", "operator")]
    feed = {"x": draw((3, 1, 4)).astype(np.float32)}
    quantized, off, exact = (
        OnnxrtParty().load(form)(feed)
        for form in (opened.float_at_sites([]), opened.float_at_sites([0]), model)
    )
    for name in ("h", "last"):
        assert np.array_equal(off[name], exact[name])
        assert not np.array_equal(quantized[name], exact[name])


def rename_all(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give all nodes, and all tensors but inputs and outputs, names that say nothing."""
    fixed = {one.name for one in (*model.graph.input, *model.graph.output)}
    names = {name: name for name in fixed}
    number = count()

    def new_name(name: str) -> str:
        return names.setdefault(name, f"t{next(number)}") if name else ""

    for node in model.graph.node:
        node.name = f"n{next(number)}"
        node.input[:], node.output[:] = map(new_name, node.input), map(new_name, node.output)
    for weight in model.graph.initializer:
        weight.name = new_name(weight.name)
    return model


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_model_with_other_names_gets_those_of_its_reference(is_dynamic: bool) -> None:
    model = _quantize_dynamically(plain()) if is_dynamic else build_quantized(absorbs=True)
    expected, opened = open_quantized(model, [plain()]), open_quantized(
        rename_all(model), [plain()]
    )
    assert [node.name for node in opened.nodes] == [node.name for node in expected.nodes]
    assert len(opened.sites) == len(expected.sites) > 2
    names = {site.name for site in expected.sites if site.kind == "operator"}
    assert {site.name for site in opened.sites} >= names and bool(names) == is_dynamic


def test_blocks_in_the_format_qdq_have_the_names_that_their_quantizer_knows() -> None:
    text = """
    <ir_version: 10, opset_import: ["": 21]>
    m (float[1,32] x) => (float[1,2] y)
    <int8[32,2] w_DQ_Q8 = {CODES}, float[2,2] s = {0.5, 0.5, 0.25, 0.25}>
    {
        v = DequantizeLinear <axis = 0, block_size = 16> (w_DQ_Q8, s)
        y = MatMul (x, v)
    }
    """
    model = onnx.parser.parse_model(text.replace("CODES", ",".join(map(str, range(64)))))
    model.graph.node[0].name, model.graph.node[1].name = "product_DQ_Q8", "product_matmul_Q8"
    weight = numpy_helper.from_array(np.ones((32, 2), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    graph = helper.make_graph([node], "m", model.graph.input, model.graph.output, [weight])
    opened = open_quantized(model, [helper.make_model(graph)])
    assert (opened.producer, [node.name for node in opened.nodes]) == ("nbits", ["product"])


def test_a_reference_that_is_too_large_to_be_copied_is_loaded_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "plain.onnx")
    onnx.save(plain(), path)
    monkeypatch.setattr("polygraphy.adapters.onnx.run.opening.has_to_be_split", lambda model: True)
    party, loaded = OnnxrtParty(), list[Any]()
    load = party.load
    monkeypatch.setattr(
        party, "load", lambda model, **how: loaded.append(model) or load(model, **how)
    )
    diagnose(build_quantized(), [party], FEEDS, reference=path, within=0.9)
    assert path in loaded and all(model == path or len(model.graph.node) > 7 for model in loaded)
