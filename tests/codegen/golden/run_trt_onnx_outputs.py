#!/usr/bin/env python3
"""Run model.onnx in TensorRT.

polygraphy run model.onnx --trt --onnx-outputs a b --fp-to-fp16
"""

from polygraphy import program
from polygraphy.backend.onnx import ConvertToFp16, ModifyOutputs, OnnxFromPath
from polygraphy.backend.trt import EngineFromNetwork, NetworkFromOnnxModel, TrtRunner
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> None:
    load_model = ConvertToFp16(ModifyOutputs(OnnxFromPath(MODEL), outputs=["a", "b"]))
    runners = [TrtRunner(EngineFromNetwork(NetworkFromOnnxModel(load_model)))]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
