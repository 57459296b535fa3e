#!/usr/bin/env python3
"""Find the layers of reduced.onnx that need higher precision in TensorRT.

polygraphy debug precision reduced.onnx --golden-outputs onnxrt_outputs.json --mark-all --save-layer-outputs analysis.json
"""

import shlex

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    ModifyNetworkOutputs,
    NetworkFromOnnxPath,
    SaveEngine,
    SetLayerPrecisions,
    raisable_layers,
)
from polygraphy.constants import MARK_ALL
from polygraphy.debug import CheckCommand, Iterations, find_layers_to_raise

MODEL = "reduced.onnx"
LOAD_NETWORK = NetworkFromOnnxPath(MODEL)


def make_engine(path: str, raised: list[str]) -> None:
    load_network = ModifyNetworkOutputs(LOAD_NETWORK, outputs=MARK_ALL)
    create_config = CreateConfig(fp16=True, precision_constraints="obey")
    raise_layers = SetLayerPrecisions(load_network, dict.fromkeys(raised, "float32"))
    build_engine = EngineBytesFromNetwork(raise_layers, config=create_config)
    save_engine = SaveEngine(build_engine, path=path)
    save_engine()


def main() -> None:
    iterations = Iterations(
        CheckCommand(
            shlex.split(
                "polygraphy run polygraphy_debug.engine --trt --load-outputs onnxrt_outputs.json --save-outputs analysis.json --allow-missing-outputs"
            )
        ),
        artifact="polygraphy_debug.engine",
        results=["analysis.json"],
        save_replay="polygraphy_debug_replay.json",
    )
    find_layers_to_raise(raisable_layers(LOAD_NETWORK), make_engine, iterations)


if __name__ == "__main__":
    program.run(main)
