#!/usr/bin/env python3
"""Compare identity_fp16.onnx in ONNX Runtime with outputs_fp32.json.

polygraphy run identity_fp16.onnx --onnxrt --load-inputs inputs.json --load-outputs outputs_fp32.json --compare l2 --l2-threshold 1e-3
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, L2CompareFunc, RunResults, StreamingDataLoader

MODEL = "identity_fp16.onnx"


def main() -> bool:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    data_loader = StreamingDataLoader(["inputs.json"])
    results = Comparator.run(runners, data_loader, streaming=True)
    runs = [
        results,
        RunResults.load_streaming("outputs_fp32.json"),
    ]
    return bool(Comparator.compare_accuracy(runs, compare_func=L2CompareFunc(l2_threshold=1e-3)))


if __name__ == "__main__":
    program.run(main)
