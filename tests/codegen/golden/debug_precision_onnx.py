#!/usr/bin/env python3
"""Find the nodes of identity.onnx that must stay in fp32.

polygraphy debug precision identity.onnx --onnxrt --bf16 --rtol 0.05 --atol 1e-3 --seed 7
"""

from polygraphy import program
from polygraphy.backend.onnx import onnx_from_path
from polygraphy.comparator import DataLoader
from polygraphy.debug import find_nodes_to_keep

MODEL = "identity.onnx"


def main() -> None:
    data_loader = DataLoader(seed=7)
    model = onnx_from_path(MODEL)
    find_nodes_to_keep(model, MODEL, dtype="bf16", data_loader=data_loader, rtol=0.05, atol=1e-3)


if __name__ == "__main__":
    program.run(main)
