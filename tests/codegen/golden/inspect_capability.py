#!/usr/bin/env python3
"""List the nodes of model.onnx that TensorRT does not support.

polygraphy inspect capability model.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath
from polygraphy.inspect import inspect_capability

MODEL = "model.onnx"


def main() -> bool:
    return inspect_capability(OnnxFromPath(MODEL))


if __name__ == "__main__":
    program.run(main, banner=False)
