#!/usr/bin/env python3
"""Check whether identity.onnx works in fp16.

polygraphy diagnose identity.onnx --fp-to-fp16
"""

from polygraphy import program
from polygraphy.diagnose import diagnose_half

MODEL = "identity.onnx"


def main() -> bool:
    return diagnose_half(MODEL)


if __name__ == "__main__":
    program.run(main)
