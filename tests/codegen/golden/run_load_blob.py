#!/usr/bin/env python3
"""Run identity.onnx in ONNX Runtime.

polygraphy run identity.onnx --onnxrt --load-inputs blobs
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, StreamingDataLoader

MODEL = "identity.onnx"


def main() -> None:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    data_loader = StreamingDataLoader(["blobs"])
    results = Comparator.run(runners, data_loader, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
