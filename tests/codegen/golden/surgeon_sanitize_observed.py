#!/usr/bin/env python3
"""Simplify model.onnx.

polygraphy surgeon sanitize model.onnx --force-fallback-shape-inference --load-inputs inputs.json --outputs '*' -o clean.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import modify_outputs, onnx_from_path, save_onnx
from polygraphy.comparator import StreamingDataLoader
from polygraphy.constants import MARK_ALL
from polygraphy.surgeon import check_model, observe_shapes, show_edited, show_original

MODEL = "model.onnx"


def main() -> None:
    data_loader = StreamingDataLoader(["inputs.json"])
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = modify_outputs(model, outputs=MARK_ALL)
    model = observe_shapes(model, data_loader=data_loader)
    check_model(model)
    save_onnx(model, path="clean.onnx")
    show_edited(original, model, checks_nodes=True)


if __name__ == "__main__":
    program.run(main)
