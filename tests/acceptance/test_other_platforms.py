"""What works without what only Linux, or only POSIX, has."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples/digits/digits.onnx"
DIGITS_INPUTS = ROOT / "examples/digits/digits_inputs.json"
PLAN = """models = ["m\u00f6del.onnx"]\r
reference = "onnx"\r
seeds = [1]\r
[runners]\r
onnxrt = "--onnxrt"\r
"""
TESTS = """import polygraphy.assertions as models\r
def test_model():\r
    models.assert_outputs_match("m\u00f6del.onnx", backends=["onnxrt", "onnx"])\r
"""


def commands(model: str) -> dict[str, int]:
    """Return commands, each with the exit code that it has on every system."""
    check = f"--check {sys.executable} -m polygraphy run polygraphy_debug.onnx --onnxrt"
    return {
        f"run {model} --onnxrt --onnx --save-outputs o.json --load-inputs {DIGITS_INPUTS}": 0,
        f"diagnose {model} --onnxrt --golden o.json --load-inputs {DIGITS_INPUTS}": 0,
        f"diagnose {model} --onnxrt --fp-to-fp16": 0,
        f"convert {model} -o half.onnx --fp-to-fp16 --verify": 0,
        f"check lint {model}": 0,
        f"surgeon sanitize {model} -o folded.onnx --fold-constants": 0,
        f"inspect model {model} --show layers": 0,
        "inspect data o.json": 0,
        f"run {model} --onnxrt --gen-script -": 0,
        f"debug reduce {model} -o reduced.onnx --mode linear {check}": 4,  # It does not fail.
        "sweep plan.toml": 0,
        f"run {model} --onnxrt --onnx --profile 1": 0,
        "pytest -q -p no:cacheprovider test_model.py": 0,
    }


def run_as(system: str, lines: list[str], folder: Path) -> tuple[list[int], str]:
    """Run commands as on another system; return their exit codes and everything they print."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "cp1252"}
    words = json.dumps([line.split() for line in lines])
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.other_platform", system, words],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        encoding="cp1252",
    )
    output = done.stdout + done.stderr
    assert "RESULT" in output, output
    return json.loads(done.stdout.rpartition("RESULT")[2]), output


@pytest.mark.cold
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_commands_work_without_what_other_systems_lack(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "m\u00f6del.onnx"
    shutil.copy(DIGITS, tmp_path / model)
    (tmp_path / "plan.toml").write_bytes(PLAN.encode())
    (tmp_path / "test_model.py").write_bytes(TESTS.encode())
    limited = "sweep plan.toml --memory 8G --folder limited"
    if system == "windows":
        monkeypatch.setenv("PATH", str(tmp_path))  # Without `ps`, which measures memory.
        expected = {**commands(model), limited: 2}
    else:
        expected = {limited: 0}
    codes, output = run_as(system, list(expected), tmp_path)
    assert dict(zip(["imports", *expected], codes, strict=True)) == {
        "imports": 0,
        **expected,
    }, output
    assert ("--memory has no effect" in output) == (system == "windows")
