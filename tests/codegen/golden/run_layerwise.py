#!/usr/bin/env python3
"""Compare identity_fp16.onnx in ONNX Runtime and the ONNX reference evaluator.

polygraphy run identity_fp16.onnx --onnxrt --onnx --onnx-outputs '*' --memory-budget 1K --iterations 2 --save-worst 2 worst_layers.safetensors --save-inputs layer_inputs.json
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, DataLoader

MODEL = "identity_fp16.onnx"


def main() -> bool:
    make_runners = [
        lambda model: OnnxrtRunner(SessionFromOnnx(model, memory_arena=False)),
        OnnxReferenceRunner,
    ]
    data_loader = DataLoader(iterations=2)
    results = Comparator.run_layerwise(
        make_runners, MODEL, data_loader, memory_budget=1024, save_inputs_path="layer_inputs.json"
    )
    return bool(
        Comparator.compare_accuracy(
            results, save_worst=2, save_worst_path="worst_layers.safetensors"
        )
    )


if __name__ == "__main__":
    program.run(main)
