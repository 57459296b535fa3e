#!/usr/bin/env python3
"""Run identity.onnx in ONNX Runtime.

polygraphy run --onnxrt identity.onnx --save-inputs inputs --save-outputs outputs --iterations 2
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, DataLoader

MODEL = "identity.onnx"


def main() -> None:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    data_loader = DataLoader(iterations=2)
    results = Comparator.run(
        runners, data_loader, save_inputs_path="inputs", save_outputs_path="outputs", streaming=True
    )
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
