"""Virtual environments that are made of files of requirements."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polygraphy.adapters.processes import environments
from polygraphy.domain.errors import BackendError, FileError
from polygraphy.ports.sweeping import install_environment, open_interpreter

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this package requires comes from an index; a wheel that is made here does not."""
    monkeypatch.setattr(environments, "_package_requirements", list)


def wheel(folder: Path) -> Path:
    path = folder / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", "VERSION = '1.0'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.slow
def test_it_is_made_once_for_a_content(tmp_path: Path) -> None:
    needed = f"{wheel(tmp_path)}\n"
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(needed)
    folder = str(tmp_path / "sweep")
    with ThreadPoolExecutor(2) as pool:  # As two shards of a sweep that begin at once.
        made = list(pool.map(lambda name: install_environment(str(tmp_path / name), folder),
                             ("one.txt", "two.txt")))  # fmt: skip
    assert made[0] == made[1]
    python = Path(made[0]) / "bin" / "python"
    asked = [str(python), "-c", "import tiny; print(tiny.VERSION)"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "1.0\n"
    before = python.parent.stat().st_mtime_ns
    assert install_environment(str(tmp_path / "one.txt"), folder) == made[0]
    assert python.parent.stat().st_mtime_ns == before
    (Path(made[0]) / "complete").unlink()  # As where making it was interrupted.
    assert install_environment(str(tmp_path / "one.txt"), folder) == made[0]
    assert (Path(made[0]) / "complete").exists()
    with pytest.raises(BackendError, match=r"Polygraphy cannot run there\. Missing: attrs"):
        open_interpreter(made[0], folder)


def test_what_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    folder = str(tmp_path / "sweep")
    with pytest.raises(FileError, match=r"none\.txt does not exist"):
        install_environment(str(tmp_path / "none.txt"), folder)
    (tmp_path / "bad.txt").write_text(f"{tmp_path / 'no-1.0-py3-none-any.whl'}\n")
    with pytest.raises(BackendError, match=r"bad\.txt: .*no-1\.0") as error:
        install_environment(str(tmp_path / "bad.txt"), folder)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "sweep" / "environments").glob("*/complete"))


def test_the_interpreter_that_this_is_needs_no_process(tmp_path: Path) -> None:
    path, variables, versions = open_interpreter("", str(tmp_path))
    assert path == sys.executable
    assert {"numpy", "onnx", "polygraphy"} <= {name.lower() for name in versions}
    assert (Path(variables["PYTHONPATH"].split(":")[0]) / "polygraphy" / "__init__.py").exists()


@pytest.mark.parametrize(
    ("pip", "base", "server"),
    [
        ("22.2.1", "23.0", ""),
        ("unknown", "23.0", ""),
        ("22.3", "", sys.executable),
        ("none", "22.2.1", ""),
        ("none", "", ""),
        ("none", "22.3", "/base/python"),
    ],
)
def test_the_pip_of_this_interpreter_or_of_its_base_installs_elsewhere_unless_it_is_old(
    pip: str, base: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if pip == "none":
            raise environments.metadata.PackageNotFoundError(name)
        return pip

    asked = []

    def output_of(command: list[str], *_: object, **__: object) -> str:
        if "import pip" in command[2]:
            assert command[0] == "/base/python"
            if not base:
                raise BackendError("No module named pip")
            return f"pip {base}\n"
        asked.append(" ".join(command))
        if len(asked) == 1:
            Path(command[-1]).mkdir()
        return ""

    (tmp_path / "one.txt").write_text("tiny\n")
    monkeypatch.setattr(environments.metadata, "version", version)
    monkeypatch.setattr(environments, "output_of", output_of)
    monkeypatch.setattr(environments, "interpreter_of", lambda path: f"{path}/bin/python")
    monkeypatch.setattr(sys, "base_prefix", "/base")
    monkeypatch.setattr(sys, "_base_executable", "/base/python")
    installed = install_environment(str(tmp_path / "one.txt"), str(tmp_path / "sweep"))
    assert ("--without-pip" in asked[0]) == bool(server)
    assert asked[1].startswith(server or f"{installed}/bin/python")
    assert ("--python" in asked[1]) == bool(server)
