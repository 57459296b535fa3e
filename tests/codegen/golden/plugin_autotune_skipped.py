#!/usr/bin/env python3
"""Find the parts of model.onnx that match plugins.

polygraphy plugin autotune model.onnx --plugin-dir plugins --skip-autotuning --save-config-yaml --include a
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.plugin import match_plugins, save_matches

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    matches = match_plugins(model, "plugins", include=["a"])
    save_matches(matches, "config.yaml")


if __name__ == "__main__":
    program.run(main, banner=False)
