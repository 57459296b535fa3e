#!/usr/bin/env python3
"""Check the accuracy results accuracy.json.

polygraphy check accuracy accuracy.json --psnr-threshold 40 y:30
"""

from polygraphy import program
from polygraphy.check import check_accuracy


def main() -> bool:
    return check_accuracy(
        "accuracy.json",
        thresholds={
            "psnr": {
                "": 40.0,  # All others.
                "y": 30.0,
            }
        },
    )


if __name__ == "__main__":
    program.run(main)
