"""What published functions, classes and methods take; written by ``make signatures``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Signature(NamedTuple):
    """Where a name is published, and its arguments in order with their defaults; ``...`` stands for
    an argument that has none, or none that is a literal.
    """

    module: str
    arguments: Mapping[str, Any]


SIGNATURES = {
    "InvokeFromScript": Signature("polygraphy.backend.common", {"path": ..., "name": ...}),
    "OnnxFromPath": Signature(
        "polygraphy.backend.onnx",
        {"path": ..., "external_data_dir": None, "ignore_external_data": None, "map_weights": None},
    ),
    "PluginRefRunner": Signature(
        "polygraphy.backend.pluginref", {"graph": ..., "name": None, "references": None}
    ),
    "PytRunner": Signature(
        "polygraphy.backend.pyt",
        {
            "model": ...,
            "input_metadata": None,
            "output_names": None,
            "name": None,
            "compiled": False,
            "device": None,
        },
    ),
    "TorchFromPath": Signature("polygraphy.backend.pyt", {"path": ...}),
    "check_accuracy": Signature(
        "polygraphy.check",
        {"path": ..., "rtol": None, "atol": None, "check_error_stat": None, "thresholds": None},
    ),
    "concat": Signature("polygraphy.data", {"paths": ..., "output": ...}),
    "convert": Signature("polygraphy.data", {"path": ..., "output": ...}),
    "inspect_data": Signature(
        "polygraphy.inspect",
        {
            "paths": ...,
            "all_iterations": False,
            "show_values": False,
            "histogram": False,
            "statistics": False,
            "num_items": 3,
            "line_width": 75,
        },
    ),
    "merge": Signature("polygraphy.data", {"paths": ..., "output": ...}),
}
