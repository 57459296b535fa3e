#!/usr/bin/env python3
"""Check the accuracy results accuracy.json.

polygraphy check accuracy accuracy.json --compare simple --check-average --check-error-stat max
"""

from polygraphy import program
from polygraphy.check import check_accuracy


def main() -> bool:
    return check_accuracy(
        "accuracy.json", check_error_stat="max", functions=["simple"], check_average=True
    )


if __name__ == "__main__":
    program.run(main)
