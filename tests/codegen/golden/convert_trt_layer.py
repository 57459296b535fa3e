#!/usr/bin/env python3
"""Convert model.onnx to a TensorRT engine.

polygraphy convert model.onnx --convert-to trt --int8 --precision-constraints sensitive_layer:fp16
"""

from polygraphy import program
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    SaveEngine,
    SetLayerPrecisions,
)
from polygraphy.comparator import DataLoader

MODEL = "model.onnx"


def main() -> None:
    # Random numbers. For accurate int8, calibrate on real inputs: --load-inputs.
    data_loader = DataLoader()
    calibrator = Calibrator(data_loader)
    parse_network = NetworkFromOnnxPath(MODEL)
    load_network = SetLayerPrecisions(
        parse_network, layer_precisions={"sensitive_layer": "float16"}
    )
    create_config = CreateConfig(
        fp16=True, int8=True, calibrator=calibrator, precision_constraints="obey"
    )
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path="model.engine")
    save_engine()


if __name__ == "__main__":
    program.run(main, banner=False)
