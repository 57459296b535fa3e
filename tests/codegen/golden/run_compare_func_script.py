#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --compare-func-script compare.py --postprocess-func-script compare.py:double --iterations 2
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, DataLoader
from polygraphy.mod import import_from_script

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    data_loader = DataLoader(iterations=2)
    results = Comparator.run(runners, data_loader, streaming=True)
    results = Comparator.postprocess(results, import_from_script("compare.py", "double"))
    return bool(
        Comparator.compare_accuracy(
            results, compare_func=import_from_script("compare.py", "compare_outputs")
        )
    )


if __name__ == "__main__":
    program.run(main)
