#!/usr/bin/env python3
"""Check whether saved runs in TensorFlow and ONNX Runtime.

polygraphy check compatibility saved --model-type saved-model --tf --onnxrt
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromTfGraph
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.tf import GraphFromSavedModel, SessionFromGraph, TfRunner
from polygraphy.check import check_compatibility

MODEL = "saved"


def main() -> bool:
    load_model = OnnxFromTfGraph(GraphFromSavedModel(MODEL))
    runners = {
        "tf": TfRunner(SessionFromGraph(GraphFromSavedModel(MODEL))),
        "onnxrt": OnnxrtRunner(SessionFromOnnx(load_model)),
    }
    return check_compatibility(MODEL, runners)


if __name__ == "__main__":
    program.run(main)
