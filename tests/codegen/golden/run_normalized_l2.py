#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --compare normalized_l2 --normalized-l2-threshold 1e-4 y:1e-3
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, NormalizedL2CompareFunc

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(
        Comparator.compare_accuracy(
            results,
            compare_func=NormalizedL2CompareFunc(
                normalized_l2_threshold={
                    "": 1e-4,  # All others.
                    "y": 1e-3,
                }
            ),
        )
    )


if __name__ == "__main__":
    program.run(main)
