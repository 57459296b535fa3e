#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --compare simple distance_metrics quality_metrics l2 --rtol 1e-3 --l2-threshold 1e-4 y:1e-3 --psnr-threshold 40 --no-shape-check --save-accuracy-results several.json
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import (
    Comparator,
    CosineSimilarityCompareFunc,
    L2CompareFunc,
    PsnrCompareFunc,
    SimpleCompareFunc,
    SnrCompareFunc,
)

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    verdicts = Comparator.compare_accuracy(
        results,
        compare_func=[
            SimpleCompareFunc(check_shapes=False, rtol=1e-3),
            L2CompareFunc(
                l2_threshold={
                    "": 1e-4,  # All others.
                    "y": 1e-3,
                },
                check_shapes=False,
            ),
            CosineSimilarityCompareFunc(check_shapes=False),
            PsnrCompareFunc(psnr_threshold=40.0, check_shapes=False),
            SnrCompareFunc(check_shapes=False),
        ],
    )
    verdicts.save("several.json")
    return bool(verdicts)


if __name__ == "__main__":
    program.run(main)
