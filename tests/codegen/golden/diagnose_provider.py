#!/usr/bin/env python3
"""Find the cause of wrong outputs of identity.onnx.

polygraphy diagnose identity.onnx --onnxrt --providers cuda:use_tf32=0 --intra-op-threads 1
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.diagnose import diagnose

MODEL = "identity.onnx"


def main() -> bool:
    parties = [OnnxrtParty(providers=[("cuda", {"use_tf32": "0"})], threads=1)]
    return diagnose(MODEL, parties, baseline=OnnxrtParty(providers=["cpu"], threads=1, name="cpu"))


if __name__ == "__main__":
    program.run(main)
