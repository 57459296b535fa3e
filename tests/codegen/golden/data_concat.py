#!/usr/bin/env python3
"""Concatenate the iterations of inputs.json and inputs.

polygraphy data concat inputs.json inputs -o more_inputs.json
"""

from polygraphy import program
from polygraphy.data import concat


def main() -> None:
    concat(["inputs.json", "inputs"], output="more_inputs.json")


if __name__ == "__main__":
    program.run(main, banner=False)
