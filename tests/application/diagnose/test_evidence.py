"""Nobody is acquitted without evidence: what was asked and not compared, or what nobody explains,
is inconclusive, with counts.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind, resolve
from polygraphy.comparator import Comparator, RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE, Curve, DiagnosisResult
from polygraphy.domain.diagnosis.evidence import Evidence
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.computed_tensors import compute_tensors
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.examples import scaled
from tests.support.models import make, value

RNG = np.random.default_rng(11)
W1, W2, W3 = (RNG.normal(size=(5, 5)).astype(np.float32) for _ in range(3))
FEEDS = [
    {"x": RNG.normal(size=(4, 5)).astype(np.float32) + shift} for shift in (np.float32(3), 0, 0)
]
TENSORS = ("h", "r", "y", "z")


def network(off: float = 0.0, last: str = "Sigmoid", outputs: Sequence[str] = ("y", "z")) -> Any:
    """x -> MatMul h -> Relu r -> MatMul y, and z of r by another operator."""
    first = W1.copy()
    first[1, 2] += np.float32(off)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "one"),
        helper.make_node("Relu", ["h"], ["r"], "two"),
        helper.make_node("MatMul", ["r", "w2"], ["y"], "three"),
        helper.make_node(last, ["r"], ["z"], "four"),
    ]
    nodes = [node for node in nodes if node.output[0] in {"h", "r", *outputs}]
    kept = {"w1": first, "w2": W2}
    weights = {name: array for name, array in kept.items() if name == "w1" or "y" in outputs}
    made = [value(name, [4, 5]) for name in outputs]
    return make("net", nodes, [value("x", [4, 5])], made, weights=weights)


def diagnosed(
    model: onnx.ModelProto,
    folder: Path,
    runs: Sequence[Sequence[Mapping[str, Any]]],
    feeds: Sequence[Mapping[str, Any]] = FEEDS,
) -> tuple[Kept, str]:
    """Diagnose a model beside runs of saved results; return what it comes to, and why."""
    results = RunResults()
    for number, sets in enumerate(runs):
        results.add([dict(one) for one in sets], runner_name=f"run{number}")
    results.save(str(folder / "golden.json"))
    kept, reason = Kept(), ""
    with bind(Findings, kept):
        try:
            golden = str(folder / "golden.json")
            diagnose(model, [OnnxrtParty()], [*feeds], golden=golden)
        except InconclusiveError as error:
            reason = str(error)
    return kept, reason


def test_inner_tensors_alone_are_compared_and_say_which_node_it_is(tmp_path: Path) -> None:
    right = [compute_tensors(network(), feed, "h") for feed in FEEDS]
    kept, _ = diagnosed(network(off=1.0), tmp_path, [right])
    assert kept.verdict == "fault"
    assert kept.culprits[0]["nodes"] == ["one"]


def test_inner_tensors_that_match_do_not_clear_outputs_that_were_not_saved(tmp_path: Path) -> None:
    right = [compute_tensors(network(), feed, "h") for feed in FEEDS]
    kept, reason = diagnosed(network(), tmp_path, [right])
    assert kept.verdict == "inconclusive"
    assert "'y', 'z' were not saved" in reason


def test_an_inner_tensor_that_differs_is_told_though_all_outputs_match(tmp_path: Path) -> None:
    sets = [compute_tensors(network(), feed, *TENSORS) for feed in FEEDS]
    model = network(off=1.0)  # On this data the outputs do not depend on it.
    feeds = [{"x": np.where(np.arange(5) == 1, 0, feed["x"]).astype(np.float32)} for feed in FEEDS]
    sets = [compute_tensors(network(), feed, *TENSORS) for feed in feeds]
    assert diagnosed(model, tmp_path, [sets], feeds)[0].verdict == "agree"
    for each in sets:
        each["h"] = each["h"] + np.where(each["h"] < -1, np.float32(0.5), np.float32(0))
    kept, _ = diagnosed(network(), tmp_path, [sets], feeds)
    assert kept.verdict == "fault"
    assert kept.culprits[0]["nodes"] == ["one"]


@pytest.mark.parametrize(("results", "data"), [(1, 3), (3, 1)])
def test_as_many_results_as_data_or_it_is_inconclusive(
    results: int, data: int, tmp_path: Path
) -> None:
    sets = [compute_tensors(network(), feed, "y", "z") for feed in FEEDS[:results]]
    kept, reason = diagnosed(network(), tmp_path, [sets], FEEDS[:data])
    assert kept.verdict == "inconclusive"
    assert f"{results} of {data}" in reason or f"{results} results" in reason


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_results_of_a_run_on_made_up_data_are_compared_on_those(off: float, tmp_path: Path) -> None:
    runner = OnnxrtRunner(SessionFromOnnx(network().SerializeToString()))
    Comparator.run([runner]).save(str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept), contextlib.suppress(InconclusiveError):
        diagnose(network(off), [OnnxrtParty()], golden=str(tmp_path / "golden.json"))
    assert (kept.verdict == "agree") == (not off)


def test_results_that_hold_nothing_for_some_data_are_told(tmp_path: Path) -> None:
    sets = [compute_tensors(network(), FEEDS[0], "y", "z"), {}, {}]
    kept, reason = diagnosed(network(), tmp_path, [sets])
    assert kept.verdict == "inconclusive"
    assert "'y' was saved for 1 of 3 input sets" in reason


@pytest.mark.slow
def test_all_runs_of_a_file_are_compared(tmp_path: Path) -> None:
    right = [compute_tensors(network(), feed, "y", "z") for feed in FEEDS]
    wrong = [{**one, "y": one["y"] + np.float32(5)} for one in right]
    assert diagnosed(network(), tmp_path, [right, right])[0].verdict == "agree"
    assert diagnosed(network(), tmp_path, [right, wrong])[0].verdict != "agree"


def test_an_output_by_another_name_is_known_by_what_it_holds(tmp_path: Path) -> None:
    sets = [compute_tensors(network(), feed, *TENSORS) for feed in FEEDS]
    named = [{("linear_8" if n == "y" else n): a for n, a in one.items()} for one in sets]
    assert diagnosed(network(), tmp_path, [named])[0].verdict == "agree"
    kept, _ = diagnosed(network(off=1.0), tmp_path, [named])
    assert kept.culprits[0]["nodes"] == ["one"]


@pytest.mark.slow
def test_more_sets_of_data_than_a_few_are_all_compared(tmp_path: Path) -> None:
    feeds = [{"x": RNG.normal(size=(4, 5)).astype(np.float32)} for _ in range(9)]
    sets = [compute_tensors(network(), feed, "y", "z") for feed in feeds]
    assert diagnosed(network(), tmp_path, [sets], feeds)[0].verdict == "agree"
    sets[8]["y"] = sets[8]["y"] + np.float32(1)
    assert diagnosed(network(), tmp_path, [sets], feeds)[0].verdict != "agree"


@pytest.mark.parametrize("fuller", ["model", "reference"])
def test_outputs_that_only_one_of_two_models_has_are_named(
    fuller: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = network(), network(outputs=("y",))
    pair = (whole, part) if fuller == "model" else (part, whole)
    kept = Kept()
    with (
        bind(Findings, kept),
        pytest.raises(InconclusiveError, match=f"'z' exists only in the {fuller}"),
    ):
        diagnose(pair[0], [OnnxrtParty()], FEEDS, reference=pair[1])
    assert kept.verdict == "inconclusive"


def test_what_differs_without_effect_on_the_data_is_said() -> None:
    kept = Kept()
    feeds = [{"x": np.zeros((4, 5), np.float32) - np.float32(0)}]
    with bind(Findings, kept):
        assert diagnose(network(off=1.0), [OnnxrtParty()], feeds, reference=network())
    assert kept.verdict == "agree"


@pytest.mark.parametrize("party", [OnnxrtParty, OnnxParty])
def test_a_backend_alone_is_compared_with_nothing(party: Any) -> None:
    with pytest.raises(InconclusiveError, match="nothing to compare with"):
        diagnose(network(), [party()], FEEDS)


@pytest.mark.slow
def test_where_a_backend_does_not_give_what_the_reference_gives_it_is_searched(
    tmp_path: Path,
) -> None:
    steps = {
        "s1": np.float32(0.02),
        "z1": np.uint8(128),
        "s2": np.float32(0.05),
        "z2": np.uint8(99),
    }
    names = itertools.pairwise(["x", "a", "b", "c", "d"])
    nodes = [
        helper.make_node(op, [read, *scale], [made], made)
        for op, (read, made), scale in zip(
            ["QuantizeLinear", "DequantizeLinear"] * 2,
            names,
            [("s1", "z1")] * 2 + [("s2", "z2")] * 2,
        )
    ]
    nodes.append(helper.make_node("Tanh", ["d"], ["y"], "y"))
    model = make("q", nodes, [value("x", [4, 5])], [value("y", [4, 5])], weights=steps)
    right = [OnnxParty().load(model)(feed) for feed in FEEDS]
    kept, _ = diagnosed(model, tmp_path, [right])
    compared = OnnxrtParty().load(model)(FEEDS[0])
    if np.allclose(compared["y"], right[0]["y"]):
        pytest.skip("this release of ONNX Runtime does not rewrite it wrongly")
    assert kept.verdict == "fault"
    assert kept.culprits[0]["party"] == "onnxrt"


@pytest.mark.slow
@given(
    against=st.lists(st.text(), max_size=2),
    left_out=st.lists(st.text(min_size=1), max_size=2),
    unexplained=st.sampled_from(["", "why"]),
    verdict=st.sampled_from([AGREE, INCONCLUSIVE, "fault"]),
)
def test_the_table_acquits_only_what_was_wholly_compared(
    against: list[str], left_out: list[str], unexplained: str, verdict: str
) -> None:
    made = Evidence(against, left_out).qualify_result(
        DiagnosisResult(verdict), "onnxrt", unexplained
    )
    if verdict != AGREE:
        assert made.verdict == verdict
    elif against and not left_out and not unexplained:
        assert made.verdict == AGREE
    else:
        assert (made.verdict, bool(made.reason)) == (INCONCLUSIVE, True)
        assert all(said in made.reason for said in left_out) or unexplained or not against


def test_what_was_left_out_of_other_data_does_not_count_for_data_chosen_again() -> None:
    case = Case(
        open_model(make("m", [], [value("x", [1])], [])), "m.onnx", [], resolve(DiagnosisReports)
    )
    case.record_comparison("golden", ["one", "one"])
    again = case.without_data_notes()
    again.record_left_out("two")
    again.record_curve(Curve("onnx", "isolated", []))
    assert case.evidence == Evidence(("golden",), ("one",))
    assert again.evidence == Evidence(("golden",), ("two",))
    assert case.curves == again.curves != ()


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
@pytest.mark.slow
def test_where_a_comparison_of_the_same_files_fails_it_is_never_acquitted(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    off = data.draw(st.sampled_from([0.0, 0.5, -2.0]), "fault")
    last = data.draw(st.sampled_from(["Sigmoid", "Tanh"]), "operator")
    held = data.draw(st.lists(st.sampled_from(TENSORS), min_size=1, unique=True), "saved")
    runs = data.draw(st.integers(1, 2), "runs")
    count = data.draw(st.integers(1, 3), "results")
    feeds = FEEDS[: data.draw(st.integers(1, 3), "input sets")]
    model, right = network(off, last), network()
    sets = [[compute_tensors(right, feed, *held) for feed in FEEDS[:count]]] * runs
    own = [compute_tensors(model, feed, *TENSORS) for feed in feeds]
    fails = any(
        not np.allclose(mine[name], theirs[name], rtol=1e-4, atol=1e-4)
        for run in sets
        for mine, theirs in zip(own, run)
        for name in held
    )
    kept, reason = diagnosed(model, tmp_path_factory.mktemp("drawn"), sets, feeds)
    is_whole = count == len(feeds) and {"y", "z"} <= set(held)
    if fails:
        assert kept.verdict != "agree", reason
    else:
        assert (kept.verdict == "agree") == is_whole, reason
        assert kept.verdict != "fault"
