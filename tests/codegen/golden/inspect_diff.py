#!/usr/bin/env python3
"""Compare outputs_fp32.json with the reference golden.json.

polygraphy inspect diff golden.json outputs_fp32.json
"""

from polygraphy import program
from polygraphy.inspect import compare_saved


def main() -> bool:
    return bool(compare_saved(reference="golden.json", candidate="outputs_fp32.json"))


if __name__ == "__main__":
    program.run(main)
