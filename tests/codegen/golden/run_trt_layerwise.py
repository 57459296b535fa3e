#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --tf32 --mark-all --memory-budget 512M
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import CreateConfig, EngineFromNetwork, NetworkFromOnnxModel, TrtRunner
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> bool:
    make_runners = [
        lambda model: OnnxrtRunner(SessionFromOnnx(model, memory_arena=False)),
        lambda model: TrtRunner(
            EngineFromNetwork(NetworkFromOnnxModel(model), config=CreateConfig(tf32=True))
        ),
    ]
    results = Comparator.run_layerwise(make_runners, MODEL, memory_budget=512 << 20)
    return bool(Comparator.compare_accuracy(results, allow_missing_outputs=True))


if __name__ == "__main__":
    program.run(main)
