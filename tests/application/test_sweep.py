"""Sweeps without processes: what is run, what is not run again, and what is reported."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import onnx
import pytest

from polygraphy.adapters.fake import ScriptedEngine
from polygraphy.binding import bind
from polygraphy.domain.diagnosis.words.quantization import SAVE_CORRECTED
from polygraphy.domain.errors import (
    BackendError,
    DamagedFileError,
    FileError,
    InconclusiveError,
    UsageError,
)
from polygraphy.domain.report.document import as_json_value
from polygraphy.domain.sweep.cells import Job
from polygraphy.domain.sweep.outcome import SweepOutcome
from polygraphy.ports.machine import machine_facts
from polygraphy.ports.reporting import Reports
from polygraphy.ports.sweeping import SweepEngine
from polygraphy.sweep import sweep

PLAN: dict[str, Any] = {
    "models": ["*.onnx"],
    "reference": "onnx",
    "runners": {"onnxrt": "--onnxrt"},
    "precisions": {"fp32": "", "fp16": "--fp-to-fp16"},
}


class Heard:
    """Keeps what came of a sweep."""

    outcome: SweepOutcome | None = None

    def sweep(self, outcome: SweepOutcome) -> None:
        self.outcome = outcome


class Sweeps:
    """Runs sweeps by an engine that writes what a process would write."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.folder = folder / "results"
        for name in ("a", "b"):
            node = onnx.helper.make_node("Relu", ["x"], ["y"], name=name)
            x, y = (onnx.helper.make_tensor_value_info(t, 1, [2]) for t in "xy")
            model = onnx.helper.make_model(onnx.helper.make_graph([node], name, [x], [y]))
            onnx.save(model, self.root / f"{name}.onnx")
        self.answer: Callable[[Job], Mapping[str, Any]] = lambda job: {}
        self.ran: list[Job] = []

    def _write(self, job: Job) -> Mapping[str, Any]:
        facts = dict(self.answer(job))
        record = {
            "key": job.key, "ended": "exit", "code": 0, "seconds": 1.0, "memory": 1,
            "shared": False, "machine": {}, "said": "", "essence": {"summary": "", "verdict": ""},
            **facts,
        }  # fmt: skip
        Path(job.result).parent.mkdir(parents=True, exist_ok=True)
        Path(job.result).write_text(json.dumps(record))
        return record

    def __call__(self, plan: Mapping[str, Any] = PLAN, **options: Any) -> SweepOutcome:
        engine, heard = ScriptedEngine(self._write), Heard()
        with bind(SweepEngine, engine, "local"), bind(Reports, cast("Any", heard)):
            try:
                self.passed: bool | None = None
                self.passed = sweep(plan, str(self.folder), str(self.root), **options)
            finally:
                self.ran = engine.jobs
        assert heard.outcome is not None
        return heard.outcome

    def cells(self) -> list[str]:
        return [job.key for job in self.ran if "/cells/" in job.stem]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Sweeps]:
    yield Sweeps(tmp_path)


def is_of(*words: str) -> Callable[[Job], bool]:
    return lambda job: all(word in job.command for word in words) and "/cells/" in job.stem


def test_inputs_and_outputs_are_computed_once_for_the_cells_of_a_model(run: Sweeps) -> None:
    outcome = run()
    assert run.passed
    assert [row.name for row in outcome.rows] == [
        f"{model}.onnx onnxrt/{precision}" for model in "ab" for precision in ("fp32", "fp16")
    ]
    assert len(run.ran) == 2 + 4
    shared = [job for job in run.ran if "/shared/" in job.stem]
    assert all("--onnx" in job.command and "--save-outputs" in job.command for job in shared)
    for cell in run.ran[2:]:
        inputs = cell.command[cell.command.index("--load-inputs") + 1]
        assert any(inputs in job.command for job in shared)
    command = outcome.rows[1].command
    assert command.startswith(
        "polygraphy run a.onnx --onnxrt --fp-to-fp16 --load-inputs ../results/"
    )


