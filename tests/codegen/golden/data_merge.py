#!/usr/bin/env python3
"""Merge the tensors of inputs.json and golden.json into input data.

polygraphy data merge inputs.json golden.json -o merged.json
"""

from polygraphy import program
from polygraphy.data import merge


def main() -> None:
    merge(["inputs.json", "golden.json"], output="merged.json")


if __name__ == "__main__":
    program.run(main, banner=False)
