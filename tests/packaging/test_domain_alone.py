"""The domain works in an environment with nothing but NumPy and attrs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_NOT_BUILT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "docs", "tests")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a virtual environment with the package, NumPy and attrs only."""
    folder = tmp_path_factory.mktemp("bare")
    # Where it is built, files are written, which two processes of the tests do at the same time.
    source = shutil.copytree(ROOT, folder / "source", ignore=_NOT_BUILT)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    for command in (
        [sys.executable, "-m", "venv", str(folder / "venv")],
        [*pip, "numpy", "attrs"],
        [*pip, "--no-deps", str(source)],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    return python


@pytest.mark.slow
@pytest.mark.packaging
def test_the_embedding_example_runs_without_any_backend(bare_python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(bare_python), str(ROOT / "examples" / "embedding" / "embed.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "within tolerance: False" in done.stdout
    assert "layers that were built differently: ['conv1']" in done.stdout


@pytest.mark.packaging
def test_help_needs_no_dependency_and_comes_from_the_build(
    bare_python: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from polygraphy.cli.main import main; main(['run', '-h']);"
        "print('LOADED', [m for m in ('attr', 'numpy', 'argparse') if m in sys.modules])"
    )
    done = subprocess.run(
        [str(bare_python), "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--onnxrt" in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.packaging
def test_templates_are_shipped_compiled(bare_python: Path) -> None:
    [package] = bare_python.parent.parent.glob("lib/python*/site-packages/polygraphy")
    assert len(list((package / "codegen" / "compiled").glob("tmpl_*.py"))) == len(
        list((ROOT / "polygraphy" / "codegen" / "templates").rglob("*.j2"))
    )
