#!/usr/bin/env python3
"""Convert model.onnx to a TensorRT engine.

polygraphy convert model.onnx -o m.plan --exclude-tactics bad.json
"""

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    SaveEngine,
    TacticReplayer,
)

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(algorithm_selector=TacticReplayer(exclude="bad.json"))
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path="m.plan")
    save_engine()


if __name__ == "__main__":
    program.run(main, banner=False)
