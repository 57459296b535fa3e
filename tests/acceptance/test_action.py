"""What other projects' continuous integration uses: the action, the hook, and SARIF."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from polygraphy.domain.catalog.lint import RULES
from tests.acceptance.conftest import Done
from tests.support.forked import Ended, ForkServer

Run = Callable[..., Done]

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
SCRIPT = ROOT / "action" / "compare_models.py"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:1234\nsize 12\n"
GIT = [
    "git",
    "-c",
    "user.name=T",
    "-c",
    "user.email=t@example.com",
    "-c",
    "init.defaultBranch=main",
]


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*GIT, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository of two commits: models were changed, added, removed and left."""
    folder = tmp_path / "repository"
    (folder / "models").mkdir(parents=True)
    git(folder, "init", "-q")
    for name in ("changed", "same", "gone"):
        shutil.copy(DIGITS / "digits.onnx", folder / "models" / f"{name}.onnx")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "base")
    shutil.copy(DIGITS / "digits_changed.onnx", folder / "models" / "changed.onnx")
    shutil.copy(ROOT / "examples" / "exporting" / "net.onnx", folder / "models" / "new.onnx")
    (folder / "models" / "large.onnx").write_text(POINTER)
    (folder / "models" / "gone.onnx").unlink()
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "head")
    return folder


IN_FORKS = """
import os, runpy, sys

script = runpy.run_path(sys.argv[1])

def run_in_a_fork(_, words):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    del os.environ["GITHUB_STEP_SUMMARY"]
    sys.argv[:] = ["polygraphy", "run", *words]
    code = 1
    try:
        runpy.run_module("polygraphy", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

script["ModelComparison"]._run_polygraphy = run_in_a_fork
sys.exit(script["main"]())
"""
"""Runs the step with forks for the commands that it starts."""

Step = Callable[..., tuple[int, dict[str, list[str]], str]]


@pytest.fixture
def step(fork_server: ForkServer) -> Step:
    """Return a function that runs the step and returns its exit code, the rows of its summary, and
    all that was printed: in a fork, or `cold`, in new interpreters.
    """

    def run(
        repository: Path, cold: bool = False, **inputs: str
    ) -> tuple[int, dict[str, list[str]], str]:
        summary = repository.parent / "summary.md"
        env = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true"}
        env |= {f"POLYGRAPHY_ACTION_{name}": text for name, text in inputs.items()}
        if cold:
            done = subprocess.run(
                [sys.executable, str(SCRIPT)],
                cwd=repository,
                env=env,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            ended = Ended(done.returncode, done.stdout, done.stderr)
        else:
            ended = fork_server.run(["-c", IN_FORKS, str(SCRIPT)], repository, env)
        text = summary.read_text(encoding="utf-8")
        rows = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines()[4:]]
        return ended.code, {row[0].lstrip("| "): row[1:] for row in rows}, ended.out + ended.err

    return run


def test_the_models_of_a_commit_are_compared_with_those_of_its_base(
    step: Step, repository: Path
) -> None:
    base = git(repository, "rev-parse", "HEAD~1")
    code, rows, said = step(repository, MODELS="models/*.onnx", BASE=base)
    assert code == 1
    assert {name: row[0] for name, row in rows.items()} == {
        "models/changed.onnx": "failed",
        "models/gone.onnx": "removed",
        "models/large.onnx": "not fetched",
        "models/new.onnx": "new",
        "models/same.onnx": "passed",
    }
    assert "2 of 2 outputs differ" in rows["models/changed.onnx"][1]
    model = "models/changed.onnx"  # GitHub shows it beside the file.
    assert f"::error file={model},title={model} | onnxrt vs. base.json (simple) | logits::" in said
    assert f"\n{model}: FAILED 2 of 2 outputs differ" in said
    assert "\nFAILED" not in said
    assert "| model | result | details |" in said
    reports = {path.name for path in (repository / "polygraphy-report").iterdir()}
    assert {"models__changed.onnx.xml", "models__changed.onnx.html"} <= reports
    assert git(repository, "worktree", "list").count("\n") == 0


