"""Distributions, and the domain in an environment with nothing but NumPy and attrs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from configparser import ConfigParser
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

import polygraphy

ROOT = Path(__file__).parents[2]
_MADE = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", ".hypothesis", ".faults", ".models", "__pycache__", "*.egg-info",
    "compiled", "described.py",
)  # fmt: skip


def _not_sources(folder: str, names: list[str]) -> set[str]:
    return {*_MADE(folder, names), *({"build", "dist"} if Path(folder) == ROOT else ())}


_SDIST = "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
_WHEEL = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
_ENV = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(*words: object, cwd: Path) -> str:
    """Run a command that has to work."""
    command = [str(word) for word in words]
    done = subprocess.run(
        command, cwd=cwd, env=_ENV, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel_of(sdist: Path, folder: Path) -> Path:
    """Build a wheel of a source distribution."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    [source] = (folder / "source").iterdir()
    run(sys.executable, "-c", _WHEEL, folder, cwd=source)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a source distribution."""
    # Where it is built, files are written, which two processes of the tests do at the same time.
    folder = tmp_path_factory.mktemp("sdist") / "source"
    source = shutil.copytree(ROOT, folder, ignore=_not_sources)
    name = run(sys.executable, "-c", _SDIST, cwd=source).splitlines()[-1]
    return source / "dist" / name


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built of the source distribution."""
    return wheel_of(sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bare_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a virtual environment with the package, NumPy and attrs only."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    [packages] = folder.glob("venv/lib/python*/site-packages")
    with ZipFile(wheel) as archive:  # What an installer does with files that all go there.
        archive.extractall(packages)
    for name in ("numpy", "attrs"):
        root = distribution(name).locate_file("")
        for top in {file.parts[0] for file in distribution(name).files or ()} - {".."}:
            (packages / top).symlink_to(Path(str(root)) / top)
    return folder / "venv" / "bin" / "python"


@pytest.mark.packaging
def test_the_source_distribution_has_what_make_test_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    here = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "docs", "examples", "lab", "benchmarks", "action", "polygraphy")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "compiled", "generated", "_build"} & {*path.parts}
        and path.suffix != ".pyc" and path.name != "described.py"
    ]  # fmt: skip
    assert len(here) > 1000
    assert not [name for name in here if name not in names]
    assert {"Makefile", "setup.cfg", "pyproject.toml", "pytest_polygraphy.py"} <= names
    assert {"README.md", "CHANGELOG.md", "SECURITY.md", "SKILL.md", "action.yml"} <= names
    assert not [name for name in names if "__pycache__" in name or "/compiled/" in name]


@pytest.mark.packaging
def test_the_same_sources_give_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    again = wheel_of(sdist, tmp_path)
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.packaging
def test_the_metadata_are_those_of_today(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith("/METADATA")]
        metadata = message_from_string(archive.read(name).decode())
        [entries] = [each for each in archive.namelist() if each.endswith("entry_points.txt")]
        plugins = archive.read(entries).decode()
        assert "pytest_polygraphy.py" in archive.namelist()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Version"] == polygraphy.__version__
    assert not [each for each in metadata.get_all("Classifier") if each.startswith("License")]
    assert "polygraphy = pytest_polygraphy" in plugins


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


def test_the_page_names_every_requirement_and_every_extra() -> None:
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    needed = settings["options"]["install_requires"].split("\n")[1:]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    names = [word.partition(">=")[0] for word in needed]
    names += settings["options.extras_require"]
    assert [name for name in names if f"| `{name}`" not in page and f", `{name}`" not in page] == []