def test_cells_are_not_run_again(run: Sweeps) -> None:
    run()
    with pytest.raises(UsageError, match=r"contains results of an earlier sweep.*--resume"):
        run()
    first = run(resume=True)
    assert run.ran == []
    record = next(run.folder.glob("cells/*/*.json"))
    record.write_text(record.read_text()[:40])
    outcome = run(resume=True)
    assert run.cells() == [record.stem]
    assert [f"{record} is damaged" in note for note in outcome.notes] == [True]
    assert [row.state for row in outcome.rows] == [row.state for row in first.rows]


def test_what_changes_is_run(run: Sweeps) -> None:
    before = run()
    (run.root / "a.onnx").write_bytes((run.root / "a.onnx").read_bytes() + b"\x32\x01x")
    run(
        {**PLAN, "precisions": {"fp32": "", "fp16": "--fp-to-fp16", "bf16": "--to-bf16"}},
        resume=True,
    )
    known = {row.key for row in before.rows}
    assert len(run.cells()) == 3 + 1
    assert known.isdisjoint(run.cells())


def test_combinations_that_are_the_same_are_one_cell(run: Sweeps) -> None:
    (run.root / "c.onnx").write_bytes((run.root / "a.onnx").read_bytes())
    outcome = run()
    assert outcome.merged == 2
    assert len(run.cells()) == len(outcome.rows) == 4
    [names] = [row.names for row in outcome.rows if "c.onnx onnxrt/fp32" in row.names]
    assert names[0] == "a.onnx onnxrt/fp32"  # Known failures and baselines find both.
    assert len(run(resume=True, only="c.onnx *").rows) == 2


def test_cells_without_reference_are_not_failed(run: Sweeps) -> None:
    run.answer = lambda job: {"code": 3, "said": "no"} if "/shared/" in job.stem else {}
    (run.root / "b.onnx").unlink()
    with pytest.raises(InconclusiveError):
        run()
    assert run.cells() == []


@pytest.mark.parametrize(
    ("record", "is_computed_again"),
    [
        ({"code": -11}, True),
        ({"ended": "timeout", "code": -9}, True),
        ({"ended": "memory", "code": -9}, True),
        ({"code": 3, "said": "Gradient is not implemented"}, False),
    ],
)
def test_a_reference_that_failed_by_chance_is_computed_again_on_resume(
    run: Sweeps, record: Mapping[str, Any], is_computed_again: bool
) -> None:
    run.answer = lambda job: record if "/shared/" in job.stem else {}
    with pytest.raises(InconclusiveError):
        run()
    run.answer = lambda job: {}
    if is_computed_again:
        assert {row.state for row in run(resume=True).rows} == {"passed"}
        assert len(run.ran) == 2 + 4
    else:
        with pytest.raises(InconclusiveError):
            run(resume=True)
        assert run.ran == []


def test_shards_do_not_each_compute_a_reference_that_failed_again(run: Sweeps) -> None:
    run.answer = lambda job: {"code": -11} if "/shared/" in job.stem else {}
    ran = []
    for number in (1, 2, 3):
        with suppress(InconclusiveError):  # A shard may have no cell.
            run(shard=f"{number}/3")
        ran += run.ran
    assert len(ran) == len({job.key for job in ran}) == 2


def node_times(**times: float) -> dict[str, Any]:
    rows = [
        {"label": name, "nodes": [name], "microseconds": time, "spread": 0.1}
        for name, time in times.items()
    ]
    essence = {"summary": "", "verdict": "", "nodes": rows}
    return {"essence": essence, "machine": dict(machine_facts())}


