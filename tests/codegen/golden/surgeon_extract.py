#!/usr/bin/env python3
"""Extract a part of identity.onnx.

polygraphy surgeon extract identity.onnx --inputs x:auto:auto --outputs y:auto --verify --seed 2 -o part.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader
from polygraphy.surgeon import check_model, extract, show_edited, show_original, verify

MODEL = "identity.onnx"


def main() -> bool:
    data_loader = DataLoader(seed=2)
    model = onnx_from_path(MODEL, map_weights=True)
    original = show_original(model)
    model = extract(
        model,
        inputs=TensorMetadata().add("x", dtype=None, shape=None),
        outputs=TensorMetadata().add("y", dtype=None, shape=None),
        data_loader=data_loader,
    )
    check_model(model)
    if not verify(onnx_from_path(MODEL, map_weights=True), model, data_loader=data_loader):
        return False
    save_onnx(model, path="part.onnx")
    show_edited(original, model)
    return True


if __name__ == "__main__":
    program.run(main)
