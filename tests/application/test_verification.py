"""What is tolerated of an edited model that computes in a narrow type."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.application.compare.verification import _Pair, verify
from polygraphy.application.diagnose.precision.half import try_half_precision
from polygraphy.backend.onnx import convert_to_bf16, convert_to_fp16
from polygraphy.binding import bind
from polygraphy.common import TensorMetadata
from polygraphy.comparator import Comparator, IterationResult, RunResults, SimpleCompareFunc
from polygraphy.domain.errors import BackendError
from polygraphy.domain.report.document import Recorder
from polygraphy.domain.report.summary import doubts_in_words
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import observe_tensors
from tests.support.models import make, value

AUTO = SimpleCompareFunc(rtol="auto", atol="auto")
FEED = {"x": np.random.RandomState(3).randn(8, 64).astype(np.float32)}
Captured = pytest.CaptureFixture[str]


def sensitive(scale: float = 6, *, as_nodes: bool = False) -> onnx.ModelProto:
    """Sums of large products that cancel out: what their weights lose is more than is usual."""
    weight = scale * np.random.RandomState(7).randn(64, 64).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["long"], "product"),
        helper.make_node("Identity", ["long"], ["same"], "middle"),
        helper.make_node("Add", ["same", "zero"], ["y"], "sum"),
    ]
    tensors = {"w": weight, "zero": np.zeros(1, np.float32)}
    constants = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
        for name, array in tensors.items()
    ]
    return make(
        "sensitive",
        [*constants, *nodes] if as_nodes else nodes,
        [value("x", [8, 64])],
        [value("y", [8, 64])],
        weights=None if as_nodes else tensors,
    )


def returning_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Cast the output of a model to bfloat16, for which NumPy has no kind."""
    [output] = model.graph.output
    cast = helper.make_node("Cast", [output.name], ["z"], "cast", to=onnx.TensorProto.BFLOAT16)
    model.graph.node.append(cast)
    output.CopyFrom(value("z", [8, 64], onnx.TensorProto.BFLOAT16))
    return model


def told_of(narrow: onnx.ModelProto, model: onnx.ModelProto, capsys: Captured) -> tuple[bool, str]:
    """Verify a narrow model; return whether it passed, and what was said."""
    capsys.readouterr()
    passed = bool(verify(model, narrow, [FEED], AUTO))
    return passed, capsys.readouterr().out


def reason(results: Any) -> str:
    """Return where the tolerance of the first output comes from."""
    return str(results[0]["edited", "original"][0]["y"].thresholds.reason)


@pytest.mark.parametrize("narrow", [False, True])
def test_equal_infinities_match_and_are_noted(narrow: bool, capsys: Captured) -> None:
    mask = np.zeros(64, np.float32)
    mask[3:5] = -np.inf
    node = helper.make_node("Add", ["x", "mask"], ["y"], "masked")
    ends = [value("x", [8, 64])], [value("y", [8, 64])]
    model = make("masked", [node], *ends, weights={"mask": mask})
    recorder = Recorder()
    with bind(Console, recorder):
        edited = convert_to_fp16(model) if narrow else model
        assert verify(model, edited, [FEED], AUTO if narrow else None)
    assert "'y' has 16 infinite elements, equal in both." in doubts_in_words(recorder.comparisons)
    if not narrow:
        assert not Comparator.compare_accuracy(_runs_of(model), compare_func=SimpleCompareFunc())


def _runs_of(model: onnx.ModelProto) -> Any:
    outputs = observe_tensors(model, FEED, ["y"])
    return RunResults([(name, [IterationResult(outputs, runner_name=name)]) for name in "ab"])


@pytest.mark.parametrize("as_nodes", [False, True])
def test_what_rounding_explains_is_tolerated(as_nodes: bool) -> None:
    model = sensitive(as_nodes=as_nodes)
    for cast, dtype in ((convert_to_fp16, "float16"), (convert_to_bf16, "bfloat16")):
        results = verify(model, cast(model), [FEED], AUTO)
        assert results
        assert reason(results) == f"rounding limit of {dtype}"


def test_numbers_that_are_given_are_held() -> None:
    model = sensitive()
    narrow = convert_to_fp16(model)
    results = verify(model, narrow, [FEED], SimpleCompareFunc(rtol=0, atol=1))
    assert results
    assert reason(results) == "default of the verification"