def test_cells_that_ran_are_profiled_alone_and_their_slower_nodes_are_named(
    run: Sweeps, tmp_path: Path
) -> None:
    is_profile = is_of("--profile")

    def answer(job: Job) -> Mapping[str, Any]:
        if not is_profile(job):
            facts = {"code": 3 if is_of("b.onnx", "--fp-to-fp16")(job) else 0}
            return {"machine": dict(machine_facts()), **facts}
        if "b.onnx" in job.command:
            return {"code": 2, "said": "no profiler"}
        return node_times(conv=100, fc=50)

    run.answer = answer
    with suppress(BackendError, InconclusiveError):
        before = run(profile=5)
    jobs = list(filter(is_profile, run.ran))
    assert len(jobs) == 3 and all(job.exclusive for job in jobs)  # One cell did not run.
    assert all("--load-outputs" not in job.command for job in jobs)
    assert [note for note in before.notes if "profile" in note] == [
        "1 cell without a profile: no profiler"
    ]
    assert [bool(row.profile) for row in before.rows] == [True, True, False, False]
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"results": [{"kind": "sweep", **as_json_value(before)}]}))

    def slower(job: Job) -> Mapping[str, Any]:
        if not is_profile(job):
            return {"machine": dict(machine_facts())}
        is_confirmed = "--fp-to-fp16" in job.command or ".time" not in job.key
        return node_times(conv=300 if is_confirmed else 101, fc=50)

    run.answer = slower
    run.folder = tmp_path / "later"
    after = run(profile=5, baseline=str(baseline))
    assert [[each.label for each in row.slower_nodes] for row in after.rows[:2]] == [[], ["conv"]]
    assert "with slower nodes" in after.rows[1].changes
    assert "1 with slower nodes" in after.summary and run.passed


def test_a_failure_is_repeated_and_may_be_flaky(run: Sweeps) -> None:
    is_half = is_of("a.onnx", "--fp-to-fp16")
    run.answer = lambda job: {"code": 1} if is_half(job) and not job.key.endswith(".3") else {}
    with pytest.raises(InconclusiveError):
        run(repeat_failed=2)
    assert [key.partition(".")[2] for key in run.cells()] == ["", "", "", "", "2", "3"]
    with pytest.raises(InconclusiveError):
        run(resume=True)  # What is known of a cell stays known.
    assert run.ran == []
    run.answer = lambda job: {"code": 1} if is_half(job) else {}
    for path in run.folder.glob("cells/*/*.json"):
        path.unlink()
    assert run(repeat_failed=2).rows[1].state == "failed"
    assert run.passed is False


def document(outcome: SweepOutcome, path: Path) -> str:
    path.write_text(json.dumps({"results": [{"kind": "sweep", **as_json_value(outcome)}]}))
    return str(path)


def test_only_new_failures_count_beside_a_baseline(run: Sweeps, tmp_path: Path) -> None:
    fails = is_of("a.onnx", "--fp-to-fp16")
    run.answer = lambda job: {"code": 1} if fails(job) else {}
    baseline = document(run(), tmp_path / "old.json")
    assert run.passed is False
    outcome = run(resume=True, baseline=baseline)
    assert run.passed
    assert "since the baseline: nothing new" in outcome.summary
    fails = is_of("--fp-to-fp16")
    for path in run.folder.glob("cells/*/*.json"):
        path.unlink()
    outcome = run(resume=True, baseline=baseline)
    assert run.passed is False
    assert [row.name for row in outcome.new_failures] == ["b.onnx onnxrt/fp16"]


def test_a_slower_cell_is_run_again_before_it_is_reported(run: Sweeps, tmp_path: Path) -> None:
    times = {"a.onnx": [1.0, 9.0, 1.1, 9.0], "b.onnx": [1.0, 9.0, 8.0, 7.0]}

    def answer(job: Job) -> Mapping[str, Any]:
        name = next((name for name in times if name in job.command), "")
        if "/cells/" not in job.stem or "--fp-to-fp16" in job.command:
            return {}
        found = {"summary": "", "verdict": "passed", "inference": times[name].pop(0)}
        return {"essence": found, "machine": here}

    here = machine_facts()
    run.answer = answer
    baseline = document(run(), tmp_path / "old.json")
    for path in run.folder.glob("cells/*/*.json"):
        path.unlink()
    outcome = run(resume=True, baseline=baseline)
    assert {row.name: list(row.changes) for row in outcome.rows if row.changes} == {
        "b.onnx onnxrt/fp32": ["slower"]
    }
    assert all(job.exclusive for job in run.ran if ".time" in job.key)
    assert run.passed  # It is reported, and no failure.
    again = run(resume=True, baseline=baseline)
    assert [list(row.changes) for row in again.rows] == [list(row.changes) for row in outcome.rows]
    assert run.ran == []  # What confirms it is kept, too.


