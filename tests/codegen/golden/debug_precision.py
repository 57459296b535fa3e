#!/usr/bin/env python3
"""Find the layers of reduced.onnx that need more precision in TensorRT.

polygraphy debug precision reduced.onnx --golden-outputs onnxrt_outputs.json --mark-all --save-layer-outputs analysis.json
"""

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    ModifyNetworkOutputs,
    NetworkFromOnnxPath,
    SetLayerPrecisions,
    raisable_layers,
    save_engine,
)
from polygraphy.constants import MARK_ALL
from polygraphy.debug import CheckCommand, Iterations, find_layers_to_raise

MODEL = "reduced.onnx"


def make_engine(path: str, raised: list[str]) -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    load_network = ModifyNetworkOutputs(load_network, outputs=MARK_ALL)
    create_config = CreateConfig(fp16=True, precision_constraints="obey")
    load_network = SetLayerPrecisions(load_network, dict.fromkeys(raised, "float32"))
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine(build_engine, path=path)


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    iterations = Iterations(
        CheckCommand(
            [
                "polygraphy",
                "run",
                "polygraphy_debug.engine",
                "--trt",
                "--load-outputs",
                "onnxrt_outputs.json",
                "--save-outputs",
                "analysis.json",
                "--allow-missing-outputs",
            ]
        ),
        artifact="polygraphy_debug.engine",
        results=["analysis.json"],
        save_replay="polygraphy_debug_replay.json",
    )
    find_layers_to_raise(raisable_layers(load_network), make_engine, iterations)


if __name__ == "__main__":
    program.run(main)
