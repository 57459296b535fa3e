#!/usr/bin/env python3
"""Run identity_fp16.onnx in the ONNX reference evaluator.

polygraphy run identity_fp16.onnx --onnx --shape-inference
"""

from polygraphy import program
from polygraphy.backend.onnx import InferShapes, OnnxFromPath, OnnxReferenceRunner
from polygraphy.comparator import Comparator

MODEL = "identity_fp16.onnx"


def main() -> None:
    load_model = InferShapes(OnnxFromPath(MODEL))
    runners = [OnnxReferenceRunner(load_model)]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
