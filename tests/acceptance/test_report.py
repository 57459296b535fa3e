"""The verdict document of every command, valid by its schema, and what other formats make of it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from polygraphy.adapters.report.session import Session
from polygraphy.binding import bind
from polygraphy.domain.errors import FileError
from polygraphy.domain.report.document import Recorder
from polygraphy.ports.storage import write_text
from tests.acceptance.conftest import Done
from tests.codegen.commands import COMMANDS
from tests.support import identity_files, models, replays

Run = Callable[..., Done]

ROOT = Path(__file__).parents[2]
SAVED_ACCURACY = ROOT / "tests" / "data" / "nvidia" / "accuracy_quantile.json"


@cache
def validator() -> Any:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def document_of(text: str) -> dict[str, Any]:
    """Return a document that is valid."""
    found: dict[str, Any] = json.loads(text)
    validator().validate(found)
    return found


def command_of(line: str) -> str:
    """Return the name of the command in a line."""
    first, second = line.split()[:2]
    return first if first in ("run", "convert", "doctor") else f"{first} {second}"


LINES = {command_of(line): (name, line) for name, (line, _) in reversed(COMMANDS.items())}
"""The first line of each command."""


def with_words(line: str, words: str) -> str:
    """Add words to a command line: what follows --check belongs to the command that it names."""
    own, check, checked = line.partition(" --check ")
    return f"polygraphy {own} {words}{check}{checked}"


def test_every_command_prints_a_valid_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    identity_files.build(tmp_path)
    shutil.copy(SAVED_ACCURACY, "accuracy.json")
    replays.write(tmp_path / "replays" / "bad" / "0.json", {"conv": replays.algorithm(2)})
    for name in (
        "run_save",
        "run_golden_outputs",
        "run_save_folders",
    ):  # Others read what they save.
        assert polygraphy(f"polygraphy {COMMANDS[name][0]}").code == 0
    assert len(LINES) > 20
    for name, line in LINES.values():
        done = polygraphy(with_words(line, "--format json"))
        assert done.code == COMMANDS[name][1], f"{line}: {done.out}{done.err}"
        document = document_of(done.out)
        assert document["exit_code"] == done.code
        assert document["verdict"] == {0: "passed", 1: "failed"}[done.code], line
        assert document["command"].startswith("polygraphy")
        assert all(len(file["sha256"] or "0" * 64) == 64 for file in document["files"])


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model and another with one weight that is not the same."""
    monkeypatch.chdir(tmp_path)
    model = models.mlp()
    models.save(model, tmp_path / "good.onnx")
    weight = numpy_helper.to_array(model.graph.initializer[2]).copy()
    weight[0, 0] += 1
    model.graph.initializer[2].CopyFrom(
        numpy_helper.from_array(weight, model.graph.initializer[2].name)
    )
    models.save(model, tmp_path / "bad.onnx")
    return tmp_path


def failing(polygraphy: Run, words: str, **settings: Any) -> Done:
    saved = polygraphy(
        "polygraphy run good.onnx --onnxrt --save-inputs in.json --save-outputs gold.json"
    )
    assert saved.code == 0
    return polygraphy(
        f"polygraphy run bad.onnx --onnxrt --load-inputs in.json --load-outputs gold.json {words}",
        **settings,
    )


def test_a_failure_says_what_is_worst(two: Path, polygraphy: Run) -> None:
    done = failing(polygraphy, "--format json --report r.json")
    assert done.code == 1
    document = document_of(done.out)
    assert Path("r.json").read_text(encoding="utf-8") == done.out
    assert (document["verdict"], document["exit_code"]) == ("failed", 1)
    assert "[E] FAILED" in done.err
    [comparison] = document["comparisons"]
    [row] = [row for row in comparison["outputs"] if not row["passed"]]
    assert row["name"] in document["summary"]
    index = tuple(row["worst"]["index"])
    feeds = json.loads(polygraphy("polygraphy inspect data in.json --format json").out)
    assert feeds["results"][0]["kind"] == "data"
    assert len(index) == len(row["shape"])
    found, expected = row["worst"]["found"], row["worst"]["expected"]
    assert abs(found - expected) == pytest.approx(row["metrics"]["max_absdiff"])
    assert (row["tolerance"]["rtol"], row["tolerance"]["reason"]) == (1e-5, "the default")
    assert row["excess"] > 1 and 0 < row["mismatched"] <= row["size"]
    assert {file["path"] for file in document["files"]} == {"bad.onnx", "in.json", "gold.json"}
    [party, saved] = document["parties"]
    assert party["times"]["count"] == 1 and saved["times"] is None
    assert party["inputs"][0]["dtype"] == "float32"


