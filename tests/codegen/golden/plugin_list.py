#!/usr/bin/env python3
"""Find the parts of model.onnx that match plugins.

polygraphy plugin list model.onnx --plugin-dir plugins --exclude slow
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.plugin import match_plugins

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    match_plugins(model, "plugins", exclude=["slow"])


if __name__ == "__main__":
    program.run(main, banner=False)
