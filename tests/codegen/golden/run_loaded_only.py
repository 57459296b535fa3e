#!/usr/bin/env python3
"""Compare the saved outputs outputs_fp32.json and golden.json.

polygraphy run --load-outputs outputs_fp32.json golden.json --rtol 1e-2
"""

from polygraphy import program
from polygraphy.comparator import Comparator, RunResults, SimpleCompareFunc


def main() -> bool:
    runs = [
        RunResults.load_streaming("outputs_fp32.json"),
        RunResults.load_streaming("golden.json"),
    ]
    return bool(Comparator.compare_accuracy(runs, compare_func=SimpleCompareFunc(rtol=0.01)))


if __name__ == "__main__":
    program.run(main)
