#!/usr/bin/env python3
"""Compare identity.onnx in ONNX Runtime (twice).

polygraphy run identity.onnx --onnxrt --onnxrt --mark-all --memory-budget 2G --fp-to-fp16 --save-error-by-depth layers.svg --save-worst 1
"""

from polygraphy import program
from polygraphy.backend.onnx import ConvertToFp16, OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "identity.onnx"


def main() -> bool:
    make_runners = [
        lambda model: OnnxrtRunner(SessionFromOnnx(model, memory_arena=False)),
        lambda model: OnnxrtRunner(SessionFromOnnx(model, memory_arena=False)),
    ]
    results = Comparator.run_layerwise(
        make_runners, ConvertToFp16(OnnxFromPath(MODEL)), memory_budget=2 << 30
    )
    return bool(
        Comparator.compare_accuracy(
            results, allow_missing_outputs=True, save_worst=1, save_error_by_depth="layers.svg"
        )
    )


if __name__ == "__main__":
    program.run(main)
