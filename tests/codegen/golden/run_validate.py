#!/usr/bin/env python3
"""Run identity_fp16.onnx in ONNX Runtime.

polygraphy run --onnxrt identity_fp16.onnx --validate
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity_fp16.onnx"


def main() -> None:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    results = Comparator.run(runners, streaming=True)
    # Lazy: each iteration is checked when it is requested.
    results = Comparator.validate(results, check_inf=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
