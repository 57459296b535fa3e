#!/usr/bin/env python3
"""Simplify identity.onnx.

polygraphy surgeon sanitize identity.onnx --fold-constants --output clean.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import fold_constants, infer_shapes, onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, show_edited, show_original

MODEL = "identity.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = fold_constants(model)
    model = infer_shapes(model)
    check_model(model)
    save_onnx(model, path="clean.onnx")
    show_edited(original, model, checks_nodes=True)


if __name__ == "__main__":
    program.run(main)
