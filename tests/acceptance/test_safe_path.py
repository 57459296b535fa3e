"""No command imports Python modules from the folder that it runs in, in any interpreter that it
starts, and what it starts ends with it.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polygraphy import python_command
from polygraphy.python_command import safe_command

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
POLYGRAPHY = Path(sys.executable).with_name("polygraphy")
PLAN = """
models = ["m.onnx"]
[reference]
runner = "onnx"
[runners]
onnx = "--onnx"
ort = "--onnxrt"
[environments]
other = "other/bin/python"
"""
COMMANDS = {
    "debug": "debug reduce m.onnx -o r.onnx --mode bisect --check polygraphy run"
    " polygraphy_debug.onnx --onnxrt --onnx",
    "debug, as a module": "debug reduce m.onnx -o r.onnx --mode bisect --check"
    f" {sys.executable} -m polygraphy run polygraphy_debug.onnx --onnxrt --onnx",
    "sweep": "sweep plan.toml --diagnose",
    "isolated": "run m.onnx --onnxrt --onnx --use-subprocess",
    "versions": "diagnose m.onnx --onnxrt --onnx --environments other",
    "failure": "diagnose bad.onnx --onnxrt --reference m.onnx --save-culprit culprit",
    "script": "run m.onnx --onnxrt --data-loader-script named/script.py:data",
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder in which every module that may be imported leaves a mark."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    names = {*sys.stdlib_module_names, "numpy", "onnx", "onnxruntime", "attr", "filelock", "pip"}
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write({name!r})")
    (folder / "polygraphy").mkdir()
    for name in ("__init__", "__main__"):
        shutil.copy(folder / "json.py", folder / "polygraphy" / f"{name}.py")
    shutil.copy(DIGITS / "digits.onnx", folder / "m.onnx")
    shutil.copy(DIGITS / "digits_changed.onnx", folder / "bad.onnx")
    (folder / "plan.toml").write_text(PLAN)
    (folder / "other" / "bin").mkdir(parents=True)
    (folder / "other" / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder / "other")
    (folder / "other" / "lib").symlink_to(Path(sys.prefix) / "lib")
    (folder / "named").mkdir()
    (folder / "named" / "neighbor.py").write_text("SHAPE = (1, 1, 8, 8)\n")
    (folder / "named" / "script.py").write_text(
        "import numpy as np\nfrom neighbor import SHAPE\n"
        "def data():\n    yield {'image': np.zeros(SHAPE, np.float32)}\n"
    )
    return folder


def variables() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_modules_of_its_folder(hostile: Path, name: str) -> None:
    done = subprocess.run(
        [str(POLYGRAPHY), *COMMANDS[name].split()],
        cwd=hostile, env=variables(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    mark = hostile.parent / "mark"
    assert not mark.exists(), mark.read_text()
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode in (0, 1, 4), done.stdout + done.stderr


@pytest.mark.slow
def test_the_package_as_a_module_imports_nothing_from_the_folder(hostile: Path) -> None:
    shutil.rmtree(hostile / "polygraphy")
    words = [sys.executable, "-m", "polygraphy", "inspect", "model", "m.onnx"]
    done = subprocess.run(words, cwd=hostile, env=variables(), capture_output=True, check=False)
    mark = hostile.parent / "mark"
    assert not mark.exists(), mark.read_text()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_an_empty_element_of_the_import_path_is_not_the_folder(tmp_path: Path) -> None:
    for name in ("numpy", "onnx", "jinja2"):
        (tmp_path / f"{name}.py").write_text("open('mark', 'a').close()")
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "m.onnx")
    env = {**variables(), "PYTHONPATH": f":{tmp_path / 'else'}"}
    done = subprocess.run([str(POLYGRAPHY), "inspect", "model", "m.onnx"], cwd=tmp_path, env=env,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "mark").exists()


@pytest.mark.slow
def test_the_action_runs_no_modules_of_the_checkout(hostile: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=hostile, check=True)
    subprocess.run(["git", "add", "m.onnx"], cwd=hostile, check=True)
    words = ["-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-qm", "models"]
    subprocess.run(["git", *words], cwd=hostile, check=True)
    env = {**variables(), "GITHUB_WORKSPACE": str(hostile), "PYTHONPATH": ":."}
    step = [sys.executable, str(ROOT / "action" / "compare_models.py")]
    done = subprocess.run(step, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (hostile.parent / "mark").exists()


_OPTION = re.compile(r"""["']-[mc]["']""")


def test_every_start_of_an_interpreter_is_safe() -> None:
    """Interpreters are started with ``-m`` and ``-c`` through `safe_command`, or with ``-I``."""
    unsafe = []
    for path in [*(ROOT / "polygraphy").rglob("*.py"), ROOT / "action" / "compare_models.py"]:
        text = path.read_text(encoding="utf-8")
        if not _OPTION.search(text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        safe = {
            id(inner)
            for node in nodes
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "safe_command"
            for inner in ast.walk(node)
        }
        for node in nodes:
            if not isinstance(node, ast.List | ast.Tuple) or id(node) in safe:
                continue
            words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            if {"-m", "-c"} & {*words} and not {"-I", "/bin/sh"} & {*words}:
                unsafe.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {place.partition(":")[0] for place in unsafe} == {
        "polygraphy/adapters/processes/commands.py",  # What it compares with.
        "polygraphy/adapters/processes/environments.py",  # Made safe in the next line.
        "polygraphy/adapters/processes/launching.py",  # What it compares with.
        "polygraphy/adapters/torch/source.py",  # Printed, with SAFE_PATH.
        "polygraphy/application/debug/checks.py",  # What it compares with.
        "polygraphy/application/sweep/planning.py",  # Made safe by the launcher.
        "polygraphy/assertions.py",  # Made safe in the next line.
        "polygraphy/config.py",  # Made safe where it is run.
        "polygraphy/mod/dependency.py",  # What it compares with.
        "polygraphy/python_command.py",  # The helper.
    }


SLEEPER = """
import os, time
def data():
    with open("pid", "w") as stream:
        stream.write(str(os.getpid()))
    os.rename("pid", "sleeper")
    time.sleep(60)
    yield {}
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize(
    "command",
    [
        "run m.onnx --onnxrt --use-subprocess --data-loader-script d.py:data",
        "debug repeat --until 1 --check sh sleeper.sh",
    ],
)
def test_what_a_command_starts_ends_with_it(
    hostile: Path, command: str, number: signal.Signals
) -> None:
    (hostile / "d.py").write_text(SLEEPER)
    (hostile / "sleeper.sh").write_text("sh -c 'echo $$ >pid; mv pid sleeper; sleep 60'; true\n")
    process = subprocess.Popen([str(POLYGRAPHY), *command.split()], cwd=hostile, env=variables(),
                               stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    while not (hostile / "sleeper").exists():
        assert process.poll() is None
        time.sleep(0.05)
    pid = int((hostile / "sleeper").read_text())
    process.send_signal(number)
    process.wait()
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    assert time.monotonic() < end


def test_another_package_of_this_name_is_not_imported_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "polygraphy").mkdir()
    (tmp_path / "polygraphy" / "__init__.py").write_text("raise SystemExit(9)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = "import polygraphy.python_command as ours; print(ours.__file__)"
    ended = subprocess.run(
        safe_command([sys.executable, "-c", code]), capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == python_command.__file__
