#!/usr/bin/env python3
"""Find the cause of wrong outputs of identity.onnx.

polygraphy diagnose identity.onnx --runner cpu=--onnxrt --runner 'cuda=--onnxrt --providers cuda:use_tf32=0' --runner 'f32=--openvino --openvino-precision f32'
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.backend.openvino import OpenvinoParty
from polygraphy.diagnose import diagnose

MODEL = "identity.onnx"


def main() -> bool:
    parties = [
        OnnxrtParty(name="cpu"),
        OnnxrtParty(providers=[("cuda", {"use_tf32": "0"})], name="cuda"),
        OpenvinoParty(precision_hint="f32", name="f32"),
    ]
    return diagnose(MODEL, parties)


if __name__ == "__main__":
    program.run(main)
