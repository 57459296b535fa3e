#!/usr/bin/env python3
"""Convert model.onnx to a TensorRT engine.

polygraphy convert model.onnx --convert-to trt --fp16 --workspace 2G
"""

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    SaveEngine,
)

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(fp16=True, memory_pool_limits={"workspace": 2 << 30})
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path="model.engine")
    save_engine()


if __name__ == "__main__":
    program.run(main, banner=False)
