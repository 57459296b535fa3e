"""Binds ports to adapters, lazily: an adapter is imported when its port is first resolved. Nothing
else happens here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from polygraphy.ports.binding import Unbound

__all__ = ["resolve"]

_ADAPTERS: dict[str, str] = {
    "Console": "polygraphy.adapters.console.log:LogConsole",
    "ConstantEvaluator": "polygraphy.adapters.onnxruntime.constants:OnnxrtConstantEvaluator",
    "ConstantEvaluator/onnx": "polygraphy.adapters.onnx.reference:ReferenceConstantEvaluator",
    "ConstantEvaluator/onnxruntime": (
        "polygraphy.adapters.onnxruntime.constants:OnnxrtConstantEvaluator"
    ),
    "DataTypeConverter/onnx": "polygraphy.adapters.onnx.datatype:OnnxDataTypes",
    "DataTypeConverter/onnxruntime": "polygraphy.adapters.onnxruntime.datatype:OnnxrtDataTypes",
    "Diagnosis/machine": "polygraphy.adapters.machine.machine:ThisMachine",
    "Diagnosis/packages": "polygraphy.adapters.machine.packages:InstalledPackages",
    "Diagnosis/providers": "polygraphy.adapters.onnxruntime.diagnosis:OnnxrtDiagnosis",
    "Reports": "polygraphy.adapters.console.reports:LogReports",
    "Isolation": "polygraphy.adapters.processes.forked:ForkedIsolation",
    "ModelWriter": "polygraphy.adapters.onnx.saving:OnnxModelWriter",
    "ResultStore": "polygraphy.adapters.files.store:FileResultStore",
    "ShapeInference": "polygraphy.adapters.onnxruntime.shapes:OnnxrtShapeInference",
    "TextFiles": "polygraphy.adapters.files.text:DiskTextFiles",
}


def resolve(port: type, key: str | None = None) -> Any:
    """Make the adapter of a port; `key` chooses where a port has several.

    Raises:
        Unbound: no adapter is known.
    """
    slot = port.__name__ if key is None else f"{port.__name__}/{key}"
    if slot not in _ADAPTERS:
        raise Unbound(f"No adapter is bound to {slot}.")
    module, _, name = _ADAPTERS[slot].partition(":")
    return getattr(import_module(module), name)()
