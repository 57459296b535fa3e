#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime with outputs.

polygraphy run identity.onnx --onnxrt --load-inputs inputs --load-outputs outputs
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, RunResults, StreamingDataLoader

MODEL = "identity.onnx"


def main() -> bool:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    data_loader = StreamingDataLoader(["inputs"])
    results = Comparator.run(runners, data_loader, streaming=True)
    runs = [
        results,
        RunResults.load_streaming("outputs"),
    ]
    return bool(Comparator.compare_accuracy(runs))


if __name__ == "__main__":
    program.run(main)
