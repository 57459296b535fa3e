#!/usr/bin/env python3
"""Show the contents of identity.onnx.

polygraphy inspect model identity.onnx --show-weights --mode=full
"""

from polygraphy import program
from polygraphy.inspect import inspect_model


def main() -> None:
    inspect_model("identity.onnx", show=["layers", "attrs", "weights"])


if __name__ == "__main__":
    program.run(main, banner=False)
