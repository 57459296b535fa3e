#!/usr/bin/env python3
"""Run identity_fp16.onnx in ONNX Runtime.

polygraphy run identity_fp16.onnx --onnxrt --onnx-outputs 'x_*' y --onnx-exclude-outputs y --graph-optimization-level DISABLE_ALL
"""

from polygraphy import program
from polygraphy.backend.onnx import ModifyOutputs, OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity_fp16.onnx"


def main() -> None:
    load_model = ModifyOutputs(OnnxFromPath(MODEL), outputs=["x_*", "y"], exclude_outputs=["y"])
    runners = [OnnxrtRunner(SessionFromOnnx(load_model, graph_optimization_level="DISABLE_ALL"))]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
