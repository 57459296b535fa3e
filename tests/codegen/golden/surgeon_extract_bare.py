#!/usr/bin/env python3
"""Extract a part of model.onnx.

polygraphy surgeon extract model.onnx --inputs input --outputs intermediate
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.common import TensorMetadata
from polygraphy.surgeon import check_model, extract, show_edited, show_original

MODEL = "model.onnx"


def main() -> None:
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = extract(
        model,
        inputs=TensorMetadata().add("input", dtype=None, shape=None),
        outputs=TensorMetadata().add("intermediate", dtype=None, shape=None),
    )
    check_model(model)
    save_onnx(model, path="model_extracted.onnx")
    show_edited(original, model)


if __name__ == "__main__":
    program.run(main)
