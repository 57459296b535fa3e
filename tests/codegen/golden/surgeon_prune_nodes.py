#!/usr/bin/env python3
"""Remove nodes from model.onnx.

polygraphy surgeon prune model.onnx --remove-node-types CustomOp Dropout
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, remove_nodes, show_edited, show_original

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = remove_nodes(model, types=["CustomOp", "Dropout"])
    check_model(model)
    save_onnx(model, path="model_pruned.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
