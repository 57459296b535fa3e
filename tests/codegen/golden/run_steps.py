#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run model.onnx --onnxrt --onnx --steps 12 --prompt 3 --state hn:h0 --tokens tokens.txt
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, StepLoader

MODEL = "model.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    data_loader = StepLoader(MODEL, steps=12, prompt=3, states=["hn:h0"], tokens="tokens.txt")
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
