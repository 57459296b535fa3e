#!/usr/bin/env python3
"""Find the tactics that only failed builds chose.

polygraphy inspect diff-tactics --dir replays
"""

from polygraphy import program
from polygraphy.inspect import find_bad_tactics


def main() -> None:
    find_bad_tactics(dir="replays")


if __name__ == "__main__":
    program.run(main, banner=False)
