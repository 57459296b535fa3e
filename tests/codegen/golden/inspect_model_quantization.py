#!/usr/bin/env python3
"""Show the contents of identity.onnx.

polygraphy inspect model identity.onnx --show quantization
"""

from polygraphy import program
from polygraphy.inspect import inspect_model


def main() -> None:
    inspect_model("identity.onnx", show=["quantization"])


if __name__ == "__main__":
    program.run(main, banner=False)
