#!/usr/bin/env python3
"""Convert model.onnx to a TensorRT engine.

polygraphy convert model.onnx --convert-to trt --trt-max-shapes 'input:[4,3,224,224]'
"""

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    Profile,
    SaveEngine,
)

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(
        profiles=[Profile().add("input", opt=[4, 3, 224, 224], max=[4, 3, 224, 224])]
    )
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path="model.engine")
    save_engine()


if __name__ == "__main__":
    program.run(main, banner=False)
