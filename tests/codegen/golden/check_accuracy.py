#!/usr/bin/env python3
"""Check the accuracy results accuracy.json.

polygraphy check accuracy accuracy.json
"""

from polygraphy import program
from polygraphy.check import check_accuracy


def main() -> bool:
    return check_accuracy("accuracy.json")


if __name__ == "__main__":
    program.run(main)
