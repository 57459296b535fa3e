#!/usr/bin/env python3
"""Check whether identity.onnx runs in the ONNX reference evaluator and ONNX Runtime.

polygraphy check compatibility identity.onnx --onnx --onnxrt --val-range '[-1,1]'
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.check import check_compatibility
from polygraphy.comparator import DataLoader

MODEL = "identity.onnx"


def main() -> bool:
    runners = {
        "onnx": OnnxReferenceRunner(OnnxFromPath(MODEL)),
        "onnxrt": OnnxrtRunner(SessionFromOnnx(MODEL)),
    }
    return check_compatibility(MODEL, runners, data_loader=DataLoader(val_range=(-1, 1)))


if __name__ == "__main__":
    program.run(main)
