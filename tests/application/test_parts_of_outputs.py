"""An output that is put together of parts is judged part by part, in every command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnx.describe.facts import facts_of
from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.compare.verification import verify
from polygraphy.application.diagnose.precision.half import try_half_precision
from polygraphy.backend.onnx import OnnxReferenceRunner, convert_to_fp16
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, RunResults, SimpleCompareFunc
from polygraphy.diagnose import diagnose, diagnose_half
from polygraphy.domain.diagnosis.culprit import AGREE, FAULT, MODEL
from polygraphy.domain.rounding import deviation, rounding_between
from polygraphy.domain.tensors.parts import Layout, label_parts
from polygraphy.ports.diagnosing import DiagnosisReports
from tests.support.joined import (
    JOINED,
    Joined,
    detector,
    feeds_of,
    split_detector,
    suppressed,
    two_heads,
)
from tests.support.models import make, value

AUTO = SimpleCompareFunc(rtol="auto", atol="auto")
ERROR = 3e-4
IMAGES = [{"x": np.random.RandomState(one).randn(1, 3, 8, 8).astype(np.float32)} for one in (0, 1)]
ALL = pytest.mark.parametrize("joined", JOINED, ids=lambda one: one.make.__name__)


class Concluding:
    """Keeps what a diagnosis comes to; implements the port `DiagnosisReports`."""

    def __init__(self) -> None:
        self.result: Any = None

    def show_attempt(self, attempt: Any) -> None:
        pass

    def show_result(self, result: Any) -> None:
        self.result = result


def diagnosed(run: Callable[[], Any]) -> Any:
    reports: Any = Concluding()
    with bind(DiagnosisReports, reports):
        run()
    return reports.result


def beside(model: onnx.ModelProto, reference: onnx.ModelProto, feeds: Any) -> Any:
    return diagnosed(lambda: diagnose(model, [OnnxrtParty()], feeds, reference=reference))


def outputs_of(model: onnx.ModelProto, feeds: Any, *, by_ort: bool = True) -> RunResults:
    session = SessionFromOnnx(model.SerializeToString())
    runner = OnnxrtRunner(session) if by_ort else OnnxReferenceRunner(model)
    return Comparator.run([runner], data_loader=feeds)


def verdict(own: RunResults, right: RunResults) -> Any:
    """Return the verdict about the first output of the first iteration."""
    runs = RunResults([*own, *right])
    compared = Comparator.compare_accuracy(runs, compare_func=AUTO)
    return next(iter(next(iter(compared[0].values()))[0].values()))


@ALL
def test_a_wrong_part_fails_whatever_stands_beside_it(joined: Joined) -> None:
    feeds = feeds_of(9)
    right = outputs_of(joined.make(), feeds, by_ort=False)
    assert verdict(outputs_of(joined.make(), feeds), right)
    found = verdict(outputs_of(joined.make(ERROR), feeds), right)
    assert not found
    assert found.part == joined.part


@ALL
def test_saved_outputs_know_their_parts(joined: Joined, tmp_path: Path) -> None:
    path = str(tmp_path / "right.json")
    outputs_of(joined.make(), feeds_of(9)).save(path)
    outputs_of(joined.make(ERROR), feeds_of(9)).save(str(tmp_path / "wrong.json"))
    saved = RunResults.load(path)
    found = verdict(RunResults.load(str(tmp_path / "wrong.json")), saved)
    assert not found
    assert found.part == joined.part
    assert verdict(outputs_of(joined.make(), feeds_of(9), by_ort=False), saved)


@ALL
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_rounding_of_healthy_parts_is_explained_in_half_precision(
    joined: Joined, dtype: str
) -> None:
    found = try_half_precision(joined.make(), dtype, data_loader=feeds_of(9, 10))
    is_beyond_its_range = "become infinite" in str(found.before) or found.before.excess > 60
    assert found.verdict == AGREE or (dtype == "fp16" and is_beyond_its_range)


@pytest.mark.parametrize(
    ("model", "reference", "nodes", "cause"),
    [
        (detector("together"), detector(), ["q_joined", "dq_joined"], "quantization"),
        (suppressed(1), suppressed(), ["matmul"], "weight"),
        (JOINED[0].make(ERROR), JOINED[0].make(), ["logits"], "weight"),
        (JOINED[4].make(ERROR), JOINED[4].make(), ["h0"], "weight"),
    ],
    ids=["quantized detector", "suppressed logits", "three operands", "heads"],
)
def test_the_node_that_makes_a_part_wrong_is_named(
    model: onnx.ModelProto, reference: onnx.ModelProto, nodes: Sequence[str], cause: str
) -> None:
    is_image = "detector" in model.graph.name
    found = beside(model, reference, IMAGES if is_image else feeds_of(9))
    assert found.verdict == FAULT
    (culprit,) = found.culprits
    assert (culprit.nodes, culprit.party, culprit.cause) == (nodes, MODEL, cause)


@pytest.mark.parametrize(
    ("quantized", "nodes"),
    [
        ("pairs", ["q_joined_dq", "split", "dq_output"]),
        ("coarse pairs", ["q_joined_dq", "split", "dq_output"]),
        ("operators", ["join"]),
    ],
)
def test_a_single_scale_for_all_parts_is_named_behind_a_reshape(
    quantized: str, nodes: Sequence[str]
) -> None:
    found = beside(split_detector(quantized), split_detector(), IMAGES)
    (culprit,) = found.culprits
    assert (culprit.nodes, culprit.cause) == (nodes, "quantization")


def test_the_inner_concatenations_need_a_scale_for_each_part() -> None:
    found = beside(two_heads(is_quantized=True), two_heads(), feeds_of(9))
    (culprit,) = found.culprits
    assert (culprit.nodes, culprit.cause) == (["join", "q_joined", "dq_joined"], "quantization")
    assert "'join_first', 'join_second'" in culprit.remedy.note


def counted(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a detector that returns the scores above a half, and their number; it also joins an
    empty tensor."""
    graph, nodes = model.graph, helper.make_node
    next(each for each in graph.node if each.op_type == "Concat").input.append("nothing")
    graph.node.extend(
        [
            nodes("Gather", ["output", "classes"], ["chosen"], "choose", axis=1),
            nodes("Greater", ["chosen", "half"], ["above"], "above"),
            nodes("Where", ["above", "chosen", "none"], ["kept"], "keep"),
            nodes("Cast", ["above"], ["ones"], "ones", to=onnx.TensorProto.INT64),
            nodes("ReduceSum", ["ones"], ["count"], "count", keepdims=0),
        ]
    )
    weights = {"classes": np.array([4, 5]), "half": np.float32(0.5), "none": np.float32(0)}
    weights["nothing"] = np.zeros([1, 0, 64], np.float32)
    graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()
    )
    del graph.output[:]
    number = helper.make_tensor_value_info("count", onnx.TensorProto.INT64, [])
    graph.output.extend([value("kept", [1, 2, 64]), number])
    return model


