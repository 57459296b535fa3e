"""What is imported when something starts: it is most of what a short command takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = "from polygraphy.comparator import Comparator, SimpleCompareFunc"
REPORT = "import atexit, sys\natexit.register(lambda: print('LOADED', *sys.modules))\n"


def imported(program: str, folder: Path) -> list[str]:
    """Return what a program imports that a bare interpreter has not."""
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
