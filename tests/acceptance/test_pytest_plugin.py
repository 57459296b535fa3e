"""The pytest plugin in a project of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import pytest_polygraphy
from polygraphy.assertions import OutputsDiffer, assert_outputs_match
from tests.acceptance.conftest import Done
from tests.support import models
from tests.support.diagnosis.quantized_models import quantized_twice
from tests.support.forked import IN_A_FORK, ForkServer
from tests.support.pages import NUMBERS

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"

Session = Callable[..., str]
Run = Callable[..., Done]


@pytest.fixture
def session(tmp_path: Path, fork_server: ForkServer) -> Session:
    """Return a function that runs pytest in a project with two models and returns what it printed:
    in a fork, or `cold`, in a new interpreter.
    """
    for name in ("digits.onnx", "digits_changed.onnx"):
        shutil.copy(DIGITS / name, tmp_path)

    def run(*options: str, cold: bool = False, **files: str) -> str:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        words = ["-q", *IN_A_FORK, "-p", "no:cacheprovider", "-p", "no:randomly"]
        words += ["--rootdir", ".", *options]
        env = {**os.environ, "COLUMNS": "150"}
        env.pop("PYTEST_ADDOPTS", None)
        if not cold:
            done = fork_server.run(["pytest", *words], tmp_path, env)
            return done.out + done.err
        started = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return started.stdout + started.stderr

    return run


GOLDENS = """
import numpy as np
from polygraphy.assertions import assert_matches_golden

IMAGES = {"image": np.ones((1, 1, 8, 8), np.float32)}

def test_kept():
    assert_matches_golden("digits.onnx")

def test_named():
    assert_matches_golden("digits.onnx", "by name", backend="onnx", inputs=IMAGES, rtol=1e-3)

def test_other_data():
    assert_matches_golden("digits.onnx", seed=SEED)

def test_other_shape():
    assert_matches_golden("digits.onnx", shapes={"image": (BATCH, 1, 8, 8)})

def test_damaged():
    assert_matches_golden("digits.onnx")

def test_wrong():
    assert_matches_golden(MODEL)
"""
FIRST = "SEED, BATCH, MODEL = 1, 1, 'digits.onnx'\n" + GOLDENS
LATER = "SEED, BATCH, MODEL = 2, 2, 'digits_changed.onnx'\n" + GOLDENS


def failure_of(said: str, test: str) -> list[str]:
    """Return the lines below the title of a failure."""
    body = said.partition(f"_ {test} _")[2].split("\n", 1)[1]
    lines = []
    for line in body.splitlines():
        if line.startswith(("___", "===")):
            break
        lines.append(line)
    return lines


def test_goldens_are_made_used_and_missed(session: Session, tmp_path: Path) -> None:
    said = session(test_models=FIRST)
    assert "6 failed" in said
    [line, _] = failure_of(said, "test_kept")
    assert "The golden file __goldens__/test_models/test_kept.safetensors does not exist." in line
    assert "--polygraphy-update-golden" in line

    said = session("--polygraphy-update-golden")
    assert "6 passed" in said
    assert "6 golden files updated" in said
    goldens = tmp_path / "__goldens__" / "test_models"
    assert len([*goldens.iterdir()]) == 6
    assert session().splitlines()[-1].startswith("6 passed")  # And nothing is said.

    content = (goldens / "test_damaged.safetensors").read_bytes()
    (goldens / "test_damaged.safetensors").write_bytes(content[:100])
    said = session("--polygraphy-report", "page", "--polygraphy-budget", "60", test_models=LATER)
    assert "4 failed, 2 passed" in said
    [line, _] = failure_of(said, "test_other_data")
    assert "was created with different inputs" in line
    [line, _] = failure_of(said, "test_other_shape")
    assert "has shape (2, 10), but" in line
    [line, _] = failure_of(said, "test_damaged")
    assert "test_damaged.safetensors: it is truncated" in line
    wrong = failure_of(said, "test_wrong")
    assert len(wrong) <= 12
    assert wrong[0] == "2 of 2 outputs differ from test_wrong.safetensors."
    assert "the model file differs from the one that created the golden" in wrong[-4]
    digest = sha256((tmp_path / "digits.onnx").read_bytes()).hexdigest()
    assert wrong[-3] == f"  old model OLD.onnx, with SHA-256 {digest}"
    command = "polygraphy diagnose digits_changed.onnx --onnxrt --reference OLD.onnx"
    assert wrong[-2:] == [f"  next      {command}", "test_models.py:24: OutputsDiffer"]
    assert "test_wrong - 2 of 2 outputs differ from test_wrong.safetensors." in said
    assert "unused" not in said  # Not every test passed.
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "test_models.py::test_wrong: onnxrt" in page
    shutil.rmtree(goldens)  # What compares nothing fails the session, and so the page of it.
    session("--polygraphy-report", "page", "-k", "test_damaged")
    document = json.loads((tmp_path / "page" / "report.json").read_text(encoding="utf-8"))
    assert (document["verdict"], document["exit_code"]) == ("failed", 1)
    assert "1 test failed: 'test_models.py::test_damaged'" in document["summary"]


TWO = """
import pytest
from polygraphy.assertions import assert_matches_golden

