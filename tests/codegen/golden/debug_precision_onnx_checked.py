#!/usr/bin/env python3
"""Find the nodes of identity.onnx that must stay in fp32.

polygraphy debug precision identity.onnx --onnxrt --no-remove-intermediate --check polygraphy run polygraphy_debug.onnx --onnx
"""

import shlex

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.debug import CheckCommand, Iterations, find_nodes_to_keep

MODEL = "identity.onnx"


def main() -> None:
    iterations = Iterations(
        CheckCommand(shlex.split("polygraphy run polygraphy_debug.onnx --onnx")),
        artifact="polygraphy_debug.onnx",
        keep_artifact=True,
        save_replay="polygraphy_debug_replay.json",
    )
    model = onnx_from_path(MODEL)
    find_nodes_to_keep(model, MODEL, iterations=iterations)


if __name__ == "__main__":
    program.run(main)
