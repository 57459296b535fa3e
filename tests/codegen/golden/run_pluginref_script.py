#!/usr/bin/env python3
"""Run model.onnx in the plugin references.

polygraphy run model.onnx --pluginref --plugin-references references.py
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath
from polygraphy.backend.pluginref import PluginRefRunner
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> None:
    runners = [PluginRefRunner(OnnxFromPath(MODEL), references="references.py")]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
