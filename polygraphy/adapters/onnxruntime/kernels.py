"""Kernels of ONNX Runtime: the data types and versions of an operator that it implements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from polygraphy import mod

onnxrt_state = mod.lazy_import("onnxruntime.capi._pybind_state")

_MISSING = re.compile(r"Could not find an implementation for ([\w.]+)\((\d+)\) node")
_CPU = "CPUExecutionProvider"
_ELEMENTS = re.compile(r"\((\w+)\)+$")
_NAMES = {"float": "float32", "double": "float64"}
"""Names of data types, by those of ONNX Runtime where they differ."""


def kernel_advice(message: str) -> str:
    """Return advice on the missing kernel that an error of ONNX Runtime names: what the CPU
    implements of the operator; empty if that is unknown."""
    missing = _MISSING.search(message)
    kernels = None if missing is None else _cpu_kernels(missing[1])
    if missing is None or kernels is None:
        return ""
    op, version = missing[1], int(missing[2])
    if not kernels:
        return f"ONNX Runtime has no CPU kernel for {op}: replace the operator."
    usable = [kernel for kernel in kernels if _includes(kernel.version_range, version)]
    if not usable:
        first = min(kernel.version_range[0] for kernel in kernels)
        last = max(kernel.version_range[1] for kernel in kernels)
        if version < first:
            return f"ONNX Runtime implements {op} from opset {first} on: use a higher opset."
        return (
            f"This ONNX Runtime implements {op} up to opset {last}: pip install -U onnxruntime, or"
            " use a lower opset."
        )
    types: dict[str, dict[str, None]] = {}
    for kernel in usable:
        for constraint, names in kernel.type_constraints.items():
            types.setdefault(constraint, {}).update(dict.fromkeys(map(_type_name, names)))
    if not types:
        return ""
    several = len(types) > 1
    lists = (", ".join(names) + f" ({key})" * several for key, names in types.items())
    return f"The CPU implements {op} for {'; '.join(lists)}: cast its inputs."


def _cpu_kernels(op: str) -> Sequence[Any] | None:
    """Return the kernels of an operator for the CPU; None if this ONNX Runtime does not list its
    kernels."""
    if not hasattr(onnxrt_state, "get_all_opkernel_def"):
        return None
    return [
        kernel
        for kernel in onnxrt_state.get_all_opkernel_def()
        if kernel.op_name == op and kernel.provider == _CPU
    ]


def _includes(versions: tuple[int, int], version: int) -> bool:
    """Return whether a version is in a range."""
    return versions[0] <= version <= versions[1]


def _type_name(name: str) -> str:
    """Return the name of a data type, such as ``float64`` for ``tensor(double)``."""
    elements = _ELEMENTS.search(name)
    inner = elements[1] if elements is not None else name
    known = _NAMES.get(inner, inner)
    return known if name.startswith("tensor(") else name.replace(f"({inner})", f"({known})")
