"""Input data from the user's own scripts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

UNSEEDED = """
import numpy as np

def load_data():
    for _ in range(4):
        yield {"x": np.random.randn(1, 1, 2, 2).astype(np.float32)}

def as_list():
    return list(load_data())

class Loader:
    def __call__(self):
        return load_data()
"""


@pytest.mark.parametrize("symbol", ["", ":load_data", ":as_list", ":Loader"])
def test_all_runners_see_the_same_data_although_they_are_random(
    identity_dir: Path, polygraphy: Run, symbol: str
) -> None:
    (identity_dir / "mine.py").write_text(UNSEEDED)
    done = polygraphy(
        f"polygraphy run identity.onnx --onnxrt --onnx --data-loader-script mine.py{symbol}"
    )
    assert done.code == 0
    assert "PASSED  1 output matched in 4 iterations; every element is equal." in done.out


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("def load_dat():\n    return []", 2, "'load_data'"),
        ("def load_data():\n    return []", 2, "There is no input data"),
        ("def load_data():\n    yield 5", 2, "not int"),
        ("def load_data():\n    yield {'x': [1.0]}", 2, "must be an array"),
        ("def load_data():\n    yield {}[1]", 3, "mine.py, line 2"),
        ("def load_data():\n    exit(0)", 2, "sys.exit (mine.py, line 2)"),
        ("import nowhere", 3, "mine.py"),
        ("def load_data(:", 3, "mine.py"),
    ],
)
def test_scripts_that_are_wrong(
    identity_dir: Path, polygraphy: Run, body: str, code: int, message: str
) -> None:
    (identity_dir / "mine.py").write_text(body)
    done = polygraphy("polygraphy run identity.onnx --onnxrt --data-loader-script mine.py")
    [line] = [line for line in done.err.splitlines() if line.startswith("[!] ")]
    assert message in line
    assert done.code == code


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("load_data = [{}]", "load_data is a list, not a function"),
        ("def load_data():\n    return 3", "must be iterable, not an int"),
        ("def load_data():\n    return {'x': 1}", "not str"),
        ("def load_data():\n    return [{0: 1}]", "with the key 0"),
    ],
)
def test_a_diagnosis_rejects_what_is_not_data_in_one_line(
    identity_dir: Path, polygraphy: Run, body: str, message: str
) -> None:
    (identity_dir / "mine.py").write_text(body)
    done = polygraphy(
        "polygraphy diagnose identity.onnx --onnxrt --onnx --data-loader-script mine.py"
    )
    assert done.code == 2
    assert message in done.err


def test_a_missing_script(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run identity.onnx --onnxrt --data-loader-script nope.py")
    assert done.code == 2
    assert "nope.py" in done.err


def test_shapes_are_taken_in_turn(dynamic_image_dir: Path, polygraphy: Run) -> None:
    from polygraphy.json import load_json

    done = polygraphy(
        "polygraphy run dynamic_identity.onnx --onnxrt --onnx --iterations 5"
        " --input-shapes X:[1,2,3,3] X:[1,2,5,4] --save-inputs inputs.json"
    )
    assert done.code == 0
    shapes = [feed["X"].shape for feed in load_json("inputs.json")]
    assert shapes == [(1, 2, 3, 3), (1, 2, 5, 4)] * 2 + [(1, 2, 3, 3)]


@pytest.mark.parametrize(
    "command",
    [
        "diagnose m.onnx --onnxrt --onnx",
        "diagnose m.onnx --onnxrt --reference m.onnx",
        "diagnose m.onnx --fp-to-fp16",
        "convert m.onnx -o half.onnx --fp-to-fp16 --verify",
    ],
)
def test_every_command_takes_data_from_a_script(
    polygraphy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx", "m.onnx")
    Path("d.py").write_text(
        "import numpy as np\n"
        "def load_data():\n    yield {'image': np.ones((1, 1, 8, 8), np.float32)}\n"
    )
    done = polygraphy(f"polygraphy {command} --data-loader-script d.py")
    assert done.code == 0, done.out + done.err
