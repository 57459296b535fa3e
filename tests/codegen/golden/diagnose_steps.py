#!/usr/bin/env python3
"""Find the cause of wrong outputs of model.onnx.

polygraphy diagnose model.onnx --onnxrt --steps --state none
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.comparator import StepLoader
from polygraphy.diagnose import diagnose

MODEL = "model.onnx"


def main() -> bool:
    parties = [OnnxrtParty()]
    return diagnose(MODEL, parties, data_loader=StepLoader(MODEL, steps=8, states=[]))


if __name__ == "__main__":
    program.run(main)
