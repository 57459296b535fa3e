#!/usr/bin/env python3
"""Convert identity.onnx to a TensorRT engine.

polygraphy convert identity.onnx --int8 --data-loader-script ./data_loader.py --calibration-cache identity_calib.cache -o identity.engine
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    SaveEngine,
)

MODEL = "identity.onnx"


def main() -> None:
    data_loader = InvokeFromScript("./data_loader.py", name="load_data")
    calibrator = Calibrator(data_loader, cache="identity_calib.cache")
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(int8=True, calibrator=calibrator)
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path="identity.engine")
    save_engine()


if __name__ == "__main__":
    program.run(main, banner=False)
