#!/usr/bin/env python3
"""Compare identity_fp16.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity_fp16.onnx --onnxrt --onnx --mark-all --exclude-outputs x_fp16 --validate
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxReferenceRunner, modify_outputs, onnx_from_path
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator
from polygraphy.constants import MARK_ALL

MODEL = "identity_fp16.onnx"


def main() -> bool:
    model = modify_outputs(onnx_from_path(MODEL), outputs=MARK_ALL, exclude_outputs=["x_fp16"])
    runners = [
        OnnxrtRunner(SessionFromOnnx(model)),
        OnnxReferenceRunner(model),
    ]
    results = Comparator.run(runners, streaming=True)
    results = Comparator.validate(results, check_inf=True)
    return bool(Comparator.compare_accuracy(results, allow_missing_outputs=True))


if __name__ == "__main__":
    program.run(main)