def test_patterns_that_match_no_model_are_an_error(step: Step, repository: Path) -> None:
    code, rows, said = step(repository, MODELS="model/*.onnx")
    assert (code, rows) == (3, {})
    assert "::error title=Polygraphy::no model in git matches model/*.onnx. Check the" in said
    assert step(repository, MODELS="models/*.onnx model/*.onnx")[0] == 3


def test_without_a_base_each_model_is_run(step: Step, repository: Path) -> None:
    for name in ("-h.onnx", "--data-loader-script=a.onnx", "x.py:load.onnx"):  # Neither is code.
        shutil.copy(DIGITS / "digits.onnx", repository / name)
    git(repository, "add", "-A")
    models = "models/same.onnx *h.onnx *a.onnx *load.onnx"
    code, rows, _ = step(repository, MODELS=models, BACKENDS="--onnxrt --onnx")
    assert code == 0
    assert {row[0] for row in rows.values()} == {"passed"}
    assert "The base commit is missing" in rows["models/same.onnx"][1]
    assert "2 outputs matched" in rows["models/same.onnx"][1]


def test_the_action_hands_every_input_to_the_step() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    [_, last] = action["runs"]["steps"]
    assert {name.removeprefix("POLYGRAPHY_ACTION_").lower() for name in last["env"]} == {
        *action["inputs"]
    }
    script = SCRIPT.read_text(encoding="utf-8")
    assert all(f'words_of_input("{name.upper()}"' in script for name in action["inputs"])
    # Text of a pull request is never part of what a shell reads.
    assert not any("${{" in each["run"] for each in action["runs"]["steps"])


def test_the_hook_checks_several_models_and_skips_pointers(
    polygraphy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS / "digits.onnx", "good.onnx")
    Path("pointer.onnx").write_text(POINTER)
    done = polygraphy(f"{hook['entry']} good.onnx pointer.onnx")
    assert done.code == 0
    assert "pointer.onnx is a Git LFS pointer file" in done.out
    Path("bad.onnx").write_bytes(b"no model")
    done = polygraphy(f"{hook['entry']} good.onnx bad.onnx")
    assert done.code == 1
    assert "bad.onnx" in done.out
    assert polygraphy(f"{hook['entry']} good.onnx bad.onnx -o one.json").code == 2


