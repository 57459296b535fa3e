#!/usr/bin/env python3
"""Compare model.onnx in ONNX Runtime and TensorRT.

polygraphy run model.onnx --onnxrt --trt --trt-min-shapes 'input:[1,3,224,224]' --trt-opt-shapes 'input:[4,3,224,224]' --trt-max-shapes 'input:[8,3,224,224]' --input-shapes 'input:[2,3,224,224]' 'input:[6,3,224,224]' --iterations 10
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    Profile,
    TrtRunner,
)
from polygraphy.common import TensorMetadata
from polygraphy.comparator import Comparator, DataLoader

MODEL = "model.onnx"


def main() -> bool:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(
        profiles=[
            Profile().add("input", min=[1, 3, 224, 224], opt=[4, 3, 224, 224], max=[8, 3, 224, 224])
        ]
    )
    build_engine = EngineFromNetwork(load_network, config=create_config)
    runners = [
        OnnxrtRunner(SessionFromOnnx(MODEL)),
        TrtRunner(build_engine),
    ]
    data_loader = DataLoader(
        iterations=10,
        input_metadata=[
            TensorMetadata().add("input", dtype=None, shape=[2, 3, 224, 224]),
            TensorMetadata().add("input", dtype=None, shape=[6, 3, 224, 224]),
        ],
    )
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
