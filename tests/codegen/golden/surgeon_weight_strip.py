#!/usr/bin/env python3
"""Remove the weights from model.onnx.

polygraphy surgeon weight-strip model.onnx --exclude-list names.txt
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, show_edited, show_original, strip_weights

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = strip_weights(model, exclude_list="names.txt")
    check_model(model)
    save_onnx(model, path="model_stripped.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
