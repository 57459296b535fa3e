#!/usr/bin/env python3
"""Show the layers whose tactics differ between replays/good/0.json and replays/bad/0.json.

polygraphy debug diff-tactics replays/good/0.json replays/bad/0.json
"""

from polygraphy import program
from polygraphy.inspect import compare_tactics


def main() -> None:
    compare_tactics("replays/good/0.json", "replays/bad/0.json")


if __name__ == "__main__":
    program.run(main, banner=False)
