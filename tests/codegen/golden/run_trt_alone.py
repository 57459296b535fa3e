#!/usr/bin/env python3
"""Run model.onnx in TensorRT.

polygraphy run model.onnx --trt
"""

from polygraphy import program
from polygraphy.backend.trt import EngineFromNetwork, NetworkFromOnnxPath, TrtRunner
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> None:
    runners = [TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(MODEL)))]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
