#!/usr/bin/env python3
"""Find the problems of identity.onnx.

polygraphy check lint identity.onnx
"""

from polygraphy import program
from polygraphy.check import check_lint


def main() -> bool:
    return check_lint("identity.onnx")


if __name__ == "__main__":
    program.run(main)
