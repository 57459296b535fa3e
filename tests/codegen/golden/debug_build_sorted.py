#!/usr/bin/env python3
"""Build identity.onnx in TensorRT repeatedly.

polygraphy debug build identity.onnx --fp16 --save-tactics replay.json --artifacts-dir replays --artifacts replay.json --until=10 --check polygraphy run polygraphy_debug.engine --trt --load-outputs golden.json
"""

import shlex

from polygraphy import program
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    SaveEngine,
    TacticRecorder,
)
from polygraphy.debug import CheckCommand, Iterations, repeat

MODEL = "identity.onnx"


def make_engine(path: str) -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(fp16=True, algorithm_selector=TacticRecorder("replay.json"))
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path=path)
    save_engine()


def main() -> None:
    iterations = Iterations(
        CheckCommand(
            shlex.split("polygraphy run polygraphy_debug.engine --trt --load-outputs golden.json")
        ),
        artifact="polygraphy_debug.engine",
        artifacts=["replay.json"],
        artifacts_dir="replays",
    )
    repeat(iterations, until=10, make=make_engine)


if __name__ == "__main__":
    program.run(main)