def test_known_failures(run: Sweeps) -> None:
    fails = is_of("--fp-to-fp16")
    run.answer = lambda job: {"code": 1} if fails(job) else {}
    run(known=[{"cell": "*/fp16", "reason": "overflow", "until": "2999-01-01"}])
    assert run.passed
    run(resume=True, known=[{"cell": "*/fp16", "reason": "overflow", "until": "2001-01-01"}])
    assert run.passed is False


def test_a_known_failure_of_another_shard_is_of_a_cell(run: Sweeps) -> None:
    known = [{"cell": "a.onnx*fp16", "reason": "r"}, {"cell": "c.onnx*", "reason": "r"}]
    for number in (1, 2):
        [note] = [each for each in run(shard=f"{number}/2", known=known).notes if "no cell" in each]
        assert "c.onnx" in note


def test_failures_are_diagnosed_once(run: Sweeps) -> None:
    fails = is_of("--fp-to-fp16")
    culprit = {"nodes": ["n"], "op": "Conv", "cause": "c", "rewrite": "R", "party": "onnxrt"}

    def answer(job: Job) -> Mapping[str, Any]:
        if "diagnose" in job.command:
            return {"code": 1, "essence": {"summary": "s", "verdict": "f", "culprits": [culprit]}}
        return {"code": 1} if fails(job) else {}

    run.answer = answer
    outcome = run(diagnose=True)
    assert [list(group.cells) for group in outcome.groups] == [
        ["a.onnx onnxrt/fp16", "b.onnx onnxrt/fp16"]
    ]
    assert outcome.groups[0].cause == "Conv 'n': c by R (onnxrt)"
    [first, _] = [job for job in run.ran if "diagnose" in job.command]
    assert first.command[3:7] == ("diagnose", "a.onnx", "--onnxrt", "--fp-to-fp16")
    assert "--onnx" in first.command
    run(resume=True, diagnose=True)
    assert run.ran == []
    again = run(resume=True)
    assert (run.ran, [*again.groups]) == ([], [*outcome.groups])  # What is known stays known.


@pytest.mark.parametrize(
    ("record", "is_diagnosed"),
    [
        ({"code": 3, "said": "no provider in use implements it"}, True),
        ({"code": -11}, True),
        ({"ended": "timeout", "code": -9}, False),
        ({"ended": "memory", "code": -9}, False),
    ],
)
def test_all_cells_that_fail_are_diagnosed_but_those_that_ran_into_a_limit(
    run: Sweeps, record: Mapping[str, Any], is_diagnosed: bool
) -> None:
    fails = is_of("--fp-to-fp16")
    culprit = {"nodes": ["n"], "op": "Conv", "cause": "refusal", "rewrite": None, "party": "o"}

    def answer(job: Job) -> Mapping[str, Any]:
        if "diagnose" in job.command:
            return {"code": 1, "essence": {"summary": "s", "verdict": "f", "culprits": [culprit]}}
        return record if fails(job) else {}

    run.answer = answer
    outcome = run(diagnose=True)
    assert sum("diagnose" in job.command for job in run.ran) == 2 * is_diagnosed
    assert (outcome.groups[0].cause == "Conv 'n': refusal (o)") is is_diagnosed
    assert len(outcome.groups[0].cells) == 2


def test_shards_share_a_folder(run: Sweeps) -> None:
    names: list[str] = []
    for number in (1, 2, 3):
        names += [row.name for row in run(shard=f"{number}/3").rows]
    assert len(names) == len(set(names)) == 4
    assert run(resume=True).summary.startswith("4 of 4 cells passed")
    assert run.ran == []


