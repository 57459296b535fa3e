#!/usr/bin/env python3
"""Find the cause of wrong outputs of identity.onnx.

polygraphy diagnose identity.onnx --reference r.onnx --onnxrt --within 0.1 --metric metric.py:drop --save mixed.onnx --budget 30
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.diagnose import diagnose
from polygraphy.mod import import_from_script

MODEL = "identity.onnx"


def main() -> bool:
    parties = [OnnxrtParty()]
    return diagnose(
        MODEL,
        parties,
        reference="r.onnx",
        within=0.1,
        metric=import_from_script("metric.py", "drop"),
        save="mixed.onnx",
        budget=30.0,
    )


if __name__ == "__main__":
    program.run(main)
