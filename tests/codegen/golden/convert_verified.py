#!/usr/bin/env python3
"""Convert identity.onnx to an ONNX model.

polygraphy convert identity.onnx -o verified.onnx --opset 13 --fp-to-fp16 --cast-keep-ops Softmax --verify --load-inputs inputs.json --save-external-data
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_opset, convert_to_fp16, onnx_from_path, save_onnx
from polygraphy.comparator import SimpleCompareFunc, StreamingDataLoader
from polygraphy.surgeon import check_model, verify

MODEL = "identity.onnx"


def main() -> bool:
    data_loader = StreamingDataLoader(["inputs.json"])
    model = convert_to_fp16(
        convert_opset(onnx_from_path(MODEL, map_weights=True), opset=13), keep_ops=["Softmax"]
    )
    check_model(model)
    if not verify(
        onnx_from_path(MODEL, map_weights=True),
        model,
        data_loader=data_loader,
        compare_func=SimpleCompareFunc(rtol="auto", atol="auto"),
        advice="polygraphy diagnose identity.onnx --load-inputs inputs.json --fp-to-fp16",
    ):
        return False
    save_onnx(model, path="verified.onnx", external_data_path="")
    return True


if __name__ == "__main__":
    program.run(main, banner=False)
