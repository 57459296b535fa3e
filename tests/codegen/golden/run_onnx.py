#!/usr/bin/env python3
"""Run identity.onnx in the ONNX reference evaluator.

polygraphy run identity.onnx --onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.comparator import Comparator

MODEL = "identity.onnx"


def main() -> None:
    runners = [OnnxReferenceRunner(OnnxFromPath(MODEL))]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
