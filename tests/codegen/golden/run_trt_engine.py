#!/usr/bin/env python3
"""Compare a.onnx in ONNX Runtime with engines/a.engine.

polygraphy run models/a.onnx --onnxrt --trt-engine engines/a.engine
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import EngineFromPath, TrtRunner
from polygraphy.comparator import Comparator

MODEL = "models/a.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        TrtRunner(EngineFromPath("engines/a.engine")),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
