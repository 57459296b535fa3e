#!/usr/bin/env python3
"""Compare identity_fp16.onnx with the model identity.onnx.

polygraphy inspect diff identity.onnx identity_fp16.onnx
"""

from polygraphy import program
from polygraphy.inspect import compare_models


def main() -> bool:
    return compare_models(reference="identity.onnx", candidate="identity_fp16.onnx")


if __name__ == "__main__":
    program.run(main)