def test_the_advice_of_a_failure_can_be_pasted(capsys: Captured) -> None:
    model, function = sensitive(), SimpleCompareFunc(rtol=0, atol=1e-3)
    line = shlex.join(["printf", "%s", "a\nb.onnx"])
    assert not verify(model, convert_to_fp16(model), [FEED], function, advice=line)
    [pasted] = re.findall("and a fix: (.*)", capsys.readouterr().out)
    assert subprocess.check_output(["sh", "-c", pasted], text=True) == "a\nb.onnx"


def test_outputs_in_bfloat16_are_tolerated_the_same(capsys: Captured) -> None:
    model = returning_bfloat16(sensitive(6))
    narrow = returning_bfloat16(convert_to_fp16(sensitive(6)))
    passed, _ = told_of(narrow, model, capsys)
    assert passed


@pytest.mark.parametrize("op", ["Log", "Neg", "Tanh", "Round"])
def test_a_fault_is_more_than_rounding(op: str, capsys: Captured) -> None:
    model = sensitive(1)
    narrow = convert_to_fp16(model)
    [node] = [each for each in narrow.graph.node if each.name == "middle"]
    node.op_type = op
    passed, said = told_of(narrow, model, capsys)
    assert not passed and "float32 rounding" not in said


def test_weights_that_do_not_fit_are_no_rounding(capsys: Captured) -> None:
    model = sensitive(6e4)  # Some of them become 65504; the products are infinite.
    assert told_of(convert_to_fp16(model), model, capsys)[0] is False
    model = sensitive(3e4)
    model.graph.node[1].op_type = "Tanh"  # Which hides that.
    assert told_of(convert_to_fp16(model), model, capsys)[0] is False


def test_a_model_that_makes_too_much_of_rounding_is_not_verified(capsys: Captured) -> None:
    model = sensitive(1000)
    model.graph.node[1].op_type = "Sin"
    passed, said = told_of(convert_to_fp16(model), model, capsys)
    assert not passed
    assert (
        "Rounding only the inputs to float16 changes the outputs just as much: 'y' has an error of"
        in said
    )


def normalized(scale: float, epsilon: float = 1e-5) -> onnx.ModelProto:
    """Divide by the root mean square, as transformers do; squares of large numbers overflow."""
    rng = np.random.RandomState(5)
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["large"], "large"),
        helper.make_node("Mul", ["large", "large"], ["squares"], "squares"),
        helper.make_node("ReduceMean", ["squares"], ["mean"], "mean", axes=[-1]),
        helper.make_node("Add", ["mean", "epsilon"], ["positive"], "positive"),
        helper.make_node("Sqrt", ["positive"], ["size"], "size"),
        helper.make_node("Div", ["large", "size"], ["even"], "even"),
        helper.make_node("MatMul", ["even", "w"], ["logits"], "logits"),
        helper.make_node("Softmax", ["logits"], ["y"], "softmax"),
    ]
    weights = {
        "scale": np.array([scale], np.float32),
        "epsilon": np.array([epsilon], np.float32),
        "w": rng.randn(64, 8).astype(np.float32) / 8,
    }
    return make("normalized", nodes, [value("x", [8, 64])], [value("y", [8, 8])], weights=weights)


def test_what_overflows_where_every_operator_rounds_is_not_verified() -> None:
    """Kernels for a CPU compute float16 in float32, and hide it."""
    model = normalized(500)
    narrow = convert_to_fp16(model)
    session = onnxruntime.InferenceSession(narrow.SerializeToString())
    [hidden] = session.run(None, FEED)
    assert np.isfinite(hidden).all()
    assert not verify(model, narrow, [FEED], AUTO)
    assert verify(normalized(1), convert_to_fp16(normalized(1)), [FEED], AUTO)


@settings(max_examples=12, deadline=None)
@given(
    scale=st.sampled_from([0.1, 1, 6, 30, 200, 500, 3e4]),
    op=st.sampled_from(["Identity", "Tanh", "Sin", "Exp"]),
    dtype=st.sampled_from(["fp16", "bf16"]),
    is_deep=st.booleans(),
)
@pytest.mark.slow
def test_a_model_is_verified_where_a_diagnosis_says_that_it_works(
    scale: float, op: str, dtype: str, is_deep: bool
) -> None:
    model = normalized(scale) if is_deep else sensitive(scale)
    if not is_deep:
        model.graph.node[1].op_type = op
    narrow = convert_to_fp16(model) if dtype == "fp16" else convert_to_bf16(model)
    for data in (None, [FEED]):
        found = try_half_precision(model, dtype, data_loader=data)
        assert bool(verify(model, narrow, data, AUTO)) is (found.verdict == "agree")


