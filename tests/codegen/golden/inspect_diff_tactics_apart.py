#!/usr/bin/env python3
"""Find the tactics that only failed builds chose.

polygraphy inspect diff-tactics --good replays/good --bad replays/bad/0.json --log-file tactics.log
"""

from polygraphy import program
from polygraphy.inspect import find_bad_tactics
from polygraphy.logger import G_LOGGER


def main() -> None:
    find_bad_tactics(good="replays/good", bad="replays/bad/0.json")


if __name__ == "__main__":
    G_LOGGER.log_file = "tactics.log"
    program.run(main, banner=False)
