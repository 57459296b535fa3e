#!/usr/bin/env python3
"""Remove nodes from model.onnx.

polygraphy surgeon prune model.onnx --remove-node-types Identity --verify
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, remove_nodes, show_edited, show_original, verify

MODEL = "model.onnx"


def main() -> bool:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = remove_nodes(model, types=["Identity"])
    check_model(model)
    if not verify(onnx_from_path(MODEL, map_weights=True), model):
        return False
    save_onnx(model, path="model_pruned.onnx")
    show_edited(original, model)
    return True


if __name__ == "__main__":
    program.run(main)
