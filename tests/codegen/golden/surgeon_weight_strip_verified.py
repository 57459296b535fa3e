#!/usr/bin/env python3
"""Remove the weights from model.onnx.

polygraphy surgeon weight-strip model.onnx --fp-to-fp16 --verify --model-input-shapes 'input:[1,3,8,8]'
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_to_fp16, onnx_from_path, save_onnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader, SimpleCompareFunc
from polygraphy.surgeon import (
    check_model,
    restore_weights,
    show_edited,
    show_original,
    strip_weights,
    verify,
)

MODEL = "model.onnx"


def main() -> bool:
    data_loader = DataLoader(
        input_metadata=TensorMetadata().add("input", dtype=None, shape=[1, 3, 8, 8])
    )
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = convert_to_fp16(model)
    model = strip_weights(model)
    check_model(model)
    if not verify(
        onnx_from_path(MODEL, map_weights=True),
        restore_weights(model, convert_to_fp16(onnx_from_path(MODEL, map_weights=True))),
        data_loader=data_loader,
        compare_func=SimpleCompareFunc(rtol="auto", atol="auto"),
    ):
        return False
    save_onnx(model, path="model_stripped.onnx")
    show_edited(original, model)
    return True


if __name__ == "__main__":
    program.run(main)
