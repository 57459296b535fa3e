#!/usr/bin/env python3
"""Fill model.onnx with random weights.

polygraphy surgeon weight-reconstruct model.onnx -o full.onnx --verify --load-inputs inputs.json
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.comparator import StreamingDataLoader
from polygraphy.surgeon import (
    check_model,
    reconstruct_weights,
    show_edited,
    show_original,
    verify_runs,
)

MODEL = "model.onnx"


def main() -> bool:
    data_loader = StreamingDataLoader(["inputs.json"])
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = reconstruct_weights(model, map_weights=True)
    check_model(model)
    if not verify_runs(model, data_loader=data_loader):
        return False
    save_onnx(model, path="full.onnx")
    show_edited(original, model)
    return True


if __name__ == "__main__":
    program.run(main)
