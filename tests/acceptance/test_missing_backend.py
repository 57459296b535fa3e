"""A backend that is not installed is named, with the one command that installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HIDDEN = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def hide(name, path=None, target=None):
    return None if name.partition(".")[0] == "onnxruntime" else find(name, path, target)
PathFinder.find_spec = hide
sys.argv = ["polygraphy", "run", "identity.onnx", "--onnxrt"]
from polygraphy.cli.main import main
sys.exit(main())
"""


def test_a_missing_backend_says_how_to_install_it(identity_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "pip install onnxruntime" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_autoinstall_runs_the_install_command(identity_dir: Path) -> None:
    recorder = identity_dir / "install.py"
    recorder.write_text("import sys; open('asked.txt', 'w').write(' '.join(sys.argv[1:]))")
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "POLYGRAPHY_AUTOINSTALL_DEPS": "1",
            "POLYGRAPHY_INSTALL_CMD": f"{sys.executable} {recorder}",
        },
    )
    assert "onnxruntime" in (identity_dir / "asked.txt").read_text()
    assert done.returncode == 3


def test_an_openvino_that_is_too_old_is_one_line(identity_dir: Path) -> None:
    (identity_dir / "openvino").mkdir()
    (identity_dir / "openvino/__init__.py").write_text(
        "__version__ = '2023.3.0-13775-releases/2023/3'"
    )
    done = subprocess.run(
        [sys.executable, "-m", "polygraphy", "run", "identity.onnx", "--openvino"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(identity_dir)},
    )
    assert done.returncode == 3
    said = "This OpenVINO is too old: 2024.0 or later is required. pip install -U openvino"
    assert done.stderr.splitlines() == [f"[!] {said}"]
    assert "required" not in done.stdout
