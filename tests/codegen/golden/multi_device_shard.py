#!/usr/bin/env python3
"""Split model.onnx over several devices.

polygraphy multi-device shard model.onnx -s hints.json -o sharded.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.multi_device import load_shard_hints, save_shards, shard_model

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    hints = load_shard_hints("hints.json")
    models = shard_model(model, hints)
    save_shards(models, path="sharded.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