def test_a_single_scale_is_named_if_only_nodes_in_the_middle_read_the_parts() -> None:
    found = beside(counted(detector("together")), counted(detector()), IMAGES)
    (culprit,) = found.culprits
    assert (culprit.nodes, culprit.cause) == (["q_joined"], "quantization")
    assert "too large for 'scores'" in str(culprit.facts[0])
    assert "'join' separately" in culprit.remedy.note


class WrongProducts(OnnxParty):
    """Computes a product of matrices wrong, also where the node is cut out."""

    name = "wrong"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = super().load(model, plain=plain, without=without)
        has_product = any(node.op_type == "MatMul" for node in model.graph.node)

        def wrong(feed: Mapping[str, Any]) -> dict[str, Any]:
            made = compute(feed)
            return {
                name: each + np.where(each > -1e8, np.float32(0.1 * has_product), np.float32(0))
                for name, each in made.items()
            }

        return wrong


def test_a_wrong_kernel_is_found_beside_suppressed_logits() -> None:
    model = suppressed()
    found = diagnosed(lambda: diagnose(model, [OnnxParty(), WrongProducts()], feeds_of(9)))
    assert found.verdict == FAULT
    assert [(one.nodes, one.party) for one in found.culprits] == [(["matmul"], "wrong")]
    right = diagnosed(lambda: diagnose(model, [OnnxParty(), OnnxrtParty()], feeds_of(9)))
    assert right.verdict == AGREE


def test_scores_that_are_quantized_apart_from_boxes_are_right() -> None:
    found = beside(detector("apart"), detector(), IMAGES)
    assert found.verdict == AGREE
    assert "changes no output" not in found.reason  # A step is lost everywhere.
    same = beside(detector(), detector(), IMAGES)
    assert same.verdict == AGREE