def test_findings_are_written_for_code_scanning(
    polygraphy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx

    monkeypatch.chdir(tmp_path)
    model = onnx.load(DIGITS / "digits.onnx")
    model.graph.node[0].name = model.graph.node[1].name
    model.graph.node.append(onnx.helper.make_node("Relu", ["image"], ["unused"], "idle"))
    onnx.save(model, "a model.onnx")
    done = polygraphy("polygraphy check lint 'a model.onnx' --report found.sarif")
    assert "graph/unused-node" in done.out
    shutil.copy(DIGITS / "digits.onnx", "good.onnx")
    quiet = polygraphy("polygraphy check lint -q good.onnx 'a model.onnx'").out.splitlines()
    assert "good.onnx" not in quiet
    assert quiet.index("a model.onnx") < [line[:7] for line in quiet].index("warning")
    [run] = json.loads(Path("found.sarif").read_text(encoding="utf-8"))["runs"]
    rules = [result["ruleId"] for result in run["results"]]
    assert {"graph/duplicate-name", "graph/unused-node"} <= {*rules} <= {*RULES}
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {*rules}
    place = run["results"][0]["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "a%20model.onnx"
    words = "--ignore graph/unused-node 'graph/dup*' --report less.sarif"
    polygraphy(f"polygraphy check lint 'a model.onnx' {words}")
    [run] = json.loads(Path("less.sarif").read_text(encoding="utf-8"))["runs"]
    assert not {"graph/duplicate-name", "graph/unused-node"} & {r["ruleId"] for r in run["results"]}
    done = polygraphy("polygraphy check lint 'a model.onnx' --ignore nonsense")
    assert done.code == 2
    assert "Rule 'nonsense' does not exist" in done.out + done.err


def test_the_page_lists_every_rule() -> None:
    page = ROOT / "docs" / "lint.md"
    text = page.read_text(encoding="utf-8")
    head = "| rule | finding |\n| --- | --- |\n"
    before, _, after = text.partition(head)
    rows = "".join(f"| `{rule}` | {what} |\n" for rule, what in RULES.items())
    rest = after[after.index("\n\n") + 1 :]
    if os.environ.get("POLYGRAPHY_UPDATE_GOLDEN") == "1":
        page.write_text(before + head + rows + rest, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == before + head + rows + rest, "run `make golden`"


def test_a_step_in_which_git_fails_does_not_pass(step: Step, repository: Path) -> None:
    outside = repository.parent / "outside"
    outside.mkdir()
    code, _, said = step(outside)
    assert code == 3
    assert "Nothing was compared: git cat-file failed: fatal: not a git repository" in said
    models, backends = "models/same.onnx", "--onnxrt --onnx"
    code, rows, _ = step(repository, MODELS=models, BACKENDS=backends, BASE="0" * 40)
    assert (code, rows["models/same.onnx"][0]) == (1, "error")
    shutil.rmtree(repository / "models")
    code, rows, _ = step(repository, MODELS="models/same.onnx")
    assert (code, rows["models/same.onnx"][0]) == (1, "error")
    shutil.rmtree(repository / ".git" / "objects")
    (repository / ".git" / "objects").mkdir()
    assert step(repository, MODELS="models/same.onnx")[0] == 3


@pytest.mark.parametrize(
    ("backends", "first", "compares"),
    [
        ("--onnxrt --providers cuda --onnx", ["--onnxrt", "--providers", "cuda"], True),
        ("--runner 'a=--onnxrt -v' --runner b=--onnx", ["--runner", "a=--onnxrt -v"], True),
        ("--onnxrt --iterations 2", ["--onnxrt", "--iterations", "2"], False),
    ],
)
def test_the_base_runs_with_the_first_backend_and_its_options(
    backends: str,
    first: list[str],
    compares: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("POLYGRAPHY_ACTION_BACKENDS", backends)
    script = runpy.run_path(str(SCRIPT))
    ran: list[list[str]] = []
    script["ModelComparison"]._run_polygraphy = lambda _, words: ran.append(words) or 1
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("m.onnx", "base/m.onnx"):
        Path(name).touch()
    script["ModelComparison"](tmp_path / "base", tmp_path, {"m.onnx"}, {}).compare("m.onnx")
    assert ran[0][1 : len(first) + 1] == first
    assert script["ModelComparison"](None, tmp_path, set(), {})._compares_backends() == compares


def test_a_changed_model_that_was_not_fetched_does_not_pass(step: Step, repository: Path) -> None:
    (repository / "models" / "large.onnx").write_text(POINTER.replace("1234", "4321"))
    (repository / "models" / "other.onnx").write_text(POINTER)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "pointers")
    names = "models/large.onnx models/other.onnx"
    base = git(repository, "rev-parse", "HEAD~1")
    code, rows, _ = step(repository, MODELS=names, BASE=base)
    assert code == 1
    assert {row[0] for row in rows.values()} == {"not fetched"}
    (repository.parent / "summary.md").unlink()
    (repository / "models" / "gone.onnx").write_text("")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "another file")
    base = git(repository, "rev-parse", "HEAD~1")
    code, rows, _ = step(repository, MODELS=names, BASE=base)
    assert code == 0
    assert {row[0] for row in rows.values()} == {"unchanged"}


def test_a_pointer_does_not_stand_for_weights_in_other_files(step: Step, repository: Path) -> None:
    models, base = repository / "models", git(repository, "rev-parse", "HEAD")
    inputs = {"MODELS": "models/large.onnx", "BASE": base}
    (models / "notes.md").write_text("Text contains no weights.")
    git(repository, "add", "-A")
    assert step(repository, **inputs)[0] == 0
    for content in (POINTER.encode(), bytes(64)):
        (repository.parent / "summary.md").unlink()
        (models / "large.onnx.data").write_bytes(content)
        git(repository, "add", "-A")
        code, rows, _ = step(repository, **inputs)
        assert (code, rows["models/large.onnx"][0]) == (1, "not fetched")


def test_a_renamed_model_is_compared_with_the_old_file(step: Step, repository: Path) -> None:
    base, new = git(repository, "rev-parse", "HEAD"), repository / "moved" / "new.onnx"
    new.parent.mkdir()
    git(repository, "mv", "models/same.onnx", "moved/new.onnx")
    shutil.copy(DIGITS / "digits_changed.onnx", new)
    git(repository, "add", "-A")
    code, rows, _ = step(repository, MODELS="moved/*.onnx models/same.onnx", BASE=base)
    assert (code, rows["models/same.onnx"][0]) == (1, "removed")
    assert rows["moved/new.onnx"][0] == "failed"
    assert rows["moved/new.onnx"][1].startswith("Renamed from models/same.onnx. 2 of 2 outputs")


def test_models_of_a_submodule_that_changed_do_not_pass(step: Step, repository: Path) -> None:
    inside = repository / "inside"
    git(repository, "clone", "-q", str(repository), "inside")
    git(inside, "checkout", "-q", "HEAD~1")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "inside")
    (repository / ".gitmodules").write_text('[submodule "inside"]\npath = inside\nurl = ./x\n')
    git(repository, "config", "submodule.inside.active", "true")
    git(repository, "add", ".gitmodules")
    git(repository, "commit", "-q", "-m", "submodule")
    base = git(repository, "rev-parse", "HEAD")
    git(inside, "checkout", "-q", "main")
    git(repository, "add", "inside")
    code, rows, _ = step(repository, MODELS="*large.onnx", BASE=base)
    assert (code, rows["inside/models/large.onnx"][0]) == (1, "error")


def test_a_workspace_below_the_root_of_the_repository(step: Step, repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD~1")
    code, rows, _ = step(repository / "models", MODELS="changed.onnx", BASE=base)
    assert (code, rows["changed.onnx"][0]) == (1, "failed")


def test_a_link_that_leads_nowhere_in_the_base_is_no_new_model(
    step: Step, repository: Path
) -> None:
    model = repository / "models" / "linked.onnx"
    model.symlink_to("../.git/annex/objects/linked.onnx")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "link")
    model.unlink()
    shutil.copy(DIGITS / "digits.onnx", model)
    base = git(repository, "rev-parse", "HEAD")
    code, rows, _ = step(repository, MODELS="models/linked.onnx", BASE=base)
    assert (code, rows["models/linked.onnx"][0]) == (1, "error")


def test_a_report_in_the_checkout_is_not_that_of_a_run(step: Step, repository: Path) -> None:
    (repository / "models" / "same.onnx").write_bytes(b"")
    stale = repository / "polygraphy-report" / "models__same.onnx.json"
    stale.parent.mkdir()
    stale.write_text('{"verdict": "passed", "summary": "1 output matched"}')
    options = {"MODELS": "models/same.onnx", "BACKENDS": "--nonsense"}
    code, rows, _ = step(repository, cold=True, **options)
    assert (code, rows["models/same.onnx"][0]) == (1, "error")


@pytest.mark.parametrize("name", ["::set-output name=verdict::passed", "a##[add-mask]FAILED"])
def test_a_name_is_not_a_command_to_the_runner_of_github(
    polygraphy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import onnx

    model = onnx.load(DIGITS / "digits.onnx")
    node = model.graph.node[0]
    model.graph.node.append(onnx.helper.make_node("Identity", [node.output[0]], [name]))
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, None))
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "m.onnx")
    for command in (
        "run m.onnx --onnxrt --onnx --save-outputs o.json --report r.md",
        "inspect data o.json -a",
        "inspect model m.onnx --show layers",
        "check lint m.onnx --format json",
        f"inspect model m.onnx --show '{name}'",
        f"run '{name}.onnx' --onnxrt --gen-script -",
        f"'{name}'",
    ):
        done = polygraphy(f"polygraphy {command}", env={"GITHUB_ACTIONS": "true"})
        lines = [line.strip() for line in (done.out + done.err).splitlines()]
        assert not [line for line in lines if line.startswith("::") and "::error" not in line]
        assert "##[" not in done.out + done.err