def test_a_diagnosis_names_culprits_at_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = (onnx.helper.make_tensor_value_info(each, 1, [2]) for each in "xy")
    nodes = [
        onnx.helper.make_node("Abs", ["x"], ["size"], "first"),
        onnx.helper.make_node("Neg", ["size"], ["negative"], "second"),
        onnx.helper.make_node("Log", ["negative"], ["y"], "third"),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, ir_version=8), "nan.onnx")
    command = "polygraphy diagnose nan.onnx --onnxrt --format json"
    done = polygraphy(f"{command} --report r.html --report r.xml --report r.md")
    assert done.code == 1
    document = document_of(done.out)
    assert list(document)[:5] == ["schema", "verdict", "exit_code", "summary", "culprits"]
    assert document["verdict"] == "fault"
    [culprit] = document["culprits"]
    assert (culprit["cause"], culprit["nodes"]) == ("nan", ["third"])
    assert "'third', nan" in document["summary"]
    assert junitparser.JUnitXml.fromfile("r.xml").failures == 1
    assert "Culprit: third" in Path("r.md").read_text(encoding="utf-8")
    page = Path("r.html").read_text(encoding="utf-8")
    assert "Steps of the diagnosis" in page and 'id="graph"' in page


def test_seed_and_iterations_are_recorded(two: Path, polygraphy: Run) -> None:
    command = "polygraphy run good.onnx --onnxrt --onnx --seed 7 --iterations 3 --format json"
    document = document_of(polygraphy(command).out)
    assert document["data"] == [{"source": "DataLoader", "seed": 7, "iterations": 3}]
    assert document["comparisons"][0]["outputs"][0]["passed_iterations"] == 3


def test_a_saved_program_writes_the_same_report(
    two: Path, polygraphy: Run, fork_server: Any
) -> None:
    words = "good.onnx --onnxrt --onnx --format json --report r.xml"
    assert polygraphy(f"polygraphy run {words} --gen-script p.py").code == 0
    ran = document_of(polygraphy(f"polygraphy run {words}").out)
    by_command = Path("r.xml").read_text(encoding="utf-8")
    Path("r.xml").unlink()
    saved = document_of(fork_server.run([str(two / "p.py")], two).out)
    for document in (ran, saved):
        for key in ("command", "started", "seconds", "parties"):
            document.pop(key)
        for comparison in document["comparisons"]:
            comparison.pop("parties")
    assert saved == ran
    assert Path("r.xml").read_text(encoding="utf-8").count("<testcase") == by_command.count(
        "<testcase"
    )


def test_a_profile_is_in_the_document(two: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy run good.onnx --onnxrt --onnx --mark-all --profile 2 --format json"
    )
    assert done.code == 0, done.err
    document = document_of(done.out)
    [profile] = [each for each in document["results"] if each["kind"] == "profile"]
    rows = profile["rows"]
    assert sum(row["cells"][0]["microseconds"] for row in rows) == pytest.approx(
        profile["sides"][0]["profiled"]
    )
    assert [row["kind"] for row in rows][-1] == "outside"
    assert all((row["error"] is None) == (row["kind"] != "nodes") for row in rows)
    rows[0]["cells"][0]["more"] = 1
    with pytest.raises(jsonschema.ValidationError, match="more"):
        validator().validate(document)


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        ("run gone.onnx --onnxrt", 2, "UsageError"),
        ("run good.onnx --onnxrt --input-shapes nothing:[1]", 2, None),
        ("run good.onnx --onnxrt --rtol much", 2, "UsageError"),
        ("run good.onnx --no-such-flag", 2, "UsageError"),
        ("inspect model damaged.onnx", 3, "ModelError"),
        ("check accuracy empty.json", 3, "FileError"),
    ],
)
def test_errors_are_reported(words: str, code: int, kind: str, two: Path, polygraphy: Run) -> None:
    Path("damaged.onnx").write_bytes(Path("good.onnx").read_bytes()[:100])
    Path("empty.json").write_text("")
    done = polygraphy(f"polygraphy {words} --format json --report r.xml")
    assert done.code == code
    document = document_of(done.out)
    assert (document["verdict"], document["exit_code"]) == ("error", code)
    [error] = document["errors"]
    assert kind is None or error["kind"] == kind
    assert error["message"] in done.err and document["summary"] == error["message"]
    suites = junitparser.JUnitXml.fromfile("r.xml")
    assert (suites.tests, suites.errors, suites.failures) == (1, 1, 0)


def test_a_parser_reads_the_junit_file(two: Path, polygraphy: Run) -> None:
    assert failing(polygraphy, "--report r.xml").code == 1
    suites = junitparser.JUnitXml.fromfile("r.xml")
    [suite] = suites
    assert (suites.tests, suites.failures, suites.errors) == (1, 1, 0)
    [case] = suite
    assert (case.name, case.classname) == ("y", "onnxrt vs. gold.json (simple)")
    [failure] = case.result
    assert "expected" in failure.message
    assert {"verdict", "exit_code", "onnx", "sha256 of bad.onnx"} <= {
        each.name for each in suite.properties()
    }


