"""Models that ONNX Runtime optimized and saved."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime


def optimize_model(
    model: onnx.ModelProto, folder: Path, level: str = "ORT_ENABLE_EXTENDED"
) -> onnx.ModelProto:
    """Return the graph that ONNX Runtime executes for a model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    made: onnx.ModelProto = onnx.load(folder / "optimized.onnx")
    return made
