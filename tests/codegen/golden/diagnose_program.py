#!/usr/bin/env python3
"""Find the cause of wrong outputs of identity.onnx.

polygraphy diagnose identity.onnx --torch net.pt2 --onnxrt
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.backend.pyt import TorchFromPath, TorchProgram
from polygraphy.diagnose import diagnose

MODEL = "identity.onnx"


def main() -> bool:
    parties = [OnnxrtParty()]
    return diagnose(MODEL, parties, program=TorchProgram(TorchFromPath("net.pt2")))


if __name__ == "__main__":
    program.run(main)
