#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity.onnx --onnxrt --onnx --seed 7 --iterations 3 --val-range '[-1,1]' 'x:[0,5]' --input-shapes 'x:[1,1,2,2]'
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import Comparator, DataLoader

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    data_loader = DataLoader(
        seed=7,
        iterations=3,
        input_metadata=TensorMetadata().add("x", dtype=None, shape=[1, 1, 2, 2]),
        val_range={
            "": (-1, 1),  # All others.
            "x": (0, 5),
        },
    )
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
