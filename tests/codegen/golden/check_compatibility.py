#!/usr/bin/env python3
"""Check whether identity.onnx runs in ONNX Runtime.

polygraphy check compatibility identity.onnx --onnxrt
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.check import check_compatibility

MODEL = "identity.onnx"


def main() -> bool:
    runners = {
        "onnxrt": OnnxrtRunner(SessionFromOnnx(MODEL)),
    }
    return check_compatibility(MODEL, runners)


if __name__ == "__main__":
    program.run(main)
