#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --compare ulp top_k bias non_finite error_distribution --ulp-threshold 2 --top-k 1 y:1 --top-k-margin y:1e-3 --top-k-threshold 0.9 --bias-threshold 1e-3 --non-finite-threshold 0 --error-distribution-threshold y:1e-3
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import (
    BiasCompareFunc,
    Comparator,
    ErrorDistributionCompareFunc,
    NonFiniteCompareFunc,
    TopKCompareFunc,
    UlpCompareFunc,
)

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
            compare_func=[
                UlpCompareFunc(ulp_threshold=2.0),
                TopKCompareFunc(
                    agreement_threshold=0.9,
                    k={
                        "": 1,  # All others.
                        "y": 1,
                    },
                    margin={"y": 1e-3},
                ),
                BiasCompareFunc(bias_threshold=1e-3),
                NonFiniteCompareFunc(non_finite_threshold=0),
                ErrorDistributionCompareFunc(error_distribution_threshold={"y": 1e-3}),
            ],
        )
    )


if __name__ == "__main__":
    program.run(main)
