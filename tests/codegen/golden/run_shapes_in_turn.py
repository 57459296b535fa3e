#!/usr/bin/env python3
"""Run identity.onnx in ONNX Runtime.

polygraphy run identity.onnx --onnxrt --input-shapes 'x:[1,1,2,2]' 'x:[1,1,2,2]' --iterations 3
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import Comparator, DataLoader

MODEL = "identity.onnx"


def main() -> None:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    data_loader = DataLoader(
        iterations=3,
        input_metadata=[
            TensorMetadata().add("x", dtype=None, shape=[1, 1, 2, 2]),
            TensorMetadata().add("x", dtype=None, shape=[1, 1, 2, 2]),
        ],
    )
    results = Comparator.run(runners, data_loader, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
