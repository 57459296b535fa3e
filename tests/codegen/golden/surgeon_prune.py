#!/usr/bin/env python3
"""Make the weights of model.onnx 2:4 sparse.

polygraphy surgeon prune model.onnx --ignore-external-data
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, prune_weights, show_edited, show_original

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, ignore_external_data=True, map_weights=True)
    original = show_original(model)
    model = prune_weights(model)
    check_model(model)
    save_onnx(model, path="model_pruned.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
