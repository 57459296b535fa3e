#!/usr/bin/env python3
"""Compare identity_fp16.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity_fp16.onnx --onnxrt --onnx --onnx-outputs '*'
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity_fp16.onnx"


def main() -> bool:
    make_runners = [
        lambda model: OnnxrtRunner(SessionFromOnnx(model, memory_arena=False)),
        OnnxReferenceRunner,
    ]
    results = Comparator.run_layerwise(make_runners, MODEL)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
