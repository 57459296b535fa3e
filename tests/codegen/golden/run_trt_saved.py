#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --fp16 --builder-optimization-level 5 --save-engine optimized_fp16.engine --save-timing-cache timing.cache --tactic-sources cublas cudnn
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    SaveEngine,
    TrtRunner,
)
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> bool:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(
        fp16=True, tactic_sources=["cublas", "cudnn"], builder_optimization_level=5
    )
    build_engine = EngineFromNetwork(
        load_network, config=create_config, save_timing_cache="timing.cache"
    )
    save_engine = SaveEngine(build_engine, path="optimized_fp16.engine")
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        TrtRunner(save_engine),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