def test_text_and_markdown(two: Path, polygraphy: Run) -> None:
    done = failing(polygraphy, "--report r.md")
    assert done.code == 1 and "Accuracy Summary" in done.out
    text = Path("r.md").read_text(encoding="utf-8")
    assert text.startswith("## ❌ FAILED: 1 of 1 output differs")
    assert "| ❌ | y |" in text and "polygraphy run bad.onnx" in text


def test_the_first_layer_that_fails_is_named_with_its_operator(
    tmp_path: Path, polygraphy: Run
) -> None:
    digits = Path(__file__).parents[2] / "examples" / "digits"
    every = "--onnxrt --mark-all"
    saved = polygraphy(
        f"polygraphy run {digits / 'digits.onnx'} {every} --save-outputs gold.json", cwd=tmp_path
    )
    assert saved.code == 0
    done = polygraphy(
        f"polygraphy run {digits / 'digits_changed.onnx'} {every} --load-outputs gold.json"
        " --format json",
        cwd=tmp_path,
    )
    assert (
        "; first to fail: 'conv2_output' (Conv, number 3); worst: "
        in document_of(done.out)["summary"]
    )


def test_the_page_holds_the_document_and_names_as_text(two: Path, polygraphy: Run) -> None:
    done = failing(polygraphy, "--mark-all --report r.html --format json")
    page = Path("r.html").read_text(encoding="utf-8")
    text = page.partition('id="document">')[2].partition("</script>")[0]
    assert document_of(text) == document_of(done.out)
    assert "FAILED: polygraphy run bad.onnx" in page.partition("</title>")[0]
    assert page.count("<svg") >= 3 and "http:" not in page and "https:" not in page
    assert "--rtol auto --atol auto</code>" in page


def test_github_actions_show_errors_and_a_summary(two: Path, polygraphy: Run) -> None:
    actions = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(two / "summary.md")}
    done = failing(polygraphy, "--format json", env=actions)
    document_of(done.out)
    [line] = [line for line in done.err.splitlines() if line.startswith("::error")]
    assert "| y::worst: 'y' at [0," in line
    assert Path("summary.md").read_text(encoding="utf-8").startswith("## ❌ FAILED")
    Path("summary.md").unlink()
    assert "::error" not in failing(polygraphy, "", env=actions).err
    assert not Path("summary.md").exists()


def test_child_processes_do_not_write_into_the_document(two: Path, polygraphy: Run) -> None:
    command = (
        "polygraphy debug repeat --until 2 --format json --show-output --check polygraphy run"
        " good.onnx --onnxrt"
    )
    done = polygraphy(command)
    assert done.code == 0
    document = document_of(done.out)
    assert document["verdict"] == "passed"
    assert [(each["kind"], each["outcome"]) for each in document["results"]] == [
        ("iteration", "good")
    ] * 2
    assert "PASSED  1 iteration; nothing was compared." in done.err