class _Crashing:
    """ONNX Runtime, as it crashes at its default level of optimization, or refuses a model."""

    def __init__(self, how: str, plainly: str) -> None:
        self._how, self._plainly = how, plainly

    def load(self, model: object, *, plain: bool = False, **others: object) -> Any:
        how = self._plainly if plain else self._how
        if how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "refuse":
            raise BackendError("There is no kernel for it.", backend="onnxruntime")
        return lambda feed: {}


@pytest.mark.parametrize(
    ("how", "plainly", "is_verified"),
    [
        ("run", "run", True),
        ("crash", "run", False),
        ("crash", "crash", False),
        ("refuse", "run", False),
        ("refuse", "refuse", True),
    ],
)
def test_what_fails_at_the_level_that_users_have_is_not_verified(
    how: str, plainly: str, is_verified: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    model = normalized(1)
    with bind(SuspectedParty, _Crashing(how, plainly), key="usual"):
        if is_verified:
            assert verify(model, convert_to_fp16(model), [FEED], AUTO)
        else:
            with pytest.raises(
                BackendError, match="is not verified: ONNX Runtime fails at its def"
            ) as refused:
                verify(model, convert_to_fp16(model), [FEED], AUTO)
            # Nothing is saved, and convert has no option for the level.
            assert "Save it without --verify" in str(refused.value)
    assert ("ONNX Runtime cannot run it on this machine" in capfd.readouterr().out) is (
        plainly == "refuse"
    )


def ordered(gap: float) -> onnx.ModelProto:
    """Sort rows by a score; in float16 scores that are near to each other change places."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"], "scores"),
        helper.make_node("Add", ["scores", "steps"], ["apart"], "apart"),
        helper.make_node("TopK", ["apart", "k"], ["best", "at"], "best", axis=1),
        helper.make_node("Gather", ["boxes", "at"], ["y"], "boxes", axis=0),
    ]
    rng = np.random.RandomState(2)
    weights = {
        "w": np.ones((64, 16), np.float32) * 0.01,
        "steps": (100 + gap * np.arange(16)).astype(np.float32),
        "k": np.array([16]),
        "boxes": rng.uniform(0, 10, (16, 4)).astype(np.float32),
    }
    outputs = [value("y", [8, 16, 4]), value("at", [8, 16], onnx.TensorProto.INT64)]
    return make("ordered", nodes, [value("x", [8, 64])], outputs, weights=weights)


def test_rows_whose_scores_are_the_same_in_half_precision_may_change_places() -> None:
    model = ordered(0.01)  # Numbers around 100 are 0.06 apart in float16.
    narrow = convert_to_fp16(model)
    [expected, _] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, FEED)
    [made, _] = onnxruntime.InferenceSession(narrow.SerializeToString()).run(None, FEED)
    assert not np.allclose(made, expected, atol=0.1)
    assert not verify(model, narrow, [FEED], SimpleCompareFunc(rtol=0.1, atol=0.1))
    assert verify(model, narrow, [FEED], AUTO)
    boxes = next(each for each in narrow.graph.initializer if each.name == "boxes")
    wrong = numpy_helper.to_array(boxes).copy()
    wrong[12, 2] += 3
    boxes.CopyFrom(numpy_helper.from_array(wrong, "boxes"))
    assert not verify(model, narrow, [FEED], AUTO)


def test_weights_of_nodes_that_stay_in_float32_are_not_rounded() -> None:
    model = sensitive()
    [before] = [each for each in model.graph.initializer if each.name == "w"]
    for keep_nodes, is_rounded in (([], True), (["product"], False)):
        narrow = convert_to_fp16(model, keep_nodes=keep_nodes)
        made = OnnxNarrowModels().widen_model(model, like=narrow)
        [after] = [each for each in made.graph.initializer if each.name == "w"]
        changed = numpy_helper.to_array(after) - numpy_helper.to_array(before)
        assert (changed.any(), np.abs(changed).max() < 0.01) == (is_rounded, True)
    assert OnnxNarrowModels().widen_model(model, like=model) == model


def test_an_edited_model_gets_data_of_its_types_and_tensors_as_the_original_computed_them() -> None:
    then = TensorMetadata().add("x", np.float16, (2,)).add("inside", np.float16, (2,))
    pair = _Pair(None, None, then, None)
    array = np.array([1.0, 2.0], np.float32)
    values = pair.convert_feed({"x": array}, {"inside": array})
    assert {name: str(value.dtype) for name, value in values.items()} == {
        "x": "float16",
        "inside": "float32",
    }
