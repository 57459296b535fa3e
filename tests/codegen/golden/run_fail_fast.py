#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --fail-fast --validate
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, SimpleCompareFunc

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    # Lazy: each iteration is checked when it is requested.
    results = Comparator.validate(results, check_inf=True, fail_fast=True)
    return bool(
        Comparator.compare_accuracy(
            results, fail_fast=True, compare_func=SimpleCompareFunc(fail_fast=True)
        )
    )


if __name__ == "__main__":
    program.run(main)
