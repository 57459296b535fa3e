#!/usr/bin/env python3
"""Run identity.onnx in ONNX Runtime.

polygraphy run identity.onnx --onnxrt --warm-up 2
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity.onnx"


def main() -> None:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    Comparator.run(runners, warm_up=2)


if __name__ == "__main__":
    program.run(main)
