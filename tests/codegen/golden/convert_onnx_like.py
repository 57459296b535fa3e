#!/usr/bin/env python3
"""Convert model.onnx to an image of its TensorRT network.

polygraphy convert model.onnx --convert-to onnx-like-trt-network -o seen.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import save_onnx
from polygraphy.backend.trt import NetworkFromOnnxPath, onnx_like_from_network

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    model = onnx_like_from_network(load_network)
    save_onnx(model, path="seen.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
