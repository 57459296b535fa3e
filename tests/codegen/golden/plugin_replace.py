#!/usr/bin/env python3
"""Replace parts of model.onnx with plugins.

polygraphy plugin replace model.onnx --plugin-dir plugins --config chosen.yaml -o fused.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.plugin import load_matches, replace_plugins
from polygraphy.surgeon import check_model

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    matches = load_matches("chosen.yaml")
    model = replace_plugins(model, "plugins", matches)
    check_model(model)
    save_onnx(model, path="fused.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
