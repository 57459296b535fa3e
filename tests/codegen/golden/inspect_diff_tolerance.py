#!/usr/bin/env python3
"""Compare inputs with the reference inputs.json.

polygraphy inspect diff inputs.json inputs --rtol 1e-3 x:1e-2 --atol 1e-3 --fail-fast
"""

from polygraphy import program
from polygraphy.comparator import SimpleCompareFunc
from polygraphy.inspect import compare_saved


def main() -> bool:
    return bool(
        compare_saved(
            reference="inputs.json",
            candidate="inputs",
            compare_func=SimpleCompareFunc(
                rtol={
                    "": 1e-3,  # All others.
                    "x": 1e-2,
                },
                atol=1e-3,
                fail_fast=True,
            ),
            fail_fast=True,
        )
    )


if __name__ == "__main__":
    program.run(main)
