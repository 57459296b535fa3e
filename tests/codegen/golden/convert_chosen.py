#!/usr/bin/env python3
"""Convert model.onnx to an ONNX model.

polygraphy convert model.onnx -o m.onnx --to-bf16 --cast-only-ops MatMul Gemm --cast-only-nodes a --cast-keep-nodes b --cast-io
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_to_bf16, onnx_from_path, save_onnx
from polygraphy.surgeon import check_model

MODEL = "model.onnx"


def main() -> None:
    model = convert_to_bf16(
        onnx_from_path(MODEL, map_weights=True),
        keep_nodes=["b"],
        only_ops=["MatMul", "Gemm"],
        only_nodes=["a"],
        cast_io=True,
    )
    check_model(model)
    save_onnx(model, path="m.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
