"""Tactic replay files, as a TensorRT build that records its tactics would leave them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Layers", "algorithm", "write", "write_directory"]

Layers = Mapping[str, Mapping[str, Any]]
"""Algorithms by layer name."""


def algorithm(tactic: int, *, implementation: int = 0x8000000D) -> dict[str, Any]:
    """Return the record of one layer: a float32 tensor in, a float32 tensor out."""
    tensor = {
        "dtype": "DataType.FLOAT",
        "strides": [4, 4, 2, 1],
        "vectorized_dim": -1,
        "components_per_element": 1,
        "polygraphy_class": "TensorInfo",
    }
    return {
        "implementation": implementation,
        "tactic": tactic,
        "inputs": [tensor],
        "outputs": [tensor],
        "polygraphy_class": "Algorithm",
    }


def write(path: Path, layers: Layers) -> None:
    """Write a replay file of `layers`."""
    content = {"replay": layers, "polygraphy_class": "TacticReplayData"}
    path.write_text(json.dumps(content, indent=4), encoding="utf-8")


def write_directory(folder: Path, *, good: Sequence[Layers], bad: Sequence[Layers]) -> None:
    """Write folder/good/<i>.json and folder/bad/<i>.json, one file per replay."""
    for kind, replays in (("good", good), ("bad", bad)):
        (folder / kind).mkdir(parents=True)
        for index, layers in enumerate(replays):
            write(folder / kind / f"{index}.json", layers)
