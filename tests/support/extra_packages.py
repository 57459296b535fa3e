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
    """Return whether a test uses one of the packages: its module names one, or it asks for a fixture
    that does.
    """
    return bool(_FIXTURES & set(getattr(item, "fixturenames", ()))) or _names_one(item.path)


def may_use_extra(path: Path) -> bool:
    """Return whether a module can have such tests: it names a package, the marker or a fixture."""
    return _names_one(path) or _MENTION.search(path.read_text(encoding="utf-8")) is not None


def computes_in_openvino(item: pytest.Item) -> bool:
    """Return whether a test computes in OpenVINO, whose threads do not go together with the forks
    of other tests: one of its own, or one of a contract suite with OpenVINO as the adapter.
    """
    folder = item.path.parent
    is_own = folder.name == OPENVINO and item.path.name != "test_apart.py"
    return is_own or (folder.name == "contract" and OPENVINO in item.name)


@cache
def may_compute_in_openvino(path: Path) -> bool:
    """Return whether a module can have such tests: it is one of its own, or names OpenVINO or the
    list of runners.
    """
    return path.parent.name == OPENVINO or _RUNNERS.search(path.read_text("utf-8")) is not None


@cache
def _names_one(path: Path) -> bool:
    return _USE.search(path.read_text(encoding="utf-8")) is not None


def lacks_marker(item: pytest.Item, reason: str) -> bool:
    """Return whether a test was skipped for want of a package, and is not known to use one, so that
    no environment would run it.
    """
    return _SKIPPED.search(reason) is not None and item.get_closest_marker(MARKER) is None


def installed() -> str:
    """Describe which of the packages are installed, and which are not."""
    found = {package: _version(names) for package, names in _DISTRIBUTIONS.items()}
    there = [f"{name} {version}" for name, version in found.items() if version]
    missing = [name for name, version in found.items() if not version]
    parts = [", ".join(there)] if there else []
    return "; ".join([*parts, *([f"not installed: {', '.join(missing)}"] if missing else [])])


def _version(names: tuple[str, ...]) -> str | None:
    return next((found.version for name in names for found in distributions(name=name)), None)
