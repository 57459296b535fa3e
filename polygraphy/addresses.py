"""Published modules at other addresses, from which scripts import: a table in place of files.

`setup.py` writes a stub beside the package for each of them, for type checkers and editors.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ADDRESSES", "spec_of", "stub_of"]

_AS_THEIR_PACKAGE = {
    "backend.base": ("loader", "runner"),
    "backend.common": ("loader",),
    "backend.onnxrt": ("loader", "runner"),
    "backend.pluginref": ("runner",),
    "backend.pyt": ("runner",),
    "backend.tensorrt_rtx": ("config",),
    "backend.tf": ("loader", "runner"),
    "backend.trt": (
        "algorithm_selector",
        "calibrator",
        "config",
        "file_reader",
        "loader",
        "profile",
        "runner",
    ),
    "common": ("struct",),
    "comparator": ("comparator", "data_loader", "postprocess"),
    "cuda": ("cuda",),
    "exception": ("exception",),
    "func": ("func",),
    "json": ("serde",),
    "mod": ("exporter", "importer", "util"),
}
"""Modules that have what their package has."""

ADDRESSES = {
    **{
        f"polygraphy.{package}.{name}": f"polygraphy.{package}"
        for package, names in _AS_THEIR_PACKAGE.items()
        for name in names
    },
    "polygraphy.common.constants": "polygraphy.constants",
    "polygraphy.common.exception": "polygraphy.exception",
    **{
        f"polygraphy.datatype.{library}": f"polygraphy.legacy.datatypes:{library}"
        for library in ("numpy", "onnx", "onnxrt", "tensorrt", "torch")
    },
}
"""The module, or the object in one, that has the names of each published module."""


class _Alias:
    """A module loader that forwards names to another object."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Return None, so that the import system creates an ordinary module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Copy the attributes of the target to the module."""
        home, _, name = ADDRESSES[module.__name__].partition(":")
        target: Any = import_module(home)
        target = getattr(target, name) if name else target
        module.__doc__ = f"Another address of `{home}`, from which scripts import."
        vars(module).update(
            __all__=list(target.__all__),
            __getattr__=partial(_forward_attribute, target),
            __dir__=partial(dir, target),
        )


def _forward_attribute(target: Any, name: str) -> Any:
    """Return an attribute of the target; raise AttributeError for special names."""
    if name.startswith("__"):  # Special names that the import system looks up in a module.
        raise AttributeError(name)
    return getattr(target, name)


def spec_of(name: str) -> ModuleSpec | None:
    """Return the spec of a module at a published address; None if there is none."""
    return ModuleSpec(name, _Alias) if name in ADDRESSES else None  # type: ignore[arg-type]


def stub_of(name: str) -> str:
    """Return the text of the type stub for a module at a published address."""
    home, _, library = ADDRESSES[name].partition(":")
    if not library:
        return f"from {home} import *\n"
    return (
        "from typing import Any\n\n"
        "from polygraphy.domain.tensors.datatype import DataType as DataType, DataTypeEntry\n\n"
        "def from_datatype(self: DataTypeEntry) -> Any: ...\n"
        f"def from_{library}({library}_type: Any) -> DataTypeEntry: ...\n"
    )
