#!/usr/bin/env python3
"""Convert identity.onnx to an ONNX model.

polygraphy convert identity.onnx --fp-to-fp16 -o converted_fp16.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_to_fp16, onnx_from_path, save_onnx
from polygraphy.surgeon import check_model

MODEL = "identity.onnx"


def main() -> None:
    model = convert_to_fp16(onnx_from_path(MODEL, map_weights=True))
    check_model(model)
    save_onnx(model, path="converted_fp16.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