def test_another_machine_counts_unless_the_plan_says_otherwise(run: Sweeps) -> None:
    run.answer = lambda job: {"machine": {"processor": "other"}}
    run()
    assert all(row.is_foreign for row in run(resume=True).rows)
    assert run.ran == []
    run({**PLAN, "same_machine": True}, resume=True)
    assert len(run.cells()) == 4


def test_cells_may_be_chosen_and_listed(run: Sweeps) -> None:
    assert [row.name for row in run(only="b*fp16").rows] == ["b.onnx onnxrt/fp16"]
    with pytest.raises(
        UsageError, match=r"No cell matches 'zzz'\. For example, one cell is 'a.onnx onnxrt/fp32'"
    ):
        run(only=["zzz"], resume=True)
    outcome = run(dry_run=True)
    assert (run.ran, len(outcome.rows)) == ([], 4)
    assert outcome.summary == "4 cells; none was run."


def test_no_cell_could_be_run(run: Sweeps) -> None:
    run.answer = lambda job: {"code": 3, "said": "x"} if "/cells/" in job.stem else {}
    with pytest.raises(BackendError, match="No cell could be run"):
        run()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"models": ["c*.onnx"]}, "No model matches 'c.\\.onnx'. Patterns are relative to"),
        (
            {"environments": {"e": "nowhere"}},
            "Environment 'e': .*nowhere is not an executable interpreter",
        ),
        ({"environments": {"e": "."}}, "Environment 'e': .* is not a virtual environment"),
        ({"environments": {"e": {"requirements": "r.txt"}}}, "Environment 'e': .*r.txt does not"),
        (
            {"reference": {"outputs": "o.json", "inputs": "i"}},
            "The plan refers to .*o.json does not",
        ),
        ({"reference": {"runner": "onnx", "models": {"*": "m.onnx"}}}, ".*m.onnx does not exist"),
    ],
)
def test_what_is_not_there_is_one_clear_line(
    run: Sweeps, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run({**PLAN, **change})


def test_files_of_other_things_are_refused(run: Sweeps, tmp_path: Path) -> None:
    run.folder.mkdir()
    (run.folder / "mine.txt").write_text("mine")
    with pytest.raises(FileError, match="contains files that are not from a sweep"):
        run()
    assert [path.name for path in run.folder.iterdir()] == ["mine.txt"]
    (tmp_path / "old.json").write_text("{}")
    (run.folder / "mine.txt").unlink()
    with pytest.raises(DamagedFileError, match="is not a sweep document"):
        run(baseline=str(tmp_path / "old.json"))


@pytest.mark.parametrize(
    "flags",
    [
        "--compare-func-script=cmp.py",
        "--compare-func-script cmp.py:compare",
        "--compare-func-script='c[1].py'",
        "--samples=data",
        "--runner 'a=--onnxrt --plugins cmp.py'",
    ],
)
def test_a_file_that_flags_read_is_seen_to_change(run: Sweeps, flags: str) -> None:
    for name in ("cmp.py", "c[1].py", "data/a.py"):
        (run.root / name).parent.mkdir(exist_ok=True)
        (run.root / name).write_text("import helper\n")
    (run.root / "helper.py").write_text("")
    plan = {**PLAN, "flags": f"{flags} --log-file out.log"}
    run(plan)
    (run.root / "out.log").write_text("What a cell writes.")
    run(plan, resume=True)
    assert run.ran == []
    for name in ("cmp.py", "c[1].py", "data/a.py"):
        (run.root / name).write_text("import helper  # changed\n")
    run(plan, resume=True)
    assert len(run.cells()) == 4
    (run.root / "helper.py").write_text("changed = True")
    run(plan, resume=True)
    assert len(run.cells()) == (0 if "samples" in flags else 4)
    (run.root / "helper.py").write_text("read('numbers.csv')")
    (run.root / "numbers.csv").write_text("1")
    run(plan, resume=True)
    (run.root / "numbers.csv").write_text("2")
    run(plan, resume=True)
    assert len(run.cells()) == (0 if "samples" in flags else 4)


def test_a_known_failure_is_that_of_the_cell_it_names(run: Sweeps) -> None:
    runners = {"ort": "--onnxrt", "ort2": "--onnxrt --sequential-runners", "ort[2]": "--onnxrt -v"}
    plan = {"models": ["a.onnx"], "reference": "onnx", "runners": runners}
    run.answer = lambda job: {"code": 1} if is_of()(job) else {}
    for known, rest in (("a.onnx ort", 2), ("onnx ort", 3), ("a.onnx ort[2]", 2), ("a*", 0)):
        outcome = run(plan, resume=True, known=[{"cell": known, "reason": "r"}])
        assert sum(row.failed and not row.known for row in outcome.rows) == rest, known
    assert "a.onnx ort[2]" in [row.name for row in run(plan, resume=True, only="ort[2]").rows]


def test_the_marks_of_a_shard_that_starts_are_no_foreign_files(run: Sweeps) -> None:
    (run.folder / "package").mkdir(parents=True)
    (run.folder / ".sweep.json.part").touch()
    assert run().rows
    (run.folder / "sweep.json").unlink()
    with pytest.raises(FileError, match="contains files that are not from a sweep"):
        run(resume=True)


def test_wrong_parameters_of_quantized_models_are_one_group(run: Sweeps) -> None:
    text = """<ir_version: 9, opset_import: ["": 17]> m (float[2] x) => (float[2] y)
        <float s = {0.5}, uint8 z = {128}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"""
    onnx.save(onnx.parser.parse_model(text), run.root / "b.onnx")

    def answer(job: Job) -> Mapping[str, Any]:
        if "diagnose" in job.command:
            culprit = {"op": "Relu", "cause": "clipped range", "party": "model"}
            culprit["nodes"] = [job.command[4]]  # type: ignore[assignment]
            note = f"Correct {job.command[4]}. {SAVE_CORRECTED}"
            culprit["remedy"] = {"note": note}  # type: ignore[assignment]
            return {"code": 1, "essence": {"summary": "s", "verdict": "f", "culprits": [culprit]}}
        return {"code": 1} if "/cells/" in job.stem else {}

    run.answer = answer
    models = {"runner": "onnx", "models": {"b.onnx": "a.onnx"}}
    plan = {**PLAN, "reference": models, "within": 0.05}
    del plan["precisions"]
    outcome = run(plan, diagnose=True)
    assert [(group.cause, len(group.cells)) for group in outcome.groups] == [
        ("Quantization: clipped range (model)", 2)
    ]
    [remedy] = [group.remedy for group in outcome.groups]
    assert remedy.count(": Correct ") == 2  # The correct value of one cell does not help another.
    [job] = [job for job in run.ran if "--reference" in job.command]
    assert job.command[job.command.index("--within") + 1] == "0.05"
    # A sweep has no --save: its line is a whole command.
    words = shlex.join(job.command[4 : job.command.index("--report")])
    words = words.replace(str(run.folder), "../results")
    command = f"polygraphy diagnose {words} --save b_fixed.onnx"
    assert f"Correct b.onnx. To write the corrected model: `{command}`." in remedy


def test_commands_are_those_of_the_folder_of_the_plan(
    run: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Run the commands of this report in the folder of the plan: cd "
    monkeypatch.chdir(run.root.parent)
    assert not [note for note in run().notes if note.startswith(said)]
    run.answer = lambda job: {"code": 1} if is_of()(job) else {}
    outcome = run({**PLAN, "seeds": [7]}, resume=True)
    assert outcome.notes[-1] == f"{said}{shlex.quote(run.root.name)}"
    monkeypatch.chdir(run.root)
    assert not [note for note in run(resume=True).notes if note.startswith(said)]