def test_what_changes_no_output_is_said_of_equal_outputs() -> None:
    """A node that computes nothing new, and one that moves outputs by less than rounding does."""
    reference = suppressed()

    def followed_by(op: str, *operands: str) -> onnx.ModelProto:
        made = suppressed()
        made.graph.node[-1].output[0] = "before"
        made.graph.node.append(onnx.helper.make_node(op, ["before", *operands], ["output"], "last"))
        one = np.array(1 + 2**-22, np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(one, "almost_one"))
        return made

    moved = beside(followed_by("Mul", "almost_one"), reference, feeds_of(9))
    assert moved.verdict == AGREE
    assert "changes no output" not in moved.reason
    assert "'last'" in moved.reason


@pytest.mark.parametrize("is_far", [False, True])
def test_half_precision_is_judged_by_the_scores_beside_boxes(is_far: bool) -> None:
    model = detector(far=is_far)
    found = diagnosed(lambda: diagnose_half(model, data_loader=IMAGES))
    assert found.verdict == (FAULT if is_far else AGREE)
    if is_far:
        (culprit,) = found.culprits
        assert {"up", "down"} >= set(culprit.nodes)
        assert culprit.cause == "rounding"


@pytest.mark.parametrize("is_far", [False, True])
def test_a_cast_model_is_verified_part_by_part(is_far: bool) -> None:
    model = detector(far=is_far)
    results = verify(model, convert_to_fp16(model), IMAGES, AUTO)
    (found,) = next(iter(results[0].values()))[0].values()
    assert bool(results) == bool(found) == (not is_far)
    assert found.part == ("scores (output[:, 4:6])" if is_far else "")


def test_logits_that_a_mask_makes_infinite_are_right_in_half_precision() -> None:
    model = suppressed(fill=-np.inf)
    assert diagnosed(lambda: diagnose_half(model, data_loader=feeds_of(9))).verdict == AGREE
    assert verify(model, convert_to_fp16(model), feeds_of(9), AUTO)


def test_slices_that_are_multiplied_by_zero_are_a_part() -> None:
    factors = np.array([640, 640, 0], np.float32)
    made = {"k": factors, "w": np.eye(3, dtype=np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["raw"]),
        helper.make_node("Mul", ["raw", "k"], ["y"]),
    ]
    model = make("scaled", nodes, [value("x", [4, 3])], [value("y", [4, 3])], weights=made)
    assert facts_of(model).layouts["y"].shape == (2, 1)


def test_a_cast_model_has_the_nodes_of_its_original_once_it_is_widened() -> None:
    model = suppressed()
    wide = OnnxNarrowModels().widen_model(convert_to_fp16(model), drops_casts=True)
    onnx.checker.check_model(wide, full_check=True)
    assert [node.op_type for node in wide.graph.node] == [n.op_type for n in model.graph.node]
    assert [one.name for one in wide.graph.output] == [one.name for one in model.graph.output]


def test_two_quantized_backends_may_decide_for_neighboring_steps() -> None:
    """Scores are less than a step there, so that any that are quantized so are healthy."""
    model = detector("together")
    own, other = outputs_of(model, IMAGES), outputs_of(model, IMAGES)
    for _, iterations in other:
        for iteration in iterations:
            output = np.array(iteration["output"])
            output[0, 5, ::9] += np.float32(640 / 255)
            output[0, 1, ::9] += np.float32(640 / 255)
            iteration["output"] = output
    assert verdict(other, own)
    for _, iterations in other:
        for iteration in iterations:
            iteration["output"][0, 5, 0] += np.float32(640 / 255)
    assert not verdict(other, own)


def test_layouts_of_outputs_are_known_before_shapes_are() -> None:
    """Operands of a batch size that the data decide; and a model that computes all at once."""
    layouts = facts_of(JOINED[1].make()).layouts
    assert layouts["output"].shape == ("n", "n")
    plain = facts_of(suppressed(fill=0)).layouts["output"]
    assert (plain.kind, plain.fills) == ("leaf", (0.0,))
    assert Layout.from_fields(layouts["output"].as_fields()) == layouts["output"]


