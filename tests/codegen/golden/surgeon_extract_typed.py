#!/usr/bin/env python3
"""Extract a part of model.onnx.

polygraphy surgeon extract model.onnx --inputs 'a:[1,N,-1]:float16' --outputs b:float32 c --force-fallback-shape-inference --model-input-shapes 'input:[1,3,224,224]' --fp-to-fp16
"""

from polygraphy import program
from polygraphy.backend.onnx import convert_to_fp16, onnx_from_path, save_onnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader
from polygraphy.datatype import DataType
from polygraphy.surgeon import check_model, extract, observe_shapes, show_edited, show_original

MODEL = "model.onnx"


def main() -> None:
    data_loader = DataLoader(
        input_metadata=TensorMetadata().add("input", dtype=None, shape=[1, 3, 224, 224])
    )
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = observe_shapes(model, data_loader=data_loader)
    model = extract(
        model,
        inputs=TensorMetadata().add("a", dtype=DataType["float16"], shape=[1, "N", None]),
        outputs=TensorMetadata()
        .add("b", dtype=DataType["float32"], shape=None)
        .add("c", dtype=None, shape=None),
        data_loader=data_loader,
    )
    model = convert_to_fp16(model)
    check_model(model)
    save_onnx(model, path="model_extracted.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
