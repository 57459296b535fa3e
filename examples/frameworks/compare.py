#!/usr/bin/env python3
"""Run the classifier of digits in every installed backend, and compare all pairs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy import mod, program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.pluginref import PluginRefRunner
from polygraphy.backend.pyt import PytRunner
from polygraphy.backend.tf import GraphFromKeras, SessionFromGraph, TfRunner
from polygraphy.comparator import Comparator, SimpleCompareFunc

FOLDER = Path(__file__).resolve().parent
ONNX = str(FOLDER / "digits.onnx")
KERAS = str(FOLDER / "digits.keras")
TORCH = str(FOLDER / "torch_model.py")


def runners() -> list[Any]:
    """Return a runner for each backend that is installed."""
    load_onnx = OnnxFromPath(ONNX)
    found: list[Any] = [OnnxReferenceRunner(load_onnx), PluginRefRunner(load_onnx)]
    if mod.has_mod("onnxruntime"):
        found.append(OnnxrtRunner(SessionFromOnnx(ONNX)))
    if mod.has_mod("tensorflow"):
        found.append(TfRunner(SessionFromGraph(GraphFromKeras(KERAS))))
    if mod.has_mod("torch"):
        found.append(PytRunner(InvokeFromScript(TORCH, "load_model")))
    return found


def pictures(batches: int = 2) -> Iterator[dict[str, Any]]:
    """Yield images of random gray values, float32 [8, 1, 8, 8] in 0..1."""
    random = np.random.RandomState(0)
    for _ in range(batches):
        yield {"image": random.rand(8, 1, 8, 8).astype(np.float32)}


def main() -> bool:
    """Return whether all pairs of backends agree."""
    chosen = runners()
    results = Comparator.run(chosen, data_loader=list(pictures()))
    pairs = list(itertools.combinations(range(len(chosen)), 2))
    tolerance = SimpleCompareFunc(rtol=1e-4, atol=1e-4)
    return bool(Comparator.compare_accuracy(results, compare_func=tolerance, comparisons=pairs))


if __name__ == "__main__":
    program.run(main)
