#!/usr/bin/env python3
"""Find the parts of folder/model.onnx that match plugins.

polygraphy plugin match folder/model.onnx --plugin-dir plugins --include a b --shape-inference
"""

from polygraphy import program
from polygraphy.backend.onnx import infer_shapes, onnx_from_path
from polygraphy.plugin import match_plugins, save_matches

MODEL = "folder/model.onnx"


def main() -> None:
    model = infer_shapes(onnx_from_path(MODEL, map_weights=True))
    matches = match_plugins(model, "plugins", include=["a", "b"])
    save_matches(matches, "folder/config.yaml")


if __name__ == "__main__":
    program.run(main, banner=False)
