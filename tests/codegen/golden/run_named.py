#!/usr/bin/env python3
"""Compare identity.onnx in plain (ONNX Runtime), usual (ONNX Runtime) and the ONNX reference evaluator.

polygraphy run identity.onnx --runner 'plain=--onnxrt --graph-optimization-level DISABLE_ALL' --runner usual=--onnxrt --onnx --intra-op-threads 1
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(
            SessionFromOnnx(MODEL, graph_optimization_level="DISABLE_ALL", threads=1), name="plain"
        ),
        OnnxrtRunner(SessionFromOnnx(MODEL, threads=1), name="usual"),
        OnnxReferenceRunner(OnnxFromPath(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
