"""Python environments in which this version of the package runs, whatever version they have: they
import it through a link in the folder of the sweep, so that all cells are judged by the same
version.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from filelock import FileLock

import polygraphy
from polygraphy.adapters.os.interpreters import interpreter_of, output_of, value_after
from polygraphy.adapters.os.paths import atomic_file, readable_file, translate_os_errors
from polygraphy.binding import function_for
from polygraphy.domain.errors import BackendError
from polygraphy.ports.machine import sections_of
from polygraphy.python_command import safe_command

_NAME = "polygraphy"
_NEEDED = (
    "attrs", "black", "filelock", "jinja2", "ml_dtypes", "numpy", "onnx",
)  # fmt: skip
"""Requirements of this package, for a clone without metadata."""
_INSTALLING = 3600.0
_PIP_WITH_OPTION_PYTHON = (22, 3)
"""The first version of pip with the option `--python`."""
_OF_CELLS = {
    "PYTHONSAFEPATH": "1",
    "POLYGRAPHY_EXIT_CODES": "",
    "POLYGRAPHY_CONSOLE": "",
    "GITHUB_ACTIONS": "",
    "GITHUB_STEP_SUMMARY": "",
}
"""What is said of a cell is read by the sweep, and is not shown: exit codes tell all they can."""
_ASKED = """
import json
try:
    from polygraphy.binding import function_for
    from polygraphy.ports.machine import sections_of
    sections = function_for(sections_of, "packages")()
    versions = {name: value for each in sections for name, value in each.facts}
except ModuleNotFoundError as error:
    versions = {error.name: "missing"}
print("versions", json.dumps(versions))
"""


_PROGRAM = b"""# `python FOLDER run ...` runs the package that is linked here.
import sys

from polygraphy.cli.main import main

sys.exit(main())
"""


def open_interpreter(path: str, folder: str) -> tuple[str, Mapping[str, str], Mapping[str, str]]:
    """Return the path of an interpreter, its environment variables, and its versions."""
    variables = _import_variables(Path(folder))
    if not path:
        sections = function_for(sections_of, "packages")()
        return sys.executable, variables, {n: v for section in sections for n, v in section.facts}
    # The link in a virtual environment remains a link.
    interpreter = str(Path(interpreter_of(path)).absolute())
    command = safe_command([interpreter, "-c", _ASKED])
    output = output_of(command, path, environment=variables)
    versions = json.loads(value_after(output, "versions") or "{}")
    missing = [name for name, version in versions.items() if version == "missing"]
    if missing or not versions:
        raise BackendError(
            f"{path}: Polygraphy cannot run there. Missing: {', '.join(missing)}.",
            hint=f"Install it: {interpreter} -m pip install {' '.join(missing)}.",
        )
    return interpreter, variables, versions


def install_environment(requirements: str, folder: str) -> str:
    """Install requirements into a folder, and return the path of its interpreter."""
    content = readable_file(requirements, "File of requirements").read_bytes()
    needed = _package_requirements()
    digest = hashlib.sha256(b"\n".join([content, *map(str.encode, needed)])).hexdigest()[:16]
    target = Path(folder).resolve() / "environments" / digest
    complete = target / "complete"
    with translate_os_errors(target, "make"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if complete.exists():
                return str(target)
            shutil.rmtree(target, ignore_errors=True)
            server = _interpreter_with_pip()
            venv = [sys.executable, "-m", "venv", *(["--without-pip"] if server else [])]
            output_of(safe_command([*venv, str(target)]), requirements)
            interpreter = interpreter_of(str(target))
            pip = (
                [server, "-m", "pip", "--python", interpreter]
                if server
                else [interpreter, "-m", "pip"]
            )
            command = [*pip, "install", "--quiet", "--disable-pip-version-check"]
            command += ["-r", requirements, *needed]
            output_of(safe_command(command), requirements, timeout=_INSTALLING)
            complete.touch()
    return str(target)


def _interpreter_with_pip() -> str | None:
    """Return an interpreter whose pip can install for other interpreters; None if there is none."""
    try:
        version = metadata.version("pip")
    except metadata.PackageNotFoundError:
        base = getattr(sys, "_base_executable", "")
        if not base or sys.prefix == sys.base_prefix:
            return None
        command = [base, "-c", "import pip; print('pip', pip.__version__)"]
        try:
            version = value_after(output_of(safe_command(command), base), "pip") or ""
        except BackendError:
            return None
        return base if _serves_others(version) else None
    return sys.executable if _serves_others(version) else None


def _serves_others(version: str) -> bool:
    """Return whether that version of pip can install for another interpreter."""
    try:
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) >= _PIP_WITH_OPTION_PYTHON
    except ValueError:
        return False


def _import_variables(folder: Path) -> dict[str, str]:
    """Return environment variables with which an interpreter imports this package, and nothing from
    the current folder.
    """
    parent = Path(polygraphy.__file__).resolve().parent
    link = folder.resolve() / "package" / _NAME
    with translate_os_errors(link, "create the link"):
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() or link.resolve() != parent:
            with suppress(FileNotFoundError):
                link.unlink()
            with suppress(FileExistsError):  # Another shard of the sweep was faster.
                link.symlink_to(parent)
        program = link.parent / "__main__.py"
        if not program.exists():
            with atomic_file(str(program)) as stream:
                stream.write(_PROGRAM)
    paths = [str(link.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**_OF_CELLS, "PYTHONPATH": os.pathsep.join(paths)}


def _package_requirements() -> list[str]:
    """Return the requirements of this package, without its extras."""
    try:
        required = metadata.requires(_NAME) or []
    except metadata.PackageNotFoundError:
        required = list(_NEEDED)
    return sorted(name for name in required if "extra ==" not in name)
