#!/usr/bin/env python3
"""Convert model.pb to an ONNX model.

polygraphy convert model.pb -o model.onnx --opset 13 --fp-to-fp16
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_to_fp16, onnx_from_tf_graph, save_onnx
from polygraphy.backend.tf import GraphFromFrozen
from polygraphy.surgeon import check_model

MODEL = "model.pb"


def main() -> None:
    model = convert_to_fp16(onnx_from_tf_graph(GraphFromFrozen(MODEL), opset=13))
    check_model(model)
    save_onnx(model, path="model.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
