#!/usr/bin/env python3
"""Run identity_fp16.onnx in ONNX Runtime.

polygraphy run identity_fp16.onnx --onnxrt --onnx-outputs-by-type Cast --shape-inference --no-onnxruntime-shape-inference --save-onnx casts.onnx --save-external-data --external-data-size-threshold 1K --no-save-all-tensors-to-one-file
"""

from polygraphy import program
from polygraphy.backend.onnx import InferShapes, ModifyOutputs, OnnxFromPath, SaveOnnx
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity_fp16.onnx"


def main() -> None:
    load_model = SaveOnnx(
        ModifyOutputs(
            InferShapes(OnnxFromPath(MODEL), allow_onnxruntime=False), mark_types=["Cast"]
        ),
        path="casts.onnx",
        external_data_path="",
        size_threshold=1024,
        all_tensors_to_one_file=False,
    )
    runners = [OnnxrtRunner(SessionFromOnnx(load_model))]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
