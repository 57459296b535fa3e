#!/usr/bin/env python3
"""Compare outputs_fp32.json with the reference golden.json.

polygraphy inspect diff golden.json outputs_fp32.json --compare l2 top_k --l2-threshold 1e-3 y:1e-2 --top-k 1 --allow-missing-outputs
"""

from polygraphy import program
from polygraphy.comparator import L2CompareFunc, TopKCompareFunc
from polygraphy.inspect import compare_saved


def main() -> bool:
    return bool(
        compare_saved(
            reference="golden.json",
            candidate="outputs_fp32.json",
            compare_func=[
                L2CompareFunc(
                    l2_threshold={
                        "": 1e-3,  # All others.
                        "y": 1e-2,
                    }
                ),
                TopKCompareFunc(k=1),
            ],
            allow_missing_outputs=True,
        )
    )


if __name__ == "__main__":
    program.run(main)
