"""What records of processes come to."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from polygraphy.domain.sweep.cells import cells_of
from polygraphy.domain.sweep.outcome import (
    FAILURES,
    FASTER,
    NEWLY_FAILING,
    NEWLY_PASSING,
    SLOWER,
    Row,
    SweepOutcome,
    compare_with_baseline,
    groups_of,
    mark_known_failures,
    row_of,
)
from polygraphy.domain.sweep.plan import KnownFailure, plan_of

ROW = Row("m a", "m", "a", "k")


def record(**facts: Any) -> dict[str, Any]:
    return {
        "ended": "exit", "code": 0, "seconds": 1.0, "memory": 1 << 20, "shared": False, "said": "",
        "essence": {"summary": "said", "verdict": "passed"}, **facts,
    }  # fmt: skip


def without_verdict(**facts: Any) -> dict[str, Any]:
    made = record(**facts)
    del made["essence"]
    return made


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        (record(), "passed", "said"),
        (record(code=1), "failed", "said"),
        (record(code=4), "inconclusive", "said"),
        (record(code=3), "error", "said"),
        (without_verdict(code=3, said="no backend"), "error", "no backend"),
        (without_verdict(code=0), "error", "left no verdict"),
        (without_verdict(code=-11, said="last"), "crashed", "signal 11. Last line: last"),
        (without_verdict(code=-9, ended="timeout"), "timeout", "Stopped after 1 s"),
        (without_verdict(code=-9, ended="memory"), "memory", "Stopped at 1 MiB"),
    ],
)
def test_how_a_process_ended(found: dict[str, Any], state: str, said: str) -> None:
    row = row_of(ROW, [found])
    assert row.state == state
    assert said in row.summary
    assert row.failed == (state in FAILURES)


def test_verdicts_that_differ_are_flaky() -> None:
    row = row_of(ROW, [record(code=1), record(), record(code=1)])
    assert (row.state, row.failed) == ("flaky", False)
    assert list(row.attempts) == ["failed", "passed", "failed"]
    assert row_of(ROW, [record(code=1), record(code=1)]).state == "failed"


def test_what_is_new_since_a_baseline() -> None:
    before = {
        "passes": {"state": "passed", "inference": 1.0, "is_shared": False, "is_foreign": False},
        "fails": {"state": "failed"},
    }
    passing = evolve(ROW, name="passes", state="passed", inference=1.0)
    cases = [
        (evolve(passing, state="failed"), [NEWLY_FAILING]),
        (evolve(passing, name="unknown", state="crashed"), [NEWLY_FAILING]),
        (evolve(passing, name="fails"), [NEWLY_PASSING]),
        (evolve(passing, name="fails", state="timeout"), []),
        (evolve(passing, inference=1.3), [SLOWER]),
        (evolve(passing, inference=0.7), [FASTER]),
        (evolve(passing, inference=9.0, is_shared=True), []),
        (evolve(passing, inference=9.0, is_foreign=True), []),
        (passing, []),
    ]
    for row, changes in cases:
        assert list(compare_with_baseline([row], before)[0].changes) == changes


def test_known_failures_do_not_count_until_they_expire() -> None:
    rows = [
        evolve(ROW, name="m a", state="failed"),
        evolve(ROW, name="n a", state="passed"),
        evolve(ROW, name="o a", state="failed"),
    ]
    known = [
        KnownFailure("m*", "r"),
        KnownFailure("n*", "s"),
        KnownFailure("o*", "t", "2026-01-01"),
        KnownFailure("x", "u"),
    ]
    made, notes = mark_known_failures(rows, known, "2026-01-02")
    assert [row.known for row in made] == ["r", "", ""]
    assert len(notes) == 3
    assert "n a passes" in notes[0]
    assert "expired on 2026-01-01" in notes[1]
    assert "matches no cell" in notes[2]
    assert [row.name for row in SweepOutcome(made).new_failures] == ["o a"]
    made, _ = mark_known_failures(rows, known, "2026-01-01")
    assert [row.known for row in made] == ["r", "", "t"]
    assert SweepOutcome(made).exit_code == 0
    assert SweepOutcome(made, is_strict=True).exit_code == 1
    assert "1 known failure passes" in SweepOutcome(made).summary


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (
            {"runners": {"b": "--x", "b/half": "--y"}, "precisions": {"full": "", "half": "--z"}},
            "b/half",
        ),
        ({"precisions": {"1": "", "2": "--z"}, "shapes": {"2": "x:[1]", "1": "x:[2]"}}, "b/1"),
    ],
)
def test_a_known_failure_or_baseline_with_the_name_of_several_cells_hides_none_of_them(
    rows: dict[str, Any], name: str
) -> None:
    plan = plan_of({"models": ["*"], "reference": "b", "runners": {"b": "--x"}, **rows})
    cells = [
        Row(each.name, each.model, each.label, each.label, "failed", labels=each.labels)
        for each in cells_of(plan, ["m"])
    ]
    marked, _ = mark_known_failures(cells, [KnownFailure(f"m {name}", "Reason")], "2026-01-01")
    same = [each.name for each in cells if each.label == name]
    assert [row.name for row in marked if row.known] == same
    before = {f"m {name}": {"state": "failed", "key": "old", "model": "m"}}
    compared = compare_with_baseline(cells, before)
    assert [row.name for row in compared if NEWLY_FAILING not in row.changes] == same


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["passed", "passed"], 0),
        (["passed", "failed"], 1),
        (["passed", "crashed"], 1),
        (["error", "timeout"], 3),
        (["passed", "flaky"], 4),
        (["passed", "no reference"], 4),
        (["inconclusive", "not run"], 4),
        (["failed", "flaky"], 1),
        ([], 0),
    ],
)
def test_exit_codes(states: list[str], code: int) -> None:
    rows = [evolve(ROW, name=str(at), state=state) for at, state in enumerate(states)]
    assert SweepOutcome(rows).exit_code == code


def test_cells_that_are_known_not_to_run_are_no_failure() -> None:
    rows = [evolve(ROW, name=str(at), state="error") for at in range(2)]
    known = [evolve(row, known="no such provider") for row in rows]
    assert [SweepOutcome(found).exit_code for found in (rows, known)] == [3, 0]
    assert SweepOutcome([*known[:1], rows[1]]).exit_code == 3


def test_failures_of_one_cause_are_one_group() -> None:
    culprit = {
        "nodes": ["conv"], "op": "Conv", "cause": "rewrite", "rewrite": "ConvBnFusion",
        "party": "onnxrt", "remedy": {"command": "run --without X", "proven": True},
    }  # fmt: skip
    rows = [evolve(ROW, name=f"{at}", key=f"{at}", state="failed") for at in range(3)]
    rows += [
        evolve(ROW, name=m, model=m, key=m, state="error", summary=f"{m}: no kernel at 0x{at}f")
        for at, m in enumerate(("q.onnx", "r.onnx"))
    ]
    diagnoses = {key: {"essence": {"culprits": [culprit]}} for key in "01"}
    groups = groups_of(rows, diagnoses)
    assert [list(group.cells) for group in groups] == [["0", "1"], ["q.onnx", "r.onnx"], ["2"]]
    [found] = [group for group in groups if group.is_diagnosed]
    assert found.cause == "Conv 'conv': rewrite by ConvBnFusion (onnxrt)"
    assert (found.remedy, found.proven) == ("run --without X", True)


def test_causes_of_earlier_reports_have_their_new_names() -> None:
    causes = ("quantisation", "quantization")
    diagnoses = {
        name: {"essence": {"culprits": [{"nodes": ["q"], "op": "Conv", "cause": name}]}}
        for name in causes
    }
    [found] = groups_of([evolve(ROW, name=n, key=n, state="failed") for n in causes], diagnoses)
    assert found.cause == "Conv 'q': quantization (None)"


def test_a_cell_that_says_what_another_of_its_model_says_has_its_cause() -> None:
    refusal = {"nodes": ["2"], "op": "Add", "cause": "refusal", "party": "onnxrt"}
    rows = [
        evolve(ROW, name=key, key=key, model=model, state=state, summary=f"{model}: no {what}(6)")
        for key, model, state, what in [
            ("fp32", "m.onnx", "error", "Add"),
            ("fp16", "m.onnx", "error", "Add"),
            ("fails", "m.onnx", "failed", "Add"),
            ("other", "m.onnx", "error", "Mul"),
            ("elsewhere", "n.onnx", "error", "Add"),
        ]
    ]
    diagnoses = {key: without_verdict(code=2, said="Nothing is cast.") for key in ("fp16", "fails")}
    groups = groups_of(rows, {"fp32": {"essence": {"culprits": [refusal]}}, **diagnoses})
    assert groups[0].cause == "Add '2': refusal (onnxrt)"
    assert [list(group.cells) for group in groups] == [
        ["fp32", "fp16"], ["fails"], ["other"], ["elsewhere"],
    ]  # fmt: skip
    assert groups[2].cause == "error: m.onnx: no Mul(6)"


def test_causes_are_shown_whole_and_rounding_is_a_cause() -> None:
    first = f"{'word ' * 25}at 0x1f. " + "second " * 20
    rows = [evolve(ROW, name=key, key=key, model=f"{key}.onnx", state="error",
                   summary=text) for key, text in (("a", first), ("b", first.replace("1f", "2e")),
                                                   ("c", "stuck " * 40))]  # fmt: skip
    rounded = record(code=1, essence={"summary": "2 outputs differ.", "rounding": "float16"})
    rows.append(evolve(row_of(ROW, [rounded]), name="d", key="d"))
    groups = groups_of(rows, {})
    assert [list(group.cells) for group in groups] == [["a", "b"], ["c"], ["d"]]
    assert groups[0].cause == f"error: {'word ' * 25}at 0x1f."
    assert groups[1].cause.endswith(" stuck ...")
    assert groups[2].cause.startswith("float16 rounding explains the differences.")


def test_failures_that_a_diagnosis_does_not_explain() -> None:
    rows = [evolve(ROW, name=key, key=key, model=f"{key}.onnx", state="failed") for key in "abcd"]
    said = "All outputs match in fp16. The largest tensor, '{}', reaches 3%."
    diagnoses: dict[str, dict[str, Any]] = {
        key: record(code=1, essence={"summary": said.format(key)}) for key in "ab"
    }
    late = without_verdict(code=-9, ended="timeout", seconds=600.2, said="[W] no effect")
    diagnoses["d"] = late
    groups = [(list(group.cells), group.cause) for group in groups_of(rows, diagnoses)]
    assert groups == [
        (["a", "b"], "Outputs differ, and the diagnosis found no fault: All outputs match in fp16"),
        (["d"], "Outputs differ, but their diagnosis failed: Stopped after 600 s: the time limit"),
        (["c"], "Outputs differ; not diagnosed (add --diagnose)"),
    ]


def test_why_there_is_no_reference_is_a_group_of_cells() -> None:
    row = evolve(
        ROW,
        model="net.onnx",
        state="no reference",
        summary="Its reference failed: no Conv.",
    )
    passed = evolve(ROW, name="m b", state="passed")
    [group] = groups_of([row, passed], {})
    assert (list(group.cells), group.cause) == (["m a"], f"no reference: {row.summary}")


_SMALL = {
    "models": ["*"],
    "reference": "a",
    "runners": {"a": "--onnxrt", "b": "--onnx"},
    "precisions": {"fp32": "", "fp16": "--fp-to-fp16"},
}
_GROWN: dict[str, dict[str, Any]] = {
    "seed": {"seeds": [1, 2]},
    "shape": {"shapes": {"s": "x:[1]", "l": "x:[2]"}},
    "precision": {"precisions": {"fp32": "", "fp16": "--fp-to-fp16", "bf16": "--fp-to-bf16"}},
    "environment": {"environments": {"old": "o", "new": "n"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("keys_changed", [False, True])
def test_nothing_old_is_new_when_an_axis_grows(keys_changed: bool) -> None:
    def rows_of(plan: dict[str, Any], salt: str = "") -> list[Row]:
        cells = cells_of(plan_of(plan), [f"m{number}.onnx" for number in range(50)])
        return [
            Row(cell.name, cell.model, cell.label, salt + cell.name, "failed",
                labels=cell.labels) for cell in cells
        ]  # fmt: skip

    plan: dict[str, Any] = _SMALL
    before = rows_of(plan)
    assert len(before) == 200
    known = [KnownFailure(row.name, "Reason") for row in before]
    for grown in _GROWN.values():
        plan = {**plan, **grown}
        baseline = {row.name: {"state": "failed", "key": row.key, "model": row.model}
                    for row in before}  # fmt: skip
        now = rows_of(plan, "other" * keys_changed)
        fresh = sum(NEWLY_FAILING in row.changes for row in compare_with_baseline(now, baseline))
        assert fresh == len(now) - len(before)
        marked, notes = mark_known_failures(now, known, "2026-01-01")
        assert (sum(bool(row.known) for row in marked), notes) == (200, [])
        before = now
