#!/usr/bin/env python3
"""Compare outputs_fp32.json with the reference golden.json.

polygraphy inspect diff golden.json outputs_fp32.json --compare-func-script compare.py
"""

from polygraphy import program
from polygraphy.inspect import compare_saved
from polygraphy.mod import import_from_script


def main() -> bool:
    return bool(
        compare_saved(
            reference="golden.json",
            candidate="outputs_fp32.json",
            compare_func=import_from_script("compare.py", "compare_outputs"),
        )
    )


if __name__ == "__main__":
    program.run(main)
