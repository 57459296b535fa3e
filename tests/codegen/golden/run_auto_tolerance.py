#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --rtol auto --atol 1e-4 y:auto
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
    return bool(
        Comparator.compare_accuracy(
            results,
            compare_func=SimpleCompareFunc(
                rtol="auto",
                atol={
                    "": 1e-4,  # All others.
                    "y": "auto",
                },
            ),
        )
    )


if __name__ == "__main__":
    program.run(main)
