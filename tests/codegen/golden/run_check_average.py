#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --iterations 3 --check-average --compare simple sqnr --check-error-stat max --allow-missing-outputs
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, DataLoader, SimpleCompareFunc, SqnrCompareFunc

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    data_loader = DataLoader(iterations=3)
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(
        Comparator.compare_accuracy(
            results,
            compare_func=[SimpleCompareFunc(check_error_stat="max"), SqnrCompareFunc()],
            check_average=True,
            allow_missing_outputs=True,
        )
    )


if __name__ == "__main__":
    program.run(main)
