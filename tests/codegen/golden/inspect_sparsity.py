#!/usr/bin/env python3
"""Check which weights of identity.onnx are 2:4 sparse.

polygraphy inspect sparsity identity.onnx --ignore-external-data
"""

from polygraphy import program
from polygraphy.inspect import inspect_sparsity


def main() -> None:
    inspect_sparsity("identity.onnx", ignore_external_data=True)


if __name__ == "__main__":
    program.run(main)
