#!/usr/bin/env python3
"""Run identity.onnx in ONNX Runtime.

polygraphy run identity.onnx --onnxrt --providers cpu:use_arena=1,note=a --intra-op-threads 1
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity.onnx"


def main() -> None:
    runners = [
        OnnxrtRunner(
            SessionFromOnnx(MODEL, providers=[("cpu", {"use_arena": "1", "note": "a"})], threads=1)
        )
    ]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
