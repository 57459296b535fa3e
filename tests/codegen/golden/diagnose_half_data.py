#!/usr/bin/env python3
"""Check whether identity.onnx works in bf16.

polygraphy diagnose identity.onnx --to-bf16 --rtol 0.05 --atol 1e-3 --input-shapes 'x:[1,1,2,2]'
"""

from polygraphy import program
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader
from polygraphy.diagnose import diagnose_half

MODEL = "identity.onnx"


def main() -> bool:
    return diagnose_half(
        MODEL,
        dtype="bf16",
        data_loader=DataLoader(
            input_metadata=TensorMetadata().add("x", dtype=None, shape=[1, 1, 2, 2])
        ),
        rtol=0.05,
        atol=1e-3,
    )


if __name__ == "__main__":
    program.run(main)
