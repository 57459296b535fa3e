#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --fp16 --steps 12 --first-model prompt.onnx
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import CreateConfig, EngineFromNetwork, NetworkFromOnnxPath, TrtRunner
from polygraphy.comparator import Comparator, StepLoader, WithFirstModel

MODEL = "model.onnx"


def main() -> bool:
    data_loader = StepLoader(MODEL, steps=12, first_model="prompt.onnx")
    runners = [
        WithFirstModel(
            OnnxrtRunner(SessionFromOnnx(MODEL)), OnnxrtRunner(SessionFromOnnx("prompt.onnx"))
        ),
        WithFirstModel(
            TrtRunner(
                EngineFromNetwork(
                    NetworkFromOnnxPath(MODEL),
                    config=CreateConfig(fp16=True, profiles=data_loader.profiles()),
                )
            ),
            TrtRunner(
                EngineFromNetwork(
                    NetworkFromOnnxPath("prompt.onnx"),
                    config=CreateConfig(fp16=True, profiles=data_loader.profiles(first_model=True)),
                )
            ),
        ),
    ]
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
