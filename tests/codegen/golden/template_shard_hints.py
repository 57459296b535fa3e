#!/usr/bin/env python3
"""Compute how to split model.onnx over several devices.

polygraphy template shard-hints model.onnx -o hints.json --i-idx 1 --o-idx 1 --k-idx 3 --v-idx 2 --nb-rank 4 --no-suggest-io --groups 0 1 --ignore-external-data
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.multi_device import find_shard_hints, save_shard_hints

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, ignore_external_data=True, map_weights=True)
    hints = find_shard_hints(
        model, nb_rank=4, groups=[0, 1], suggest_io=False, i_idx=1, o_idx=1, k_idx=3, v_idx=2
    )
    save_shard_hints(hints, "hints.json")


if __name__ == "__main__":
    program.run(main, banner=False)
