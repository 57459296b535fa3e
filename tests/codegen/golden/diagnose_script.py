#!/usr/bin/env python3
"""Find the cause of wrong outputs of identity.onnx.

polygraphy diagnose identity.onnx --torch net.py:load_model --onnx
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.onnx import OnnxParty
from polygraphy.backend.pyt import TorchProgram
from polygraphy.diagnose import diagnose

MODEL = "identity.onnx"


def main() -> bool:
    parties = [OnnxParty()]
    return diagnose(MODEL, parties, program=TorchProgram(InvokeFromScript("net.py", "load_model")))


if __name__ == "__main__":
    program.run(main)
