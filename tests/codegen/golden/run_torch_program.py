#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and PyTorch.

polygraphy run model.onnx --onnxrt --torch model.pt2 --mark-all
"""

from polygraphy import program
from polygraphy.backend.onnx import ModifyOutputs, OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.pyt import PytRunner, TorchFromPath
from polygraphy.comparator import Comparator, WithUnmarked
from polygraphy.constants import MARK_ALL

MODEL = "model.onnx"


def main() -> bool:
    load_model = ModifyOutputs(OnnxFromPath(MODEL), outputs=MARK_ALL)
    runners = [
        WithUnmarked(
            OnnxrtRunner(SessionFromOnnx(load_model)), OnnxrtRunner(SessionFromOnnx(MODEL))
        ),
        PytRunner(TorchFromPath("model.pt2"), output_names=MARK_ALL),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results, allow_missing_outputs=True))


if __name__ == "__main__":
    program.run(main)
