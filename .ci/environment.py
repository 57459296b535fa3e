#!/usr/bin/env python3
"""Create a virtual environment of the Python that runs this, and install this package into it.

    python3 .ci/environment.py .venv-test '.[test]'
    python3 .ci/environment.py .venv-test-all '.[test,test-extra]' --prefer torch==2.13.0+cpu

uv installs: it takes a quarter of the CPU time of pip. It comes from the PATH, or pip installs it
into the folder `.venv-uv`. It follows the configuration of pip. Pip installs if there is no uv, if
uv fails, if pip has a setting that uv does not know, or if `--installer pip` says so.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
UV_FOLDER = Path(".venv-uv")

_EACH = {
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
    "only-binary": "--only-binary",
    "no-binary": "--no-binary",
}
"""Settings of pip with several values, and the option of uv that takes one of them."""

_ONE = {"index-url": "--default-index"}
_VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT"}
_NO_EFFECT = {
    *("break-system-packages", "cache-dir", "debug", "disable-pip-version-check"),
    *("keyring-provider", "log", "no-cache-dir", "no-color", "no-compile", "no-input"),
    *("no-python-version-warning", "no-warn-script-location", "prefer-binary", "progress-bar"),
    *("quiet", "require-virtualenv", "retries", "root-user-action", "use-deprecated", "verbose"),
}
"""Settings of pip that do not change which packages are installed from where."""


class UnknownSetting(Exception):
    """Pip has a setting that uv cannot follow."""


def read_settings(listing: str) -> dict[str, str]:
    """Return the settings in the output of `pip config list`; later sources win, as in pip."""
    order = {"global": 0, "install": 1, ":env:": 2}
    rows: list[tuple[int, str, str]] = []
    for line in listing.splitlines():
        name, separator, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if separator and section in order:
            rows.append((order[section], key, str(ast.literal_eval(value))))
    settings = {key: value for _, key, value in sorted(rows)}
    if "default-timeout" in settings:  # An older name, which environment variables use.
        settings.setdefault("timeout", settings.pop("default-timeout"))
    return settings


def uv_options(settings: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the options and the environment variables of uv for settings of pip."""
    options = ["--index-strategy", "unsafe-best-match"]  # Pip treats all its indexes as one.
    variables: dict[str, str] = {}
    for key, value in settings.items():
        if key in _EACH:
            options += [word for each in value.split() for word in (_EACH[key], each)]
        elif key in _ONE:
            options += [_ONE[key], value]
        elif key in _VARIABLES:
            variables[_VARIABLES[key]] = value
        elif key == "no-index":
            options += ["--no-index"] if _is_true(value) else []
        elif key == "pre":
            options += ["--prerelease", "allow"] if _is_true(value) else []
        elif key not in _NO_EFFECT:
            raise UnknownSetting(key)
    return options, variables


def _is_true(value: str) -> bool:
    return value.lower() in ("1", "true", "yes", "on", "y", "t")


def find_uv() -> str | None:
    """Return a uv that runs, from the PATH or installed by pip; None if there is none."""
    own = UV_FOLDER / "bin" / "uv"
    for path in (shutil.which("uv"), str(own)):
        if path and _succeeds([path, "--version"]):
            return path
    python = str(UV_FOLDER / "bin" / "python")
    if _succeeds([sys.executable, "-m", "venv", "--clear", str(UV_FOLDER)]) and _succeeds(
        [python, *PIP, "install", "--no-compile", "--only-binary", "uv", "--retries", "1", "uv"]
    ):
        return str(own)
    return None


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _pip_settings() -> dict[str, str]:
    for python in (sys.executable, str(UV_FOLDER / "bin" / "python")):
        with_pip = [python, *PIP[:2], "config", "list"]
        run = subprocess.run(with_pip, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return read_settings(run.stdout)
    raise UnknownSetting("configuration")  # Without pip, nobody reads it.


def install_with_uv(folder: Path, requirements: Sequence[str], errors: int | None) -> bool:
    """Return whether uv created the environment with the requirements in it."""
    uv = find_uv()
    if uv is None:
        return False
    try:
        options, variables = uv_options(_pip_settings())
    except (UnknownSetting, OSError) as reason:
        print(f"{folder}: pip installs, because uv does not know its setting {reason}", flush=True)
        return False
    if not _create(folder, "--without-pip"):
        return False
    python = str(folder / "bin" / "python")
    command = [uv, "pip", "install", "--quiet", "--python", python, *options, "pip", *requirements]
    environment = {**variables, **os.environ}
    return subprocess.run(command, env=environment, stderr=errors, check=False).returncode == 0


def install_with_pip(folder: Path, requirements: Sequence[str], errors: int | None) -> bool:
    """Return whether pip created the environment with the requirements in it."""
    if not _create(folder):
        return False
    command = [str(folder / "bin" / "python"), *PIP, "install", "--no-compile", *requirements]
    return subprocess.run(command, stderr=errors, check=False).returncode == 0


def _create(folder: Path, *options: str) -> bool:
    command = [sys.executable, "-m", "venv", "--clear", *options, str(folder)]
    return subprocess.run(command, check=False).returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Create the environment; return 0 if all requirements are in it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("package", help="this package with its extras, such as .[test]")
    parser.add_argument("--prefer", metavar="REQUIREMENT", help="install it too, if it exists")
    parser.add_argument("--installer", choices=("uv", "pip"), help="default: uv, then pip")
    chosen = parser.parse_args(arguments)
    package = ["--editable", chosen.package]
    for name, install in {"uv": install_with_uv, "pip": install_with_pip}.items():
        if chosen.installer not in (None, name):
            continue
        if chosen.prefer:
            if install(chosen.folder, [*package, chosen.prefer], subprocess.DEVNULL):
                return 0
            print(f"{chosen.folder}: {name} cannot install {chosen.prefer} here", flush=True)
        if install(chosen.folder, package, None):
            return 0
    print(f"{chosen.folder}: its packages could not be installed: the message is above", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
