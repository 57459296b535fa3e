#!/usr/bin/env python3
"""List the tensors of identity_fp16.onnx.

polygraphy inspect outputs identity_fp16.onnx --names 'x_*' --format json
"""

from polygraphy import program
from polygraphy.inspect import inspect_outputs


def main() -> None:
    inspect_outputs("identity_fp16.onnx", names=["x_*"])


if __name__ == "__main__":
    program.run(main, banner=False, format="json", sources=["identity_fp16.onnx"])
