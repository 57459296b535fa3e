"""Which tests use a package that the extra `test-all` brings and `test` does not, and which need a
process apart from the others.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

__all__ = [
    "MARKER",
    "OPENVINO",
    "computes_in_openvino",
    "installed",
    "lacks_marker",
    "may_compute_in_openvino",
    "may_use_extra",
    "uses_extra",
]

MARKER = "extra"
OPENVINO = "openvino"

_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow-cpu", "tensorflow"),
    "keras": ("keras",),
    "tf2onnx": ("tf2onnx",),
    "torch": ("torch",),
    "torchvision": ("torchvision",),
    "triton": ("triton",),
    "lpips": ("lpips",),
    "onnxruntime_ep_openvino": ("onnxruntime-ep-openvino",),
    "onnxscript": ("onnxscript",),
    "playwright": ("playwright",),
    "tensorrt_rtx": ("tensorrt-rtx",),
}
_NAMES = "|".join(_DISTRIBUTIONS)
_USE = re.compile(rf"""^\s*(?:import|from) (?:{_NAMES})\b|["'](?:{_NAMES})[."'>=]""", re.MULTILINE)
_SKIPPED = re.compile(rf"could not import '(?:{_NAMES})\b")
_FIXTURES = {"browser", "rtx"}
_RUNNERS = re.compile(rf"{OPENVINO}|contract\.runners")
_MENTION = re.compile("|".join([MARKER, *_FIXTURES]))


def uses_extra(item: pytest.Item) -> bool:
    """Return whether a test uses an extra package, by its module or a fixture."""
    return bool(_FIXTURES & set(getattr(item, "fixturenames", ()))) or _names_one(item.path)


def may_use_extra(path: Path) -> bool:
    """Return whether a module mentions an extra package, its marker or a fixture."""
    return _names_one(path) or _MENTION.search(path.read_text(encoding="utf-8")) is not None


def computes_in_openvino(item: pytest.Item) -> bool:
    """Return whether a test computes in OpenVINO.

    OpenVINO's threads do not survive the forks of other tests. It is a test of the adapter, or one
    of a contract suite with OpenVINO as the adapter.
    """
    folder = item.path.parent
    is_own = folder.name == OPENVINO and item.path.name != "test_apart.py"
    return is_own or (folder.name == "contract" and OPENVINO in item.name)


@cache
def may_compute_in_openvino(path: Path) -> bool:
    """Return whether a module can contain tests that compute in OpenVINO.

    It belongs to the adapter, or mentions OpenVINO or the list of runners.
    """
    return path.parent.name == OPENVINO or _RUNNERS.search(path.read_text("utf-8")) is not None


@cache
def _names_one(path: Path) -> bool:
    """Return whether a file mentions an extra package."""
    return _USE.search(path.read_text(encoding="utf-8")) is not None


def lacks_marker(item: pytest.Item, reason: str) -> bool:
    """Return whether a skipped test lacks the marker, so that no environment would run it."""
    return _SKIPPED.search(reason) is not None and item.get_closest_marker(MARKER) is None


def installed() -> str:
    """Return a line with the extra packages that are installed, and those that are not."""
    found = {package: _version(names) for package, names in _DISTRIBUTIONS.items()}
    there = [f"{name} {version}" for name, version in found.items() if version]
    missing = [name for name, version in found.items() if not version]
    parts = [", ".join(there)] if there else []
    return "; ".join([*parts, *([f"not installed: {', '.join(missing)}"] if missing else [])])


def _version(names: tuple[str, ...]) -> str | None:
    """Return the version of the first installed distribution of some names, or None."""
    return next((found.version for name in names for found in distributions(name=name)), None)