def test_an_operand_with_unknown_parts_is_a_part_of_its_own() -> None:
    """As the scores of a detector for images of any size: heads of three strides, joined by
    elements, and cut by channels.
    """
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1,6,H,W] x) => (float[1,6,N] y) {
        a = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) b = Concat<axis=1>(boxes, classes)
        boxes, classes = Split<axis=1>(a, c) p = Reshape(b, s) q = Reshape(x, s)
        j = Concat<axis=2>(p, q) ends, rest = Split<axis=1>(j, c) scores = Sigmoid(rest)
        wide = Mul(ends, ends) y = Concat<axis=1>(wide, scores) }"""
    )
    model.graph.node.insert(1, model.graph.node.pop(2))
    for name, numbers in (("s", [1, 6, -1]), ("c", [2, 4])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers), name))
    labels, parts = label_parts(facts_of(model).layouts["y"], (1, 6, 80))
    assert [(part.name, part.is_bounded) for part in parts] == [("wide", False), ("scores", True)]
    assert labels.reshape(-1).tolist() == [0, 0, 1, 1, 1, 1]


_KEEPING_PARTS = {
    "Sum": ("b = Neg(j) y = Sum(j, b, j)", (1, 8), "00001111"),
    "a broadcast input": ("g = Abs(flag) y = Mul(g, j)", (1, 8), "00001111"),
    "columns": ("y = Gather<axis=1>(j, o)", (1, 4), "1001"),
    "blocks": ("r = Reshape(j, s) y = DepthToSpace<blocksize=2>(r)", (1, 2, 2, 2), "00110011"),
    "a statistic": ("y = ReduceMean<axes=[0], keepdims=0>(j)", (8,), "00001111"),
    "a sequence": (
        "q = SequenceConstruct(wide) r = SequenceInsert(q, small) y = ConcatFromSequence<axis=1>(r)",
        (1, 8),
        "00001111",
    ),
    "a function": ("y = local.Join(wide, small)", (1, 8), "00001111"),
    "a loop": (
        """n = Constant<value_int=3>() c = Cast<to=9>(flag) y = Loop(n, c) <body = b (int64 i, bool d)
        => (bool e, float[1,8] k) { e = Identity(d) k = Concat<axis=1>(wide, small) }>""",
        (3, 1, 8),
        "000011110000111100001111",
    ),
    "a scan": (
        """y = Scan(wide, small) <num_scan_inputs = 2, body = b (float[4] p, float[4] q)
        => (float[8] k) { k = Concat<axis=0>(p, q) }>""",
        (1, 8),
        "00001111",
    ),
    "a product with two heads": ("y = MatMul(small, heads)", (1, 4), "0011"),
}


@pytest.mark.parametrize("name", _KEEPING_PARTS)
def test_parts_are_followed_through_operators_that_keep_them(name: str) -> None:
    nodes, shape, expected = _KEEPING_PARTS[name]
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[1,4] x, float[1,4] small, float[1,1] flag) => (float[] y)
        <int64[4] s = {1,8,1,1}, int64[4] o = {5,0,1,4}, float k = {640}, float[4,4] heads = {
        640,500,1,2, 550,640,2,1, 640,640,1,1, 640,640,1,1}>
        { wide = Mul(x, k) j = Concat<axis=1>(wide, small) """
        + nodes
        + """ }
        <domain: "local", opset_import: ["": 17]> Join (p, q) => (c) { c = Concat<axis=1>(p, q) }"""
    )
    labels, parts = label_parts(facts_of(model).layouts["y"], shape)
    assert len(parts) == 2
    assert "".join(map(str, np.broadcast_to(labels, shape).reshape(-1))) == expected


def test_parts_that_a_graph_does_not_show_are_found_by_their_sizes() -> None:
    """Behind an operator that may move elements, slices are parts as they are of arrays alone."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[6,4] x, float[6,5] small)
        => (float[6,9] y) <float k = {1e7}> { wide = Mul(x, k) j = Concat<axis=1>(wide, small)
        y = Einsum<equation = "ij->ij">(j) }"""
    )
    model.graph.node[-1].op_type = "Hardmax"
    layout = facts_of(model).layouts["y"]
    assert layout.has_unknown_parts
    assert Layout.from_fields(layout.as_fields()) == layout
    right = np.random.RandomState(3).randn(6, 9).astype(np.float32)
    right[:, :4] *= 1e7
    wrong = right.copy()
    wrong[:, 4:] += np.float32(0.1)
    rounding = rounding_between((wrong, right), ("float32", "float32"), name="y", layout=layout)
    assert deviation(wrong, right, rounding=rounding).is_wrong


def test_operands_of_a_quantized_concat_are_parts() -> None:
    layout = facts_of(split_detector("operators")).layouts["output"]
    parts = [(leaf.name, leaf.is_bounded) for leaf in layout.leaves()]
    assert parts == [("boxes_q", False), ("scores_q", True)]


def test_a_sum_of_padded_tensors_has_the_names_of_what_is_padded() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] a, float[2,2] b) => (float[2,5] y)
        <int64[4] p = {0,0,0,2}, int64[4] q = {0,3,0,0}>
        { c = Pad(a, p) d = Pad(b, q) y = Sum(c, d) }"""
    )
    _, parts = label_parts(facts_of(model).layouts["y"], (2, 5))
    assert [part.name for part in parts] == ["a", "b"]
