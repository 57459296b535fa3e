"""Installed packages: what is required and the backends, with their versions, and other packages of
this name.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

import polygraphy
from polygraphy import __version__
from polygraphy.domain.environment import Section

_NAME = "polygraphy"
_SHOWN = 3
"""Remaining files that are named."""
_REMEDY = f"Repeat pip uninstall {_NAME} until none is left, then install this package again."


def namesakes(path: Sequence[str] | None = None, package: Path | None = None) -> Iterator[str]:
    """Yield a sentence about each sign that another package of this name is or was installed.

    Args:
        path: the search path for packages; that of imports if None.
        package: the folder of this package's own modules; that of this process if None.
    """
    path = sys.path if path is None else path
    package = package or Path(polygraphy.__file__).parent
    distributions = list(metadata.distributions(name=_NAME, path=list(path)))
    other_distributions = [
        distribution
        for distribution in distributions
        if distribution.version != polygraphy.__version__
    ]
    for distribution in other_distributions:
        yield (
            f"{_describe_owner(distribution)} {distribution.version} is also installed according to"
            f" {_folder_of(distribution)}, so modules of the two may be mixed. Remedy: {_REMEDY}"
        )
    for folder in _other_folders(path, package):
        yield (
            f"{folder} is a different package with this name; the working directory decides which"
            f" one is imported. Remedy: {_REMEDY}"
        )
    leftover_files = _leftover_files(distributions, package)
    if leftover_files and not other_distributions:
        named = ", ".join(leftover_files[:_SHOWN]) + (
            ", ..." if len(leftover_files) > _SHOWN else ""
        )
        yield (
            f"{len(leftover_files)} modules in {package} belong to a different package with this"
            f" name: {named}. Remedy: delete that folder, then install this package again."
        )


def _describe_owner(distribution: metadata.Distribution) -> str:
    """Return "NVIDIA's" or "Another" package of this name, from its authors."""
    name = " ".join(
        distribution.metadata.get_all("Author-email", [])
        + distribution.metadata.get_all("Author", [])
    )
    return f"NVIDIA's {_NAME}" if "nvidia" in name.lower() else f"Another {_NAME}"


def _folder_of(distribution: metadata.Distribution) -> str:
    """Return the folder of an installed package."""
    return str(getattr(distribution, "_path", None) or distribution.locate_file(""))


def _other_folders(path: Sequence[str], package: Path) -> list[Path]:
    """Return the packages of this name on the import path that are not this one."""
    folders = [Path(entry or ".") / _NAME for entry in path]
    paths = [folder for folder in folders if (folder / "__init__.py").is_file()]
    return list(dict.fromkeys(path for path in paths if path.resolve() != package.resolve()))


def _leftover_files(distributions: Sequence[metadata.Distribution], package: Path) -> list[str]:
    """Return modules in the package's folder that are not in its list of installed files.
    The result is empty without a list.
    """
    listed: set[Path] = set()
    for leftover_files in distributions:
        if (
            leftover_files.version == polygraphy.__version__
            and leftover_files.read_text("RECORD") is not None
        ):
            listed |= {
                Path(str(leftover_files.locate_file(file))).resolve()
                for file in leftover_files.files or ()
            }
    if package.resolve() / "__init__.py" not in listed:
        return []
    modules = package.resolve().rglob("*.py")
    return sorted(
        str(module.relative_to(package.resolve())) for module in modules if module not in listed
    )


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
    """The packages and modules of a backend, with the package to install if they are missing."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    install: str


_BACKENDS = {
    "ONNX Runtime": _Backend(("onnxruntime", "onnxruntime-gpu"), ("onnxruntime",), "onnxruntime"),
    "OpenVINO": _Backend(("openvino",), ("openvino",), "openvino"),
    "TensorRT": _Backend(
        ("tensorrt", "tensorrt-rtx"), ("tensorrt", "tensorrt_rtx"), "tensorrt cuda-python"
    ),
    "CUDA Python": _Backend(("cuda-python",), ("cuda.bindings", "cuda.cudart"), "cuda-python"),
    "TensorFlow": _Backend(("tensorflow", "tensorflow-cpu"), ("tensorflow",), "tensorflow tf2onnx"),
    "PyTorch": _Backend(("torch",), ("torch",), "torch"),
}


def package_sections() -> list[Section]:
    """Return the sections with versions of required packages and backends."""
    required = (
        ("Python", platform.python_version()),
        ("polygraphy", __version__),
        *(
            (name, _package_version(name) or _without_metadata(module) or "missing")
            for name, module in _REQUIRED.items()
        ),
    )
    return [Section("Versions", required, tuple(namesakes())), _backend_section()]


def _backend_section() -> Section:
    """Return the section about installed and missing backends."""
    facts, missing = [], []
    for name, backend in _BACKENDS.items():
        versions = {package: _package_version(package) for package in backend.packages}
        texts = [f"{name} {version}" for name, version in versions.items() if version]
        if not texts:
            texts = [text for module in backend.modules if (text := _without_metadata(module))]
        facts.append((name, ", ".join(texts) or "not installed"))
        if not texts:
            missing.append(f"To install {name}: pip install {backend.install}")
    return Section("Backends", tuple(facts), tuple(missing))


def _package_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _without_metadata(module: str) -> str | None:
    """Return a phrase about a module that no installed package lists: its package or folder.
    The result is None if it does not exist.
    """
    spec = _find_module(module)
    if spec is None or spec.origin is None:  # A plain folder with this name is not a package.
        return None
    top = module.partition(".")[0]
    packages = sorted(set(metadata.packages_distributions().get(top, ())))
    named = [
        f"{package} {version}" for package in packages if (version := _package_version(package))
    ]
    version = getattr(sys.modules.get(module), "__version__", None)
    text = f"{module} {version}" if isinstance(version, str) else module
    return ", ".join(named) or f"{text} in {Path(spec.origin).parent}, without package metadata"


def _find_module(module: str) -> ModuleSpec | None:
    """Return the spec of a module without importing its parents; None if it does not exist."""
    if sys.modules.get(module, module) is None:
        # None in `sys.modules` marks a module that must not be imported.
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
