"""Which versions are installed: read from the metadata of packages, without importing them."""

from __future__ import annotations

import platform
from importlib import metadata

from polygraphy import __version__
from polygraphy.domain.environment import Section

__all__ = ["InstalledPackages"]

_REQUIRED = ("numpy", "ml_dtypes", "onnx", "attrs", "jinja2", "black")

_BACKENDS: dict[str, tuple[tuple[str, ...], str]] = {
    "ONNX Runtime": (("onnxruntime", "onnxruntime-gpu"), "polygraphy[onnxruntime]"),
    "TensorRT": (("tensorrt", "tensorrt-rtx"), "polygraphy[tensorrt]"),
    "CUDA Python": (("cuda-python",), "polygraphy[cuda]"),
    "TensorFlow": (("tensorflow", "tensorflow-cpu"), "polygraphy[tensorflow]"),
    "PyTorch": (("torch",), "polygraphy[torch]"),
}
"""Backends, the packages that bring them, and what to install where none does."""


class InstalledPackages:
    """Implements the port `Diagnosis`."""

    def sections(self) -> list[Section]:
        """Return versions of what is needed, and of the backends."""
        required = (
            ("Python", platform.python_version()),
            ("polygraphy", __version__),
            *((name, _version(name) or "missing") for name in _REQUIRED),
        )
        return [Section("Versions", required), self._backends()]

    def _backends(self) -> Section:
        facts, missing = [], []
        for backend, (packages, extra) in _BACKENDS.items():
            found = [f"{name} {version}" for name in packages if (version := _version(name))]
            facts.append((backend, ", ".join(found) or "not installed"))
            if not found:
                missing.append(f"{backend} is installed by: pip install '{extra}'")
        return Section("Backends", tuple(facts), tuple(missing))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
