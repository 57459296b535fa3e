#!/usr/bin/env python3
"""Take nodes out of model.onnx.

polygraphy surgeon prune model.onnx --remove-node-types CustomOp Dropout
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, remove_nodes

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL)
    model = remove_nodes(model, types=["CustomOp", "Dropout"])
    check_model(model)
    save_onnx(model, path="model_pruned.onnx")


if __name__ == "__main__":
    program.run(main)