@pytest.mark.parametrize("seed", [1, 2])
def test_kept(seed):
    assert_matches_golden("digits.onnx", seed=seed)

@pytest.mark.parametrize("model", ["./digits.onnx"])
def test_path(model):
    assert_matches_golden(model)
"""
NONE = """
def test_nothing(): pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_goldens_that_no_test_uses_are_told_once(
    session: Session, tmp_path: Path, options: tuple[str, ...]
) -> None:
    session("--polygraphy-update-golden", test_two=TWO, test_none=NONE)
    goldens = tmp_path / "__goldens__" / "test_two"
    shutil.copy(goldens / "test_kept-1.safetensors", goldens / "test_gone.safetensors")
    # Older versions gave goldens these names.
    (goldens / "test_path-.-digits.onnx.safetensors").rename(
        goldens / "test_path[._digits.onnx].safetensors"
    )
    said = session(*options, "--polygraphy-report", "page")
    assert said.count("unused golden file: __goldens__/test_two/test_gone.safetensors") == 1
    assert "4 passed" in said
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "test_kept[1]" in page
    assert "test_kept[2]" in page
    assert "unused" not in session("-k", "1 or nothing")


def test_a_session_that_ends_early_has_not_passed(session: Session, tmp_path: Path) -> None:
    last = "import pytest, os\ndef test_last(): END\ndef test_z(): pass\n"
    first = (
        "from polygraphy.assertions import *\ndef test_a(): assert_matches_golden('digits.onnx')\n"
    )
    session("--polygraphy-update-golden", test_a=first)
    ended = last.replace("END", "pytest.exit('early', 0)")
    session("--polygraphy-report", "page", test_z=ended)
    document = json.loads((tmp_path / "page" / "report.json").read_text(encoding="utf-8"))
    assert (document["verdict"], document["errors"][0]["message"]) == (
        "inconclusive",
        "2 tests did not run.",
    )
    other = "def pytest_sessionfinish(session): session.exitstatus = 7\n"
    session("--polygraphy-report", "page", test_z=last.replace("END", "pass"), conftest=other)
    document = json.loads((tmp_path / "page" / "report.json").read_text(encoding="utf-8"))
    assert document["errors"][0]["message"] == "pytest exited with status 7."
    session("--polygraphy-report", "page", "--nonsense")
    assert not (tmp_path / "page" / "report.json").exists()
    session("--polygraphy-report", "page", "-k", "test_z", conftest="")
    document = json.loads((tmp_path / "page" / "report.json").read_text(encoding="utf-8"))
    assert document["summary"] == "No test compared outputs."
    session("--polygraphy-report", "page", cold=True, test_z=last.replace("END", "os._exit(0)"))
    assert not (tmp_path / "page" / "report.json").exists()


MARKED = """
import sys
import pytest

assert not any(name.partition(".")[0] == "polygraphy" for name in sys.modules)

@pytest.mark.polygraphy_models("digits*.onnx")
def test_marked(onnx_model, polygraphy):
    polygraphy.assert_outputs_match(onnx_model, seeds=1)

def test_ini(onnx_model):
    assert onnx_model.name == "digits.onnx"

@pytest.mark.parametrize("onnx_model", ["mine"])
def test_given(onnx_model):
    assert onnx_model == "mine"
"""
OWN = """
import pytest

@pytest.fixture
def onnx_model():
    return "own"
"""
USES = "def test_own(onnx_model): assert onnx_model == 'own'\n"
BARE = "def test_bare(onnx_model): pass\n"


