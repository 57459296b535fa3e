#!/usr/bin/env python3
"""Convert identity.onnx to an ONNX model.

polygraphy convert identity.onnx --to-bf16 --convert-to onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_to_bf16, onnx_from_path, save_onnx
from polygraphy.surgeon import check_model

MODEL = "identity.onnx"


def main() -> None:
    model = convert_to_bf16(onnx_from_path(MODEL, map_weights=True))
    check_model(model)
    save_onnx(model, path="identity_converted.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
