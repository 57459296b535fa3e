#!/usr/bin/env python3
"""Fill model.onnx with random weights.

polygraphy surgeon weight-reconstruct model.onnx -o full.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, reconstruct_weights, show_edited, show_original

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = reconstruct_weights(model, map_weights=True)
    check_model(model)
    save_onnx(model, path="full.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
