#!/usr/bin/env python3
"""List the nodes of model.onnx that an execution provider of ONNX Runtime does not support.

polygraphy inspect capability model.onnx --providers cuda:device_id=1 cpu
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath
from polygraphy.inspect import inspect_capability

MODEL = "model.onnx"


def main() -> bool:
    return inspect_capability(OnnxFromPath(MODEL), providers=[("cuda", {"device_id": "1"}), "cpu"])


if __name__ == "__main__":
    program.run(main, banner=False)
