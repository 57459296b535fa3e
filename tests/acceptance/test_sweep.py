"""`polygraphy sweep` as users run it: in processes, killed, and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support import models
from tests.support.forked import ForkServer

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, str]]

PLAN = """
models = ["models/*.onnx"]
reference = "onnx"
flags = "--rtol auto"
[runners]
default = "--onnxrt"
plain = "--onnxrt --graph-optimization-level DISABLE_ALL"
[precisions]
fp32 = ""
fp16 = "--fp-to-fp16"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    models.save(models.identity(), tmp_path / "models" / "identity.onnx")
    models.save(models.mlp(), tmp_path / "models" / "mlp.onnx")
    models.save(models.conv_net(), tmp_path / "models" / "conv.onnx")
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "polygraphy", "sweep", "plan.toml", *words]


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        command(*words),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def run(fork_server: ForkServer) -> Run:
    """Return a function that runs a sweep in a fork."""

    def run(folder: Path, *words: str) -> tuple[int, str]:
        done = fork_server.run(["polygraphy", *command(*words)[3:]], folder, merged=True)
        return done.code, done.out

    return run


def records(folder: Path) -> dict[str, int]:
    """Return when each cell's record was written."""
    found = folder.glob("plan.sweep/cells/*/*.json")
    return {each.name: each.stat().st_mtime_ns for each in found if ".report" not in each.name}


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    [sweep] = [each for each in found["results"] if each["kind"] == "sweep"]
    return sweep


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_sweep_that_is_ended_resumes_and_runs_nothing_twice(
    folder: Path, run: Run, how: signal.Signals
) -> None:
    (folder / "plan.toml").write_text(PLAN.replace('fp16 = "--fp-to-fp16"\n', ""))
    process = started(folder, "--jobs", "2")
    for _ in range(6000):
        if len(records(folder)) >= 2 or process.poll() is not None:
            break
        time.sleep(0.01)
    process.send_signal(how)
    process.communicate(timeout=60)
    codes = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}
    assert process.returncode == codes[how]
    before = records(folder)
    assert 2 <= len(before) < 6
    time.sleep(0.5)  # What is still to end has to: nothing is written after that.
    assert records(folder) == before
    if how == signal.SIGTERM:
        return  # What it leaves is resumed as after the others.
    code, said = run(folder, "--resume", "--report", "s.json", "--report", "s.xml")
    after = records(folder)
    assert {name: after[name] for name in before} == before
    rows = document(folder / "s.json")["rows"]
    assert len(after) == len(rows) == 6, said
    assert {row["state"] for row in rows} <= {"passed", "failed"}
    assert code == int(any(row["state"] == "failed" for row in rows)), said
    suite = ET.parse(folder / "s.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.get("tests") == "6"
    assert {case.get("name") for case in suite.iter("testcase")} == {row["model"] for row in rows}
    reports = [json.loads((folder / "plan.sweep" / row["report"]).read_text()) for row in rows]
    assert all(report["schema"] == 1 for report in reports)
    assert len(list(folder.glob("plan.sweep/shared/*/*.inputs.json"))) == 3


def test_a_cell_that_crashes_is_a_row_and_the_rest_goes_on(folder: Path, run: Run) -> None:
    (folder / "models" / "broken.onnx").write_text("no model")
    plan = PLAN.replace("[precisions]", 'gone = "--onnxrt --providers Nowhere"\n[precisions]')
    (folder / "plan.toml").write_text(plan.replace('fp16 = "--fp-to-fp16"\n', ""))
    code, said = run(folder, "--report", "s.json")
    assert code == 1, said
    states = {row["name"]: row["state"] for row in document(folder / "s.json")["rows"]}
    assert states["models/broken.onnx default/fp32"] == "no reference"
    assert states["models/mlp.onnx gone/fp32"] == "error"
    assert states["models/mlp.onnx default/fp32"] == "passed"
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if "Nowhere" in line]) == 1, said


def test_a_version_axis_runs_in_its_own_interpreter(folder: Path, run: Run) -> None:
    (folder / "plan.toml").write_text(
        PLAN + f'[environments]\nhere = {{ path = "{sys.executable}", runners = ["plain"] }}\n'
    )
    code, said = run(folder, "--only", "mlp.onnx", "--report", "s.json")
    assert code == 0, said
    rows = {row["name"]: row for row in document(folder / "s.json")["rows"]}
    assert list(rows) == [
        "models/mlp.onnx default/fp32",
        "models/mlp.onnx default/fp16",
        "models/mlp.onnx plain/fp32/here",
        "models/mlp.onnx plain/fp16/here",
    ]


@pytest.mark.parametrize(
    ("plan", "words", "said"),
    [
        ("models = [", [], "plan.toml is not a TOML file"),
        (f"models = {'[' * 5000}", [], "plan.toml is not a TOML file"),
        (PLAN, ["--known", "/dev/zero"], "/dev/zero is a device"),
        (PLAN.replace('--onnxrt"', '--onnxrr"'), [], "--onnxrr does not exist"),
        (
            PLAN.replace('"--rtol', '"--val-r [1,2] --rtol'),
            [],
            "write --val-r in full, as --val-range",
        ),
        (PLAN.replace("models/*", "modes/*"), [], "No model matches 'modes/*.onnx'"),
        (PLAN, ["--shard", "0/3"], "Shard 0 of 3 does not exist"),
        (PLAN, ["--shard", "4/3"], "Shard 4 of 3 does not exist"),
        (PLAN, ["--known", "plan.toml"], "plan.toml: In the file of known failures the key"),
        (PLAN + '[environments]\ne = "none"', [], "Environment 'e': "),
    ],
)
def test_a_plan_that_cannot_be_meant(
    folder: Path, run: Run, plan: str, words: list[str], said: str
) -> None:
    (folder / "plan.toml").write_text(plan)
    code, text = run(folder, *words)
    assert code == 2, text
    assert said in text
    assert "Traceback" not in text
    assert not list(folder.glob("plan.sweep/cells"))


def test_a_folder_that_cannot_be_written(folder: Path, run: Run) -> None:
    code, text = run(folder, "--folder", "plan.toml")
    assert (code, "plan.toml is not a folder" in text) == (3, True), text
