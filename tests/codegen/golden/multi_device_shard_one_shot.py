#!/usr/bin/env python3
"""Split model.onnx over several devices.

polygraphy multi-device shard model.onnx --one-shot --cp-type fused --is-causal --k-shuffle 0 2 1 3 --shape-inference --save-external-data -o sharded.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import infer_shapes, onnx_from_path
from polygraphy.multi_device import find_shard_hints, save_shards, shard_model

MODEL = "model.onnx"


def main() -> None:
    model = infer_shapes(onnx_from_path(MODEL, map_weights=True))
    hints = find_shard_hints(model, cp_type="fused", k_shuffle=[0, 2, 1, 3], is_causal=True)
    models = shard_model(model, hints)
    save_shards(models, path="sharded.onnx", external_data_path="")


if __name__ == "__main__":
    program.run(main, banner=False)