def test_models_come_from_a_marker_or_the_settings(session: Session, tmp_path: Path) -> None:
    setting = "polygraphy_models=digits.onnx"
    said = session("--strict-markers", "-o", setting, cold=True, test_marked=MARKED)
    assert "4 passed" in said
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "conftest.py").write_text(OWN)
    (tmp_path / "sub" / "test_own.py").write_text(USES)
    assert "1 passed" in session("-o", setting, "sub")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "test_bare.py").write_text(BARE)
    said = session("bare")
    assert "onnx_model: no models are selected. Add @pytest.mark.polygraphy_models" in said
    said = session("-o", "polygraphy_models=none*.onnx", "bare")
    assert "matches 'none*.onnx'" in said
    assert "hookexec" not in said


MASKED = """
import numpy as np
from polygraphy.assertions import assert_close

def test_models(onnx_model):
    name = "probs##[add-mask]FAILED"
    assert_close({name: np.ones(3)}, {name: np.zeros(3)})
"""


def test_names_in_a_session_are_not_commands_to_the_runner_of_github(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "a##[add-mask]PASSED.onnx")
    output = session("-v", "-o", "polygraphy_models=a*.onnx", test_masked=MASKED)
    assert "1 failed" in output
    assert "add-mask]PASSED" in output
    assert "add-mask]FAILED" in output
    assert "##[" not in output


def test_a_marker_with_options_that_it_does_not_have_is_refused(session: Session) -> None:
    marked = MARKED.replace('"digits*.onnx"', '"digits*.onnx", rtol=1e-3, seeds=2')
    said = session("--strict-markers", cold=True, test_marked=marked)
    line = "test_marked: polygraphy_models accepts only patterns of files, not rtol, seeds"
    assert line in said
    assert "hookexec" not in said
    assert "passed" not in said


def test_the_plugin_imports_the_standard_library_and_pytest() -> None:
    code = (
        "import sys, pytest, _pytest.pytester; before = set(sys.modules); import pytest_polygraphy;"
        "print(sorted(set(sys.modules) - before - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "['pytest_polygraphy']"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for the first layer as long as a machine with much else to do needs."""
    monkeypatch.setattr(pytest_polygraphy.current, "budget", 120.0)


@pytest.mark.usefixtures("patient")
def test_a_failure_is_what_the_page_shows(
    polygraphy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models.save(quantized_twice(), Path("model.onnx"))
    with pytest.raises(OutputsDiffer) as caught:
        assert_outputs_match("model.onnx", ["onnxrt", "onnx"], rtol=1e-3, atol=1e-3)
    lines = str(caught.value).splitlines()
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    said = re.sub("^    ", "", page.split("<!-- session -->\n\n")[1].split("\n\n")[0], flags=re.M)
    shown = said.splitlines()
    assert shown.pop() == "test_models.py:4: OutputsDiffer"
    assert [NUMBERS.sub(" ", line) for line in lines] == [NUMBERS.sub(" ", line) for line in shown]
    command = lines[-1].removeprefix("  next      ")
    assert polygraphy(command).code == 1


def test_git_shows_the_model_that_a_golden_was_created_from(
    session: Session, tmp_path: Path
) -> None:
    test = "from polygraphy.assertions import *\ndef test_it(): assert_matches_golden('m.onnx')\n"
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "m.onnx")
    session("--polygraphy-update-golden", test_git=test)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=T", "-c", "user.email=t@example.com"]
    for words in (["init", "-q"], ["add", "m.onnx", "__goldens__"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    shutil.copy(DIGITS / "digits_changed.onnx", tmp_path / "m.onnx")
    lines = failure_of(session("--polygraphy-budget", "60"), "test_it")
    show = lines[-3].removeprefix("  old model ")
    subprocess.run(show, shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "OLD.onnx").read_bytes() == (DIGITS / "digits.onnx").read_bytes()


@pytest.mark.usefixtures("patient")
def test_data_and_a_model_in_memory_are_kept_for_the_command_that_finds_out_more(
    polygraphy: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inputs = {"x": np.random.RandomState(0).rand(2, 8).astype(np.float32)}
    with pytest.raises(OutputsDiffer) as caught:
        assert_outputs_match(quantized_twice(), rtol=1e-3, atol=1e-3, inputs=inputs)
    command = str(caught.value).splitlines()[-1].removeprefix("  next      ")
    assert command.startswith("polygraphy diagnose ")
    assert str(tmp_path_factory.getbasetemp()) in command  # There, pytest removes what is old.
    done = polygraphy(command)
    assert done.code == 1
    assert "DoubleQDQPairsRemover" in done.out
