#!/usr/bin/env python3
"""Reduce identity.onnx to a part that still fails.

polygraphy debug reduce identity.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import infer_shapes, onnx_from_path, save_onnx
from polygraphy.debug import AskUser, Iterations, prove_reduction, reduce_model

MODEL = "identity.onnx"


def main() -> None:
    iterations = Iterations(
        AskUser(),
        artifact="polygraphy_debug.onnx",
        results=["identity_reduced.onnx"],
        save_replay="polygraphy_debug_replay.json",
    )
    model = onnx_from_path(MODEL, map_weights=True)
    model = infer_shapes(model)
    reduction = reduce_model(model, iterations)
    save_onnx(reduction.bad, path="identity_reduced.onnx")
    prove_reduction(reduction, iterations, "identity_reduced.onnx")


if __name__ == "__main__":
    program.run(main)
