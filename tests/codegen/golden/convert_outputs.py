#!/usr/bin/env python3
"""Convert identity_fp16.onnx to an ONNX model.

polygraphy convert identity_fp16.onnx -o all.onnx --mark-all --exclude-outputs x_fp16 --shape-inference --no-onnxruntime-shape-inference --save-external-data weights.data
"""

from polygraphy import program
from polygraphy.backend.onnx import infer_shapes, modify_outputs, onnx_from_path, save_onnx
from polygraphy.constants import MARK_ALL
from polygraphy.surgeon import check_model

MODEL = "identity_fp16.onnx"


def main() -> None:
    model = modify_outputs(
        infer_shapes(onnx_from_path(MODEL, map_weights=True), allow_onnxruntime=False),
        outputs=MARK_ALL,
        exclude_outputs=["x_fp16"],
    )
    check_model(model)
    save_onnx(model, path="all.onnx", external_data_path="weights.data")


if __name__ == "__main__":
    program.run(main, banner=False)
