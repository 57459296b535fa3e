#!/usr/bin/env python3
"""Compare model.pb in TensorFlow and ONNX Runtime.

polygraphy run model.pb --tf --onnxrt --tf-outputs a b --allow-growth --opset 13
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromTfGraph
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.tf import CreateConfig as CreateTfConfig
from polygraphy.backend.tf import GraphFromFrozen, ModifyGraphOutputs, SessionFromGraph, TfRunner
from polygraphy.comparator import Comparator

MODEL = "model.pb"


def main() -> bool:
    load_model = OnnxFromTfGraph(
        ModifyGraphOutputs(GraphFromFrozen(MODEL), outputs=["a", "b"]), opset=13
    )
    runners = [
        TfRunner(
            SessionFromGraph(
                ModifyGraphOutputs(GraphFromFrozen(MODEL), outputs=["a", "b"]),
                config=CreateTfConfig(allow_growth=True),
            )
        ),
        OnnxrtRunner(SessionFromOnnx(load_model)),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
