"""What is imported when something starts: it is most of what a short command takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = "from polygraphy.cli.main import main; main({words})"
NAMES = "from polygraphy.comparator import Comparator, SimpleCompareFunc"
REPORT = "import atexit, sys\natexit.register(lambda: print('LOADED', *sys.modules))\n"


BARE = set(
    subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
)
"""What an interpreter imports by itself: an editable installation has more."""


def imported(program: str, folder: Path) -> list[str]:
    """Return what a process has imported that runs a program."""
    command = [sys.executable, "-c", f"{REPORT}{program}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.partition("LOADED")[2].split()


def ours(modules: list[str]) -> list[str]:
    return [name for name in modules if name.partition(".")[0] == "polygraphy"]


@pytest.mark.parametrize(
    ("program", "most"),
    [("import polygraphy", 3), (NAMES, 36)],
)
def test_names_alone_import_no_other_package(program: str, most: int, tmp_path: Path) -> None:
    loaded = imported(program, tmp_path)
    assert not {"numpy", "attr", "onnx", "jinja2", "difflib", "logging"} & set(loaded)
    assert len(ours(loaded)) <= most


def test_help_imports_no_other_package(tmp_path: Path) -> None:
    loaded = imported(COMMAND.format(words=["-h"]), tmp_path)
    assert not {"numpy", "attr", "onnx", "jinja2", "argparse", "re"} & set(loaded) - BARE
    assert len(ours(loaded)) <= 15


def test_a_plain_run_imports_what_it_needs(identity_dir: Path) -> None:
    loaded = imported(COMMAND.format(words=["run", "identity.onnx", "--onnxrt"]), identity_dir)
    assert "polygraphy.application.run.inference" in loaded
    assert not {"onnx", "ml_dtypes", "black", "rich"} & set(loaded)
    assert not [name for name in loaded if name.startswith("polygraphy.domain.compare")]
    assert "polygraphy.domain.arithmetic" not in loaded
    assert len(ours(loaded)) <= 212


def test_showing_a_model_imports_nothing_that_compares(identity_dir: Path) -> None:
    words = ["inspect", "model", "identity.onnx", "--show", "layers"]
    loaded = imported(COMMAND.format(words=words), identity_dir)
    assert "polygraphy.adapters.onnx.describe.reading" in loaded
    assert not {"concurrent.futures", "polygraphy.domain.arithmetic"} & set(loaded)
    assert not [name for name in loaded if name.startswith("polygraphy.domain.compare")]
