#!/usr/bin/env python3
"""Show the contents of a.engine.

polygraphy inspect model a.engine --plugins a.so --load-runtime libnvinfer_lean.so --show layers
"""

from polygraphy import program
from polygraphy.backend.trt import EngineFromPath, LoadPlugins, LoadRuntime
from polygraphy.inspect import inspect_model

MODEL = "a.engine"


def main() -> None:
    inspect_model(
        LoadPlugins(
            plugins=["a.so"], obj=EngineFromPath(MODEL, runtime=LoadRuntime("libnvinfer_lean.so"))
        ),
        show=["layers"],
    )


if __name__ == "__main__":
    program.run(main, banner=False)
