#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --check-error-stat max mean --rtol 1e-5 y:1e-3 --atol y:1e-2
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
                rtol={
                    "": 1e-5,  # All others.
                    "y": 1e-3,
                },
                atol={"y": 0.01},
                check_error_stat=("max", "mean"),
            ),
        )
    )


if __name__ == "__main__":
    program.run(main)
