#!/usr/bin/env python3
"""Reduce identity_fp16.onnx to a part that still fails.

polygraphy debug reduce identity_fp16.onnx --mode linear -o reduced.onnx --min-good good.onnx --load-inputs inputs.json --save-inputs reduced_inputs.json --artifacts polygraphy_debug.onnx --art-dir reduced --fail-code 0 --check polygraphy run polygraphy_debug.onnx --onnxrt --load-inputs reduced_inputs.json
"""

import shlex

from polygraphy import program
from polygraphy.backend.onnx import infer_shapes, onnx_from_path, save_onnx
from polygraphy.comparator import StreamingDataLoader
from polygraphy.debug import CheckCommand, Iterations, prove_reduction, reduce_model

MODEL = "identity_fp16.onnx"


def main() -> None:
    iterations = Iterations(
        CheckCommand(
            shlex.split(
                "polygraphy run polygraphy_debug.onnx --onnxrt --load-inputs reduced_inputs.json"
            ),
            fail_codes=[0],
        ),
        artifact="polygraphy_debug.onnx",
        artifacts=["polygraphy_debug.onnx"],
        artifacts_dir="reduced",
        results=["reduced.onnx", "good.onnx"],
        save_replay="polygraphy_debug_replay.json",
    )
    data_loader = StreamingDataLoader(["inputs.json"])
    model = onnx_from_path(MODEL, map_weights=True)
    model = infer_shapes(model)
    reduction = reduce_model(
        model, iterations, mode="linear", data_loader=data_loader, save_inputs="reduced_inputs.json"
    )
    save_onnx(reduction.bad, path="reduced.onnx")
    if reduction.good is not None:
        save_onnx(reduction.good, path="good.onnx")
    prove_reduction(reduction, iterations, "reduced.onnx")


if __name__ == "__main__":
    program.run(main)
