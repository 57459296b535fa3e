#!/usr/bin/env python3
"""Build model.onnx in TensorRT repeatedly.

polygraphy debug build model.onnx --num-iterations 10 --save-tactics multiple.json
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
from polygraphy.debug import AskUser, CheckCommand, Iterations, repeat

MODEL = "model.onnx"


def make_engine(path: str) -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    create_config = CreateConfig(algorithm_selector=TacticRecorder("multiple.json"))
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path=path)
    save_engine()


def main() -> None:
    iterations = Iterations(
        AskUser(
            otherwise=CheckCommand(
                shlex.split("polygraphy run polygraphy_debug.engine --trt --validate")
            )
        ),
        artifact="polygraphy_debug.engine",
        numbered=["multiple.json"],
    )
    repeat(iterations, until=10, make=make_engine)


if __name__ == "__main__":
    program.run(main)
