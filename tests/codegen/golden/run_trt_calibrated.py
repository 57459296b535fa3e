#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --int8 --data-loader-script calibration_data.py --calibration-cache int8.cache --calib-base-cls IInt8MinMaxCalibrator --rtol 5e-2
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    TrtRunner,
)
from polygraphy.comparator import Comparator, SimpleCompareFunc

MODEL = "model.onnx"


def main() -> bool:
    data_loader = InvokeFromScript("calibration_data.py", name="load_data")
    calibrator = Calibrator(data_loader, cache="int8.cache", BaseClass="IInt8MinMaxCalibrator")
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(int8=True, calibrator=calibrator)
    build_engine = EngineFromNetwork(load_network, config=create_config)
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        TrtRunner(build_engine),
    ]
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results, compare_func=SimpleCompareFunc(rtol=0.05)))


if __name__ == "__main__":
    program.run(main)
