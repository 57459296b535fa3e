#!/usr/bin/env python3
"""Reduce identity.onnx to a part that still fails.

polygraphy debug reduce identity.onnx --model-inputs 'x:[1,1,2,2]' --no-reduce-inputs --fp-to-fp16 --force-fallback-shape-inference --save-external-data --check true
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_to_fp16, onnx_from_path, save_onnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader
from polygraphy.debug import CheckCommand, Iterations, prove_reduction, reduce_model
from polygraphy.surgeon import observe_shapes, override_input_shapes

MODEL = "identity.onnx"


def main() -> None:
    iterations = Iterations(
        CheckCommand(["true"]),
        artifact="polygraphy_debug.onnx",
        results=["identity_reduced.onnx"],
        save_replay="polygraphy_debug_replay.json",
    )
    data_loader = DataLoader(
        input_metadata=TensorMetadata().add("x", dtype=None, shape=[1, 1, 2, 2])
    )
    model = onnx_from_path(MODEL, map_weights=True)
    model = override_input_shapes(model, shapes={"x": [1, 1, 2, 2]})
    model = observe_shapes(model, data_loader=data_loader)
    model = convert_to_fp16(model)
    reduction = reduce_model(model, iterations, reduce_inputs=False, data_loader=data_loader)
    save_onnx(reduction.bad, path="identity_reduced.onnx", external_data_path="")
    prove_reduction(reduction, iterations, "identity_reduced.onnx")


if __name__ == "__main__":
    program.run(main)
