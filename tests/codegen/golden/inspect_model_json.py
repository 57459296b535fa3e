#!/usr/bin/env python3
"""Show the contents of identity.onnx and identity_fp16.onnx.

polygraphy inspect model identity.onnx identity_fp16.onnx --format json --stats --list-unbounded-dds --shape-inference --no-onnxruntime-shape-inference --model-type onnx
"""

from polygraphy import program
from polygraphy.inspect import inspect_model


def main() -> None:
    inspect_model(
        "identity.onnx",
        "identity_fp16.onnx",
        stats=True,
        list_unbounded_dds=True,
        model_type="onnx",
        infer_shapes=True,
        allow_onnxruntime=False,
    )


if __name__ == "__main__":
    program.run(main, banner=False, format="json")
