#!/usr/bin/env python3
"""Compare model.onnx in fp32 (TensorRT), int8 (TensorRT) and a-b (PyTorch).

polygraphy run model.onnx --runner 'fp32=--trt --trt-outputs out' --runner 'int8=--trt --int8 --save-engine int8.plan' --runner 'a-b=--torch net.py:load'
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.pyt import PytRunner
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    ModifyNetworkOutputs,
    NetworkFromOnnxPath,
    SaveEngine,
    TrtRunner,
)
from polygraphy.comparator import Comparator, DataLoader, WithUnmarked

MODEL = "model.onnx"


def main() -> bool:
    # Random numbers. For accurate int8, calibrate on real inputs: --load-inputs.
    data_loader = DataLoader()
    parse_network_fp32 = NetworkFromOnnxPath(MODEL)
    load_network_fp32 = ModifyNetworkOutputs(parse_network_fp32, outputs=["out"])
    build_engine_fp32 = EngineFromNetwork(load_network_fp32)
    calibrator_int8 = Calibrator(data_loader)
    load_network_int8 = NetworkFromOnnxPath(MODEL)
    create_config_int8 = CreateConfig(int8=True, calibrator=calibrator_int8)
    build_engine_int8 = EngineFromNetwork(load_network_int8, config=create_config_int8)
    save_engine_int8 = SaveEngine(build_engine_int8, path="int8.plan")
    runners = [
        WithUnmarked(
            TrtRunner(build_engine_fp32, name="fp32"),
            TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(MODEL)), name="fp32"),
        ),
        TrtRunner(save_engine_int8, name="int8"),
        PytRunner(InvokeFromScript("net.py", "load"), name="a-b"),
    ]
    results = Comparator.run(runners, data_loader, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
