#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --postprocess top-3 y:top-2,axis=-2 --compare indices --index-tolerance 1 --fail-fast --validate
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, IndicesCompareFunc, TopKPostprocessFunc

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    # Lazy: each iteration is checked when it is requested.
    results = Comparator.validate(results, check_inf=True, fail_fast=True)
    results = Comparator.postprocess(
        results,
        TopKPostprocessFunc(
            {
                "": 3,  # All others.
                "y": (2, -2),
            }
        ),
    )
    return bool(
        Comparator.compare_accuracy(
            results,
            fail_fast=True,
            compare_func=IndicesCompareFunc(index_tolerance=1, fail_fast=True),
        )
    )


if __name__ == "__main__":
    program.run(main)
