"""Backends that do not compute the same twice, and what rounding adds up to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, parser

from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnx_common import evaluator
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import matches_reference
from polygraphy.application.diagnose.rounding import rounding_accumulates
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.solving.ties import count_tied_labels
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.diagnosing import NarrowModels
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.concluding_reports import Concluding
from tests.support.diagnosis.diagnosis_cases import Kept, network
from tests.support.diagnosis.rounded_squares import ROUNDED, Nearly, squares
from tests.support.models import make, value


class Unsteady(OnnxParty):
    """The evaluator with one operator that makes something else in every run."""

    name = "unsteady"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        runs = count()

        def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
            if node.op_type != "Exp":
                return run
            return lambda *given, **how: (run(*given, **how)[0] + np.float32(next(runs)),)

        made = evaluator.evaluator_of(model, watched=watched)
        return partial(_run, made)


def _run(made: Any, feed: Any) -> dict[str, Any]:
    return dict(zip(made.output_names, made.run(None, dict(feed))))


def test_the_node_that_does_not_compute_the_same_twice_is_named_not_the_output() -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(network((1,)), [Unsteady(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"]) == (["exp1"], "unsteady")
    assert culprit["cause"] == "nondeterminism"


def test_a_node_in_training_mode_is_named_if_runs_differ() -> None:
    """ONNX Runtime may keep the statistics that it updates, and rewrites hide where."""
    text = """<ir_version: 9, opset_import: ["": 17]>
    g (float[4,2] x) => (float[4,2] y) <float[2] s = {1,1}, float[2] b = {0,0}> {
        n, m, v = BatchNormalization<training_mode=1>(x, s, b, b, s)
        y = Exp(n)
    }"""
    model, kept = parser.parse_model(text), Kept()
    with bind(Findings, kept):
        assert not diagnose(model, [Unsteady(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["n"], "model", "training")


def test_a_step_of_a_quantized_model_from_run_to_run_is_no_fault() -> None:
    text = """<ir_version: 9, opset_import: ["": 17]>
    g (float[4] x) => (float[4] y) <float one = {1.0}, uint8 zero = {0}> {
        e = Exp(x)
        q = QuantizeLinear(e, one, zero)
        y = DequantizeLinear(q, one, zero)
    }"""
    data = [{"x": np.full(4, 5, np.float32)}]  # exp(5) is 148 steps.
    kept = Kept()
    with bind(Findings, kept), pytest.raises(InconclusiveError, match="its outputs are finite"):
        diagnose(parser.parse_model(text), [Unsteady()], data_loader=data)
    assert not kept.culprits


class Counted(OnnxNarrowModels):
    """Counts on how many input sets a model is computed with its tensors moved."""

    def __init__(self) -> None:
        self.computed: list[Any] = []

    def perturbed_function(self, model: Any, dtype: str = "float32") -> Any:
        compute = super().perturbed_function(model, dtype)

        def counted(feed: Any) -> Any:
            self.computed.append(feed)
            return compute(feed)

        return counted


@pytest.mark.parametrize(
    ("off", "times"),
    [
        ([{"t15": ROUNDED, "m15": ROUNDED}, {"m15": 1.2 * ROUNDED}, {"t15": ROUNDED}], 1),
        ([{}, {"m15": ROUNDED}, {}], 1),
        ([{}, {}, {}], 0),
        ([{}, {"t15": 0.1}, {"m15": ROUNDED}], 0),
    ],
)
def test_what_adds_up_is_computed_once_for_data_that_show_it_alike(
    off: Sequence[Mapping[str, float]], times: int
) -> None:
    counted = Counted()
    model = squares()
    rng = np.random.default_rng(7)
    feeds = [{"x": rng.standard_normal((4, 8)).astype(np.float32)} for _ in off]
    reports: Any = Concluding()
    opened = open_model(model)
    case = Case(opened, "m.onnx", [OnnxParty(), Nearly(off)], reports)
    outputs = {
        at: [compute(feed) for feed in feeds]
        for at, compute in enumerate(party.load(model) for party in case.parties)
    }
    with bind(NarrowModels, counted):
        assert rounding_accumulates(case, feeds, outputs) == ({"t15": 0.1} not in off)
    assert len(counted.computed) == times


def test_rounding_moves_no_whole_numbers_of_which_a_model_makes_sizes() -> None:
    shape = [2, 1, 1, 1, 1, 8]
    weights = {
        "w": np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32),
        "halves": np.full(len(shape), 0.5, np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
        helper.make_node("Add", ["halves", "halves"], ["times"], "times"),
        helper.make_node("Cast", ["times"], ["counts"], "count", to=7),
        helper.make_node("Tile", ["m", "counts"], ["y"], "tile"),
    ]
    model = make("sized", nodes, [value("x", shape)], [value("y", [*"abcdef"])], weights=weights)
    feed = {"x": np.random.default_rng(7).standard_normal(shape).astype(np.float32)}
    one, other, *_ = OnnxNarrowModels().perturbed_function(model)(feed)
    assert one["y"].shape == other["y"].shape == tuple(shape)
    assert (one["y"] != other["y"]).any()


@pytest.mark.parametrize("oracle", ["backend", "golden"])
def test_an_amplified_rounding_is_no_fault_of_a_kernel(oracle: str, tmp_path: Path) -> None:
    """A product of numbers around 3,000 with weights that sum to zero, added in another order."""

    class OtherOrder(OnnxParty):
        name = "other"

        def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
            def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
                if node.op_type != "MatMul":
                    return run
                return lambda a, b, **how: (np.add.accumulate(a[..., None] * b, axis=1)[:, -1],)

            return partial(_run, evaluator.evaluator_of(model, watched=watched))

    rng = np.random.default_rng(5)
    weight = rng.standard_normal((256, 8))
    model = make(
        "centered",
        [helper.make_node("Add", ["x", "o"], ["b"]), helper.make_node("MatMul", ["b", "w"], ["y"])],
        [value("x", (4, 256))],
        [value("y", (4, 8))],
        weights={
            "o": np.array(3000, np.float32),
            "w": (weight - weight.mean(axis=0)).astype(np.float32),
        },
    )
    kept, feed = Kept(), {"x": rng.random((4, 256), np.float32)}
    if oracle == "golden":
        results = RunResults()
        results.add([OtherOrder().load(model)(feed)], runner_name="other")
        results.save(golden := str(tmp_path / "golden.json"))
        with bind(Findings, kept), pytest.raises(InconclusiveError, match="amplifies rounding"):
            diagnose(model, [OnnxParty()], [feed], golden=golden)
        return
    with bind(Findings, kept):
        diagnose(model, [OtherOrder(), OnnxParty()], [feed])
    assert [(culprit["party"], culprit["cause"]) for culprit in kept.culprits] == [
        ("model", "ill-conditioned")
    ]


@pytest.mark.parametrize("error, verdict", [(2e-5, "inconclusive"), (2e-3, "fault")])
def test_outputs_that_differ_as_little_as_kernels_may_blame_no_node(
    error: float, verdict: str
) -> None:
    """As an interpolation or an exponential that a backend approximates."""

    class Approximates(OnnxParty):
        name = "other"

        def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
            def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
                return lambda *given, **how: (run(*given, **how)[0] * np.float32(1 + error),)

            return partial(_run, evaluator.evaluator_of(model, watched=watched))

    nodes = [helper.make_node("Exp", ["x"], ["y"])]
    model = make("exponential", nodes, [value("x", (4, 256))], [value("y", (4, 256))])
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [Approximates(), OnnxParty()])
    assert kept.verdict == verdict
    assert ("run the model with --rtol 0.0001" in kept.summary) == (verdict == "inconclusive")


@pytest.mark.parametrize("oracle", ["backend", "golden"])
def test_a_model_that_generates_random_numbers_is_at_fault_itself(
    oracle: str, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["r"]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    model = make("random", nodes, [value("x", (4, 9))], [value("y", (4, 9))])
    kept, feed = Kept(), {"x": np.ones((4, 9), np.float32)}
    results = RunResults()
    results.add([OnnxParty().load(model)(feed)], runner_name="onnx")
    results.save(golden := str(tmp_path / "golden.json"))
    with bind(Findings, kept):
        if oracle == "golden":
            assert not diagnose(model, [OnnxParty()], [feed], golden=golden)
        else:
            assert not diagnose(model, [Unsteady(), OnnxParty()], [feed])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"]) == (["r"], "model")
    assert culprit["cause"] == "nondeterminism"


@pytest.mark.parametrize(
    "text, ends",
    [
        (
            'g = GridSample<mode="bilinear", padding_mode="reflection">(x, p)  y = Identity(g)',
            "float[1,3,20,20] x, float[1,9,9,2] p) => (float[1,3,9,9] y",
        ),
        (
            "a = Constant<value_int = 1>()  y = CumSum(x, a)",
            "float[4,20000] x) => (float[4,20000] y",
        ),
    ],
)
def test_kernels_that_round_positions_or_long_sums_are_no_fault(text: str, ends: str) -> None:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> m ({ends}) {{ {text} }}')
    kept = Kept()
    with bind(Findings, kept):
        assert diagnose(model, [OnnxrtParty(), OnnxParty()])
    assert kept.verdict == "agree"


def detector(shift: float = 0.0) -> Any:
    """Return a model that selects the boxes of the best scores, which are equal."""
    return make(
        "detector",
        [
            helper.make_node("Mul", ["x", "w"], ["scores"], name="scores"),
            helper.make_node("TopK", ["scores", "k"], ["best", "where"], name="select"),
            helper.make_node("Gather", ["boxes", "where"], ["chosen"], name="gather"),
            helper.make_node("Add", ["chosen", "offset"], ["y"], name="shift"),
        ],
        [value("x", (8,))],
        [value("y", (4, 4))],
        weights={
            "w": np.array([1, 1, 1, 1, 0.2, 0.1, 0.4, 0.3], np.float32),
            "k": np.array([4]),
            "boxes": np.random.default_rng(3).random((8, 4), np.float32) * 640,
            "offset": np.outer([0, 1, 1, 1], np.arange(1, 5) + shift).astype(np.float32),
        },
    )


def test_a_selection_among_nearly_equal_elements_is_no_fault() -> None:
    """As the scores of a detector, of which two are closer than backends compute them."""

    class OtherKernel(OnnxParty):
        name = "other"

        def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
            def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
                if node.op_type != "Mul":
                    return run
                factors = np.linspace(1 - 1e-6, 1 + 1e-6, 8, dtype=np.float32)
                return lambda *given, **how: (run(*given, **how)[0] * factors,)

            return partial(_run, evaluator.evaluator_of(model, watched=watched))

    kept = Kept()
    with bind(Findings, kept):
        diagnose(detector(), [OtherKernel(), OnnxParty()], [{"x": np.ones(8, np.float32)}])
    assert kept.verdict == "agree"
    assert "'select' selects different elements" in kept.summary


def test_a_selection_among_nearly_equal_elements_hides_no_fault() -> None:
    """The inputs, changed by rounding, move whole boxes: by more than the fault."""
    feed, party = {"x": np.ones(8, np.float32)}, OnnxParty()
    right, wrong = party.load(detector()), party.load(detector(7.0))
    case = Case(open_model(detector()), "model.onnx", [party], Kept())
    assert matches_reference(case, right, feed, right(feed))
    assert not matches_reference(case, wrong, feed, right(feed))


_FIVE_ROWS = np.array([[3, 1, 1], [0, 2, 1], [1, 0, 4], [2, 2, 0], [0, 1, 1 + 2**-23]], np.float32)
"""Scores of three classes; two are equal in the fourth row, and but for rounding in the last."""


def classifier(last: int = 0) -> Any:
    """Return a model with the class of the largest score, or of the last such one."""
    return parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]>'
        " m (float[5,3] x) => (int64[5] label, float[5,3] scores)"
        f" {{ label = ArgMax<axis=1, keepdims=0, select_last_index={last}>(x)"
        " scores = Add(x, x) }"
    )


@pytest.mark.parametrize(
    "labels, reason",
    [
        ([0, 1, 2, 1, 1], "'label' differs in 2 of 5 rows, whose two largest scores are equal"),
        ([0, 1, 2, 2, 2], ""),
        ([1, 1, 2, 0, 2], ""),
    ],
    ids=["equal scores", "not the largest", "other scores"],
)
def test_a_label_is_no_fault_only_where_its_score_equals_the_largest(
    labels: list[int], reason: str, tmp_path: Path
) -> None:
    results = RunResults()
    results.add([{"label": np.array(labels), "scores": 2 * _FIVE_ROWS}], runner_name="saved")
    results.save(golden := str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        same = diagnose(classifier(), [OnnxParty()], [{"x": _FIVE_ROWS}], golden=golden)
        assert bool(same) == bool(reason)
    assert reason in kept.summary


def test_another_choice_among_equal_scores_is_named_beside_a_reference() -> None:
    """ONNX defines which of equal elements ArgMax chooses."""
    kept, feed = Kept(), {"x": _FIVE_ROWS}
    with bind(Findings, kept):
        assert not diagnose(classifier(1), [OnnxParty()], [feed], reference=classifier(0))
    assert kept.culprits[0]["cause"] == "attribute"


def test_a_sequence_that_differs_is_no_label() -> None:
    graph = open_model(classifier()).graph
    parts = [np.zeros((size, 3), np.float32) for size in (2, 3)]
    values = {"label": parts, "scores": _FIVE_ROWS}
    assert not count_tied_labels(graph, "label", values, values, ["scores"], is_defined=True)
