#!/usr/bin/env python3
"""Find out whether identity.onnx would work in fp16.

polygraphy diagnose identity.onnx --fp-to-fp16
"""

from polygraphy import program
from polygraphy.diagnose import diagnose_half

MODEL = "identity.onnx"


def main() -> bool:
    return diagnose_half(MODEL)


if __name__ == "__main__":
    program.run(main)
