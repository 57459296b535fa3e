#!/usr/bin/env python3
"""Merge the tensors of golden.json into input data.

polygraphy data to-input golden.json -o input.json
"""

from polygraphy import program
from polygraphy.data import merge


def main() -> None:
    merge(["golden.json"], output="input.json")


if __name__ == "__main__":
    program.run(main, banner=False)
