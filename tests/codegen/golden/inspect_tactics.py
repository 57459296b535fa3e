#!/usr/bin/env python3
"""Show the tactics in replays/good/0.json.

polygraphy inspect tactics replays/good/0.json
"""

from polygraphy import program
from polygraphy.inspect import inspect_tactics


def main() -> None:
    inspect_tactics("replays/good/0.json")


if __name__ == "__main__":
    program.run(main, banner=False)
