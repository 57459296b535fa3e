#!/usr/bin/env python3
"""Convert model.onnx to a TensorRT engine.

polygraphy convert model.onnx --convert-to trt --trt-max-shapes input:[4,3,224,224]
"""

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    NetworkFromOnnxPath,
    Profile,
    engine_bytes_from_network,
    save_engine,
)

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(
        profiles=[Profile().add("input", opt=[4, 3, 224, 224], max=[4, 3, 224, 224])]
    )
    engine = engine_bytes_from_network(load_network, config=create_config)
    save_engine(engine, path="model.engine")


if __name__ == "__main__":
    program.run(main, banner=False)
