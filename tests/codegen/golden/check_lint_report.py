#!/usr/bin/env python3
"""Find the problems of identity.onnx.

polygraphy check lint identity.onnx -o lint.json --seed 3 --providers cpu --input-shapes 'x:[1,1,2,2]'
"""

from polygraphy import program
from polygraphy.check import check_lint
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader


def main() -> bool:
    return check_lint(
        "identity.onnx",
        output="lint.json",
        data_loader=DataLoader(
            seed=3, input_metadata=TensorMetadata().add("x", dtype=None, shape=[1, 1, 2, 2])
        ),
        providers=["cpu"],
    )


if __name__ == "__main__":
    program.run(main)
