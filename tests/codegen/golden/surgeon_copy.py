#!/usr/bin/env python3
"""Copy nodes from a correct model into model.onnx.

polygraphy surgeon copy model.onnx --reference right.onnx --nodes conv1 'a b'
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, copy_nodes, show_edited, show_original

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = copy_nodes(model, reference="right.onnx", nodes=["conv1", "a b"])
    check_model(model)
    save_onnx(model, path="model_copied.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
