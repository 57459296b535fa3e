#!/usr/bin/env python3
"""Compare model.onnx in TensorRT (twice).

polygraphy run model.onnx --trt --trt --save-tactics tactics.json
"""

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    TacticRecorder,
    TrtRunner,
)
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> bool:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(algorithm_selector=TacticRecorder("tactics.json"))
    build_engine = EngineFromNetwork(load_network, config=create_config)
    runners = [
        TrtRunner(build_engine),
        TrtRunner(build_engine),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
