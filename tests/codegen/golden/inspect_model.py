#!/usr/bin/env python3
"""Show the contents of identity_fp16.onnx.

polygraphy inspect model identity_fp16.onnx
"""

from polygraphy import program
from polygraphy.inspect import inspect_model


def main() -> None:
    inspect_model("identity_fp16.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
