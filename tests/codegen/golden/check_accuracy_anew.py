#!/usr/bin/env python3
"""Check the accuracy results accuracy.json.

polygraphy check accuracy accuracy.json --rtol 1e-4 y:1e-2 --atol 0 --check-error-stat max mean
"""

from polygraphy import program
from polygraphy.check import check_accuracy


def main() -> bool:
    return check_accuracy(
        "accuracy.json",
        rtol={
            "": 1e-4,  # All others.
            "y": 1e-2,
        },
        atol=0.0,
        check_error_stat=("max", "mean"),
    )


if __name__ == "__main__":
    program.run(main)
