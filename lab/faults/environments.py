"""Virtual environments with released versions of ONNX Runtime and OpenVINO, and this package.

    python -m faults.environments

They are made once, in a folder that holds nothing else, with uv where it is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("POLYGRAPHY_FAULTS", ".faults")).resolve()
"""Where environments and cases lie."""

OLD, NEW = "numpy<2", "numpy>=2"
PACKAGES = {
    "1.15.1": ("1.16.2", OLD),
    "1.16.3": ("1.16.2", OLD),
    "1.17.3": ("1.17.0", OLD),
    "1.18.1": ("1.17.0", OLD),
    "1.19.2": ("1.17.0", NEW),
    "1.20.1": ("1.18.0", NEW),
    "1.21.1": ("1.18.0", NEW),
    "1.22.1": ("1.19.1", NEW),
    "1.23.2": ("1.20.1", NEW),
    "1.24.4": ("1.20.1", NEW),
    "1.25.1": ("1.21.0", NEW),
    "1.26.0": ("1.21.0", NEW),
    "1.27.0": ("1.21.0", NEW),
    "1.28.0": ("1.22.0", NEW),
    "1.29.0": ("1.22.0", NEW),
    "1.30.0": ("1.22.0", NEW),
    "1.31.1": ("1.23.2", NEW),
    "1.32.0": ("1.23.2", NEW),
}
"""Version of ONNX Runtime: the onnx package of its time, and the NumPy that it was built for."""

VERSIONS = tuple(PACKAGES)
WITH_OPENVINO = {
    "2024.0.0": OLD,
    "2024.2.0": OLD,
    "2024.4.0": OLD,
    "2024.6.0": OLD,
    "2025.1.0": "numpy<2.3",
    "2025.3.0": "numpy<2.3",
    "2026.0.0": NEW,
    "2026.2.0": NEW,
    "2026.4.1": NEW,
}
"""Version of OpenVINO, and the NumPy that it takes, beside the last ONNX Runtime and onnx."""
OPENVINO = tuple(WITH_OPENVINO)
NEEDED = ("attrs", "black", "filelock", "jinja2", "ml_dtypes", "rich", "protobuf")
HERE = "here"
"""The version of a case that runs in this interpreter, with the ONNX Runtime it has."""
ROOT = Path(__file__).resolve().parents[2]


def between(first: str, last: str) -> list[str]:
    """Return the versions from the first to the last, inclusive."""
    versions = VERSIONS if first in VERSIONS else OPENVINO
    return list(versions[versions.index(first) : versions.index(last) + 1])


def after(last: str) -> list[str]:
    """Return the versions after one."""
    versions = VERSIONS if last in VERSIONS else OPENVINO
    return list(versions[versions.index(last) + 1 :])


def title(version: str) -> str:
    """Return the name of the package that has a version."""
    if version == HERE:
        return "The ONNX Runtime of this interpreter"
    return f"{'OpenVINO' if version in OPENVINO else 'ONNX Runtime'} {version}"


def environment(version: str) -> Path:
    """Return the folder of the environment of a version, which is created if it is missing."""
    folder = FOLDER / "environments" / version
    if not (folder / "made").exists():
        _make(folder)
        _install(folder, *_packages(version), *NEEDED)
        _install(folder, "--no-deps", "--editable", str(ROOT))
        (folder / "made").touch()
    return folder


def _packages(version: str) -> list[str]:
    """Return the requirements of the environment of a version."""
    if version in OPENVINO:
        newest = VERSIONS[-1]
        return [f"openvino=={version}", *_packages(newest)[:2], WITH_OPENVINO[version]]
    onnx, numpy = PACKAGES[version]
    return [f"onnxruntime=={version}", f"onnx=={onnx}", numpy]


def python(version: str) -> str:
    """Return the path of the interpreter of an environment."""
    if version == HERE:
        return sys.executable
    return str(environment(version) / "bin" / "python")


def _make(folder: Path) -> None:
    """Create an empty virtual environment in a folder."""
    if shutil.which("uv"):
        subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(folder)], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)


def _install(folder: Path, *packages: str) -> None:
    """Install packages into the virtual environment of a folder."""
    interpreter = str(folder / "bin" / "python")
    if shutil.which("uv"):
        line = ["uv", "pip", "install", "--quiet", "--python", interpreter, *packages]
    else:
        line = [interpreter, "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(line, check=True)


if __name__ == "__main__":
    for each in (*VERSIONS, *OPENVINO):
        environment(each)
