#!/usr/bin/env python3
"""Run model.onnx in TensorRT.

polygraphy run model.onnx --trt --trt-config-script config.py --trt-cpps config.py:change --load-runtime libnvinfer_lean.so
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.trt import (
    EngineFromNetwork,
    LoadRuntime,
    NetworkFromOnnxPath,
    PostprocessConfig,
    TrtRunner,
)
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = PostprocessConfig(
        InvokeFromScript("config.py", name="load_config"),
        func=InvokeFromScript("config.py", name="change"),
    )
    build_engine = EngineFromNetwork(
        load_network, config=create_config, runtime=LoadRuntime("libnvinfer_lean.so")
    )
    runners = [TrtRunner(build_engine)]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
