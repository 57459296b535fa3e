"""Which tests use a package that the extra `test-all` brings and `test` does not."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

__all__ = ["MARKER", "installed", "lacks_marker", "uses_extra"]

MARKER = "extra"

_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow-cpu", "tensorflow"),
    "keras": ("keras",),
    "tf2onnx": ("tf2onnx",),
    "torch": ("torch",),
    "torchvision": ("torchvision",),
    "triton": ("triton",),
    "lpips": ("lpips",),
    "onnxscript": ("onnxscript",),
    "playwright": ("playwright",),
    "tensorrt_rtx": ("tensorrt-rtx",),
}
_NAMES = "|".join(_DISTRIBUTIONS)
_USE = re.compile(rf"""^\s*(?:import|from) (?:{_NAMES})\b|["'](?:{_NAMES})[."'>=]""", re.MULTILINE)
_SKIPPED = re.compile(rf"could not import '(?:{_NAMES})\b")
_FIXTURES = {"rtx"}


def uses_extra(item: pytest.Item) -> bool:
    """Return whether a test uses one of the packages: its module names one, or it asks for a fixture
    that does.
    """
    return bool(_FIXTURES & set(getattr(item, "fixturenames", ()))) or _names_one(item.path)


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
