#!/usr/bin/env python3
"""List the nodes of model.onnx that TensorRT does not support.

polygraphy inspect capability model.onnx --with-partitioning -o parts --save-external-data _weights --external-data-size-threshold 1M --no-save-all-tensors-to-one-file --shape-inference --no-onnxruntime-shape-inference --external-data-dir weights
"""

from polygraphy import program
from polygraphy.backend.onnx import InferShapes, OnnxFromPath
from polygraphy.inspect import inspect_capability

MODEL = "model.onnx"


def main() -> bool:
    return inspect_capability(
        InferShapes(OnnxFromPath(MODEL, external_data_dir="weights"), allow_onnxruntime=False),
        output="parts",
        with_partitioning=True,
        external_data_suffix="_weights",
        size_threshold=1 << 20,
        all_tensors_to_one_file=False,
    )


if __name__ == "__main__":
    program.run(main, banner=False)
