#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --mark-all --input-shapes 'x:[2,16]'
"""

from polygraphy import program
from polygraphy.backend.onnx import modify_outputs, onnx_from_path
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    CreateConfig,
    EngineFromNetwork,
    ModifyNetworkOutputs,
    NetworkFromOnnxModel,
    NetworkFromOnnxPath,
    Profile,
    TrtRunner,
)
from polygraphy.common import TensorMetadata
from polygraphy.comparator import Comparator, DataLoader, WithUnmarked
from polygraphy.constants import MARK_ALL

MODEL = "model.onnx"


def main() -> bool:
    model = modify_outputs(onnx_from_path(MODEL), outputs=MARK_ALL)
    parse_network = NetworkFromOnnxModel(model)
    load_network = ModifyNetworkOutputs(parse_network, outputs=MARK_ALL)
    create_config = CreateConfig(
        profiles=[Profile().add("x", min=[2, 16], opt=[2, 16], max=[2, 16])]
    )
    build_engine = EngineFromNetwork(load_network, config=create_config)
    load_unmarked_network = NetworkFromOnnxPath(MODEL)
    build_unmarked = EngineFromNetwork(load_unmarked_network, config=create_config)
    runners = [
        WithUnmarked(OnnxrtRunner(SessionFromOnnx(model)), OnnxrtRunner(SessionFromOnnx(MODEL))),
        WithUnmarked(TrtRunner(build_engine), TrtRunner(build_unmarked)),
    ]
    data_loader = DataLoader(input_metadata=TensorMetadata().add("x", dtype=None, shape=[2, 16]))
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results, allow_missing_outputs=True))


if __name__ == "__main__":
    program.run(main)
