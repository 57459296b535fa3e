#!/usr/bin/env python3
"""Compare model.onnx in the plugin references and ONNX Runtime.

polygraphy run model.onnx --pluginref --onnxrt
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.pluginref import PluginRefRunner
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> bool:
    runners = [
        PluginRefRunner(OnnxFromPath(MODEL)),
        OnnxrtRunner(SessionFromOnnx(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
