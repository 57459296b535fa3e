#!/usr/bin/env python3
"""Compare identity_fp16.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity_fp16.onnx --onnxrt --onnx --onnx-outputs *
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxReferenceRunner, modify_outputs, onnx_from_path
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator
from polygraphy.constants import MARK_ALL

MODEL = "identity_fp16.onnx"


def main() -> bool:
    model = modify_outputs(onnx_from_path(MODEL), outputs=MARK_ALL)
    runners = [
        OnnxrtRunner(SessionFromOnnx(model)),
        OnnxReferenceRunner(model),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
