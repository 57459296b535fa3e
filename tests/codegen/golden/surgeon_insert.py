#!/usr/bin/env python3
"""Insert a node into identity.onnx.

polygraphy surgeon insert identity.onnx --inputs x --outputs y --op Elu --name elu --attrs alpha=0.5 --shape-inference -o inserted.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import infer_shapes, onnx_from_path, save_onnx
from polygraphy.surgeon import check_model, insert_node, show_edited, show_original

MODEL = "identity.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = infer_shapes(model)
    model = insert_node(
        model, op="Elu", inputs=["x"], outputs=["y"], name="elu", attrs={"alpha": 0.5}
    )
    check_model(model)
    save_onnx(model, path="inserted.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
