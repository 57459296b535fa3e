#!/usr/bin/env python3
"""Find the layers of model.onnx that need higher precision in TensorRT.

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
    SaveEngine,
    SetLayerPrecisions,
    raisable_layers,
)
from polygraphy.comparator import DataLoader
from polygraphy.debug import CheckCommand, Iterations, find_layers_to_raise

MODEL = "model.onnx"
CALIBRATION_CACHE = BytesIO()  # The first build calibrates; all builds use its result.
LOAD_NETWORK = NetworkFromOnnxModel(InferShapes(OnnxFromPath(MODEL)))


def make_engine(path: str, raised: list[str]) -> None:
    # Random numbers. For accurate int8, calibrate on real inputs: --load-inputs.
    data_loader = DataLoader()
    calibrator = Calibrator(data_loader, cache=CALIBRATION_CACHE)
    create_config = CreateConfig(
        fp16=True, int8=True, calibrator=calibrator, precision_constraints="obey"
    )
    raise_layers = SetLayerPrecisions(LOAD_NETWORK, dict.fromkeys(raised, "float16"))
    build_engine = EngineBytesFromNetwork(raise_layers, config=create_config)
    save_engine = SaveEngine(build_engine, path=path)
    save_engine()


def main() -> None:
    iterations = Iterations(
        CheckCommand(["false"]),
        artifact="polygraphy_debug.engine",
        load_replay="replay.json",
        save_replay="replay.json",
    )
    find_layers_to_raise(
        raisable_layers(LOAD_NETWORK), make_engine, iterations, mode="minimal", direction="reverse"
    )


if __name__ == "__main__":
    program.run(main)
