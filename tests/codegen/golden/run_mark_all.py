#!/usr/bin/env python3
"""Compare identity_fp16.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity_fp16.onnx --onnxrt --onnx --mark-all --exclude-outputs x_fp16 --validate
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
    results = Comparator.run_layerwise(make_runners, MODEL, exclude_outputs=["x_fp16"])
    # Lazy: each iteration is checked when it is requested.
    results = Comparator.validate(results, check_inf=True)
    return bool(Comparator.compare_accuracy(results, allow_missing_outputs=True))


if __name__ == "__main__":
    program.run(main)
