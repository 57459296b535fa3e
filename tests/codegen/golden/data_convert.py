#!/usr/bin/env python3
"""Convert inputs.json to converted.

polygraphy data convert inputs.json converted
"""

from polygraphy import program
from polygraphy.data import convert


def main() -> None:
    convert("inputs.json", output="converted")


if __name__ == "__main__":
    program.run(main, banner=False)
