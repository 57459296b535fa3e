#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --fp16 --rtol 1e-3
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import CreateConfig, EngineFromNetwork, NetworkFromOnnxPath, TrtRunner
from polygraphy.comparator import Comparator, SimpleCompareFunc

MODEL = "model.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(MODEL), config=CreateConfig(fp16=True))),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results, compare_func=SimpleCompareFunc(rtol=1e-3)))


if __name__ == "__main__":
    program.run(main)
