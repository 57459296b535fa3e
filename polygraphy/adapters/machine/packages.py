"""Which versions are installed: read from the metadata of packages, and from the import path where
there is none, without importing anything.
"""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

from polygraphy import __version__
from polygraphy.adapters.machine.namesakes import namesakes
from polygraphy.domain.environment import Section

_REQUIRED = {
    "numpy": "numpy",
    "ml_dtypes": "ml_dtypes",
    "onnx": "onnx",
    "attrs": "attr",
    "jinja2": "jinja2",
    "black": "black",
}
"""Packages that are needed, and the module that each brings."""


class _Backend(NamedTuple):
    """The packages and the modules that bring a backend, and what to install where there are
    none.
    """

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    install: str


_BACKENDS = {
    "ONNX Runtime": _Backend(("onnxruntime", "onnxruntime-gpu"), ("onnxruntime",), "onnxruntime"),
    "TensorRT": _Backend(
        ("tensorrt", "tensorrt-rtx"), ("tensorrt", "tensorrt_rtx"), "tensorrt cuda-python"
    ),
    "CUDA Python": _Backend(("cuda-python",), ("cuda.bindings", "cuda.cudart"), "cuda-python"),
    "TensorFlow": _Backend(("tensorflow", "tensorflow-cpu"), ("tensorflow",), "tensorflow tf2onnx"),
    "PyTorch": _Backend(("torch",), ("torch",), "torch"),
}


class InstalledPackages:
    """Implements the port `Diagnosis`."""

    def sections(self) -> list[Section]:
        """Return versions of what is needed, and of the backends."""
        required = (
            ("Python", platform.python_version()),
            ("polygraphy", __version__),
            *(
                (name, _version(name) or _without_metadata(module) or "missing")
                for name, module in _REQUIRED.items()
            ),
        )
        return [Section("Versions", required, tuple(namesakes())), self._backends()]

    def _backends(self) -> Section:
        facts, missing = [], []
        for name, backend in _BACKENDS.items():
            versions = {each: _version(each) for each in backend.packages}
            found = [f"{each} {version}" for each, version in versions.items() if version]
            if not found:
                found = [text for each in backend.modules if (text := _without_metadata(each))]
            facts.append((name, ", ".join(found) or "not installed"))
            if not found:
                missing.append(f"{name} is installed by: pip install {backend.install}")
        return Section("Backends", tuple(facts), tuple(missing))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _without_metadata(module: str) -> str | None:
    """Return what can be said of a module that no known package brings: the package that does, or
    its folder; None where there is no such module.
    """
    spec = _find(module)
    if spec is None or spec.origin is None:  # A mere folder of that name is no package.
        return None
    top = module.partition(".")[0]
    packages = sorted(set(metadata.packages_distributions().get(top, ())))
    named = [f"{package} {version}" for package in packages if (version := _version(package))]
    version = getattr(sys.modules.get(module), "__version__", None)
    shown = f"{module} {version}" if isinstance(version, str) else module
    return ", ".join(named) or f"{shown} in {Path(spec.origin).parent}, without package metadata"


def _find(module: str) -> ModuleSpec | None:
    """Find a module without importing its parents."""
    if sys.modules.get(module, module) is None:  # How to say that it must not be imported.
        return None
    spec: ModuleSpec | None = None
    path = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        try:
            spec = PathFinder.find_spec(name, path)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec
