#!/usr/bin/env python3
"""Convert model.onnx to a TensorRT engine.

polygraphy convert model.onnx -o m.plan --compute-capabilities 8.9 12.0
"""

from polygraphy import program
from polygraphy.backend.tensorrt_rtx import CreateConfigRTX
from polygraphy.backend.trt import EngineBytesFromNetwork, NetworkFromOnnxPath, SaveEngine

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfigRTX(compute_capabilities=[(8, 9), (12, 0)])
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path="m.plan")
    save_engine()


if __name__ == "__main__":
    program.run(main, banner=False)