def test_a_report_of_a_crash_says_that_there_is_no_result(two: Path) -> None:
    Path("d.py").write_text("import ctypes\ndef load_data():\n    ctypes.string_at(0)\n")
    for name in ("r.json", "r.xml"):
        Path(name).write_text("of an earlier run")
    words = "run good.onnx --onnxrt --data-loader-script d.py --format json"
    command = [sys.executable, "-m", "polygraphy", *words.split()]
    command += ["--report", "r.json", "--report", "r.xml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV
    document = document_of(done.stdout)
    assert (document["verdict"], document["exit_code"]) == ("error", 3)
    assert document["summary"].startswith("The program has no result: it crashed")
    assert Path("r.json").read_text(encoding="utf-8") == done.stdout
    suites = junitparser.JUnitXml.fromfile("r.xml")
    assert (suites.tests, suites.errors) == (1, 1)


def test_a_full_disk_does_not_leave_the_report_of_an_earlier_run(tmp_path: Path) -> None:
    def find_no_space(path: str, text: str, **_: bool) -> None:
        raise FileError(f"Could not write {path}: No space left on device.", path=path)

    report = tmp_path / "r.json"
    report.write_text("of an earlier run")
    session = Session(Recorder(), "text", [str(report)], ())
    with bind(write_text, find_no_space), pytest.raises(FileError, match="No space"):
        session.open()
    assert not report.exists()
    session.close(3)  # Reports go to the console again.


def test_an_unwritable_report_ends_the_program_before_it_runs(two: Path, polygraphy: Run) -> None:
    Path("taken.json").mkdir()
    done = polygraphy(
        "polygraphy run good.onnx --onnxrt --report taken.json/r.json --report r.md"
        " --report taken.json --save-outputs out.json"
    )
    assert done.code == 3 and done.err.count("taken.json") == 1
    assert not Path("out.json").exists()
    assert "ERROR: " in Path("r.md").read_text(encoding="utf-8")


def test_a_report_does_not_fill_a_folder_that_must_be_empty(two: Path, polygraphy: Run) -> None:
    Path("out").mkdir()
    words = "run good.onnx --onnxrt --save-outputs out --report out/r.json"
    assert polygraphy(f"polygraphy {words}").code == 0
    assert document_of(Path("out/r.json").read_text())["verdict"] == "passed"


def test_a_report_does_not_overwrite_what_is_read(two: Path, polygraphy: Run) -> None:
    Path("in.json").write_text("{}")
    command = "polygraphy run good.onnx --onnxrt --load-inputs in.json --report"
    for path in ("in.json", "./in.json"):
        done = polygraphy(f"{command} {path} --report r.json")
        assert done.code == 2 and f"--report would overwrite {path}" in done.err
        assert document_of(Path("r.json").read_text())["exit_code"] == 2
    assert Path("in.json").read_text() == "{}"
    for option in ("--save-outputs", "--log-file", "--report"):
        done = polygraphy(f"polygraphy run good.onnx --onnxrt {option} x.json --report x.json")
        assert done.code == 2 and "would overwrite x.json" in done.err, option
    done = polygraphy("polygraphy run good.onnx --onnxrt --report r.docx")
    assert done.code == 2 and ".docx" in done.err and ".xml" in done.err


def test_names_from_a_model_are_no_markup(tmp_path: Path, polygraphy: Run) -> None:
    name = "a|b<script>\x1b[31m\u202e&`"
    x, y = (onnx.helper.make_tensor_value_info(each, 1, [2]) for each in ("x", name))
    node = onnx.helper.make_node("Log", ["x"], [name])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]), ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array([-1, 1], np.float32))
    done = polygraphy(
        "polygraphy run m.onnx --onnxrt --onnx --val-range [-1,-0.5] --format json --report r.xml"
        " --report r.md",
        cwd=tmp_path,
    )
    assert done.code == 1
    assert document_of(done.out)["comparisons"][0]["outputs"][0]["name"] == name
    assert "\x1b" not in done.out and "\u202e" not in done.out
    suites = junitparser.JUnitXml.fromfile(str(tmp_path / "r.xml"))
    assert suites.failures == 1
    assert "<script>" not in (tmp_path / "r.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "summary"),
    [
        ("inspect diff good.onnx bad.onnx", r"1 difference; first: Initializer '.+' changed\."),
        ("inspect diff good.onnx good.onnx", r"The models are the same\."),
        ("check lint good.onnx", r"No errors and no warnings\."),
        ("check lint odd.onnx", r"1 error; first: .*NoSuchOp.*\."),
        ("check compatibility good.onnx", r"onnxrt can run the model\. onnx can run the model\..*"),
        ("check compatibility odd.onnx", r"onnxrt cannot: .*NoSuchOp.*\. onnx cannot: .*"),
        ("inspect sparsity good.onnx", r"\d of \d weights? (is|are) 2:4 sparse\."),
        ("inspect model nan.onnx", r"The model has 2 nodes, 0 weights, 1 input and 1 output\."),
        ("inspect outputs nan.onnx", r"3 tensors, of which 1 is an output\."),
        ("doctor", r"Installed: .*ONNX Runtime.*\."),
        ("debug precision good.onnx --onnxrt", r"All nodes can be cast: .*\."),
        ("run nan.onnx --onnxrt --onnx", r".*: NaN in 2 of 2 elements of both; NaN never passes\."),
        (
            "run inf.onnx --onnxrt --onnx",
            r".*: infinity in 2 of 2 elements of both; infinities are equal only .*",
        ),
    ],
)
def test_the_summary_is_the_answer(two: Path, polygraphy: Run, command: str, summary: str) -> None:
    x, y = (onnx.helper.make_tensor_value_info(each, 1, [2]) for each in "xy")
    nodes = {
        "odd.onnx": [onnx.helper.make_node("NoSuchOp", ["x"], ["y"])],
        "nan.onnx": [
            onnx.helper.make_node("Sub", ["x", "x"], ["zero"]),
            onnx.helper.make_node("Div", ["zero", "zero"], ["y"]),
        ],
        "inf.onnx": [
            onnx.helper.make_node("Sub", ["x", "x"], ["zero"]),
            onnx.helper.make_node("Div", ["x", "zero"], ["y"]),
        ],
    }
    for name, made in nodes.items():
        graph = onnx.helper.make_graph(made, "g", [x], [y])
        onnx.save(
            onnx.helper.make_model(
                graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]
            ),
            name,
        )
    document = document_of(polygraphy(f"polygraphy {command} --format json").out)
    assert re.fullmatch(summary, document["summary"]), document["summary"]
