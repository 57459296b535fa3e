#!/usr/bin/env python3
"""Find the layers of model.onnx that need more precision in TensorRT.

polygraphy debug precision model.onnx --shape-inference --fp16 --int8 --mode minimal --dir reverse -p float16 --load-debug-replay replay.json --save-debug-replay replay.json --check false
"""

from io import BytesIO

from polygraphy import program
from polygraphy.backend.onnx import InferShapes, OnnxFromPath
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxModel,
    SetLayerPrecisions,
    raisable_layers,
    save_engine,
)
from polygraphy.comparator import DataLoader
from polygraphy.debug import CheckCommand, Iterations, find_layers_to_raise

MODEL = "model.onnx"
CALIBRATION_CACHE = BytesIO()  # What the first build finds out serves all.


def make_engine(path: str, raised: list[str]) -> None:
    load_model = InferShapes(OnnxFromPath(MODEL))
    # Random numbers. For accurate int8, calibrate on real inputs: --load-inputs.
    data_loader = DataLoader()
    calibrator = Calibrator(data_loader, cache=CALIBRATION_CACHE)
    load_network = NetworkFromOnnxModel(load_model)
    create_config = CreateConfig(
        fp16=True, int8=True, calibrator=calibrator, precision_constraints="obey"
    )
    load_network = SetLayerPrecisions(load_network, dict.fromkeys(raised, "float16"))
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine(build_engine, path=path)


def main() -> None:
    load_model = InferShapes(OnnxFromPath(MODEL))
    load_network = NetworkFromOnnxModel(load_model)
    iterations = Iterations(
        CheckCommand(["false"]),
        artifact="polygraphy_debug.engine",
        load_replay="replay.json",
        save_replay="replay.json",
    )
    find_layers_to_raise(
        raisable_layers(load_network), make_engine, iterations, mode="minimal", direction="reverse"
    )


if __name__ == "__main__":
    program.run(main)
