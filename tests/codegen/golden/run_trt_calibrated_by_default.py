#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --int8
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    TrtRunner,
)
from polygraphy.comparator import Comparator, DataLoader

MODEL = "model.onnx"


def main() -> bool:
    # Random numbers. For accurate int8, calibrate on real inputs: --load-inputs.
    data_loader = DataLoader()
    calibrator = Calibrator(data_loader)
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(int8=True, calibrator=calibrator)
    build_engine = EngineFromNetwork(load_network, config=create_config)
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        TrtRunner(build_engine),
    ]
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
