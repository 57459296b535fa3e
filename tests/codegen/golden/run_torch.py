#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and PyTorch (twice).

polygraphy run model.onnx --onnxrt --torch script.py:make --torch script.py --torch-device cuda:1 --torch-compile
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.pyt import PytRunner
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> bool:
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        PytRunner(InvokeFromScript("script.py", "make"), compiled=True, device="cuda:1"),
        PytRunner(InvokeFromScript("script.py", "load_model"), compiled=True, device="cuda:1"),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
