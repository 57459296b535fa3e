#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --mark-all
"""

from polygraphy import program
from polygraphy.backend.onnx import modify_outputs, onnx_from_path
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    EngineFromNetwork,
    ModifyNetworkOutputs,
    NetworkFromOnnxModel,
    NetworkFromOnnxPath,
    TrtRunner,
)
from polygraphy.comparator import Comparator, WithUnmarked
from polygraphy.constants import MARK_ALL

MODEL = "model.onnx"


def main() -> bool:
    model = modify_outputs(onnx_from_path(MODEL), outputs=MARK_ALL)
    parse_network = NetworkFromOnnxModel(model)
    load_network = ModifyNetworkOutputs(parse_network, outputs=MARK_ALL)
    build_engine = EngineFromNetwork(load_network)
    runners = [
        WithUnmarked(OnnxrtRunner(SessionFromOnnx(model)), OnnxrtRunner(SessionFromOnnx(MODEL))),
        WithUnmarked(
            TrtRunner(build_engine), TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(MODEL)))
        ),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results, allow_missing_outputs=True))


if __name__ == "__main__":
    program.run(main)
