#!/usr/bin/env python3
"""Show the contents of inputs.json.

polygraphy inspect data inputs.json
"""

from polygraphy import program
from polygraphy.inspect import inspect_data


def main() -> None:
    inspect_data("inputs.json")


if __name__ == "__main__":
    program.run(main, banner=False)
