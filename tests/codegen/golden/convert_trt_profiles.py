#!/usr/bin/env python3
"""Convert dynamic_identity.onnx to a TensorRT engine.

polygraphy convert dynamic_identity.onnx -o dynamic_identity.engine --trt-min-shapes 'X:[1,3,28,28]' --trt-opt-shapes 'X:[1,3,28,28]' --trt-max-shapes 'X:[1,3,28,28]' --trt-min-shapes 'X:[1,3,28,28]' --trt-opt-shapes 'X:[4,3,28,28]' --trt-max-shapes 'X:[32,3,28,28]'
"""

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    Profile,
    SaveEngine,
)

MODEL = "dynamic_identity.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(
        profiles=[
            Profile().add("X", min=[1, 3, 28, 28], opt=[1, 3, 28, 28], max=[1, 3, 28, 28]),
            Profile().add("X", min=[1, 3, 28, 28], opt=[4, 3, 28, 28], max=[32, 3, 28, 28]),
        ]
    )
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path="dynamic_identity.engine")
    save_engine()


if __name__ == "__main__":
    program.run(main, banner=False)
