#!/usr/bin/env python3
"""Run huge_model.onnx in TensorRT.

polygraphy run huge_model.onnx --trt --weight-streaming --weight-streaming-budget 50% --strongly-typed --refittable --pool-limit workspace:4G dla_local_dram:1G
"""

from polygraphy import program
from polygraphy.backend.trt import CreateConfig, EngineFromNetwork, NetworkFromOnnxPath, TrtRunner
from polygraphy.comparator import Comparator

MODEL = "huge_model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL, strongly_typed=True)
    create_config = CreateConfig(
        memory_pool_limits={"workspace": 4 << 30, "dla_local_dram": 1 << 30},
        refittable=True,
        weight_streaming=True,
    )
    build_engine = EngineFromNetwork(load_network, config=create_config)
    runners = [TrtRunner(build_engine, weight_streaming_percent=50.0)]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
