#!/usr/bin/env python3
"""Find plugins that make model.onnx faster.

polygraphy plugin autotune model.onnx --plugin-dir plugins -o tuned.onnx
"""

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, save_onnx
from polygraphy.backend.trt import EngineFromNetwork, NetworkFromOnnxModel, TrtRunner
from polygraphy.plugin import (
    PluginMatch,
    ReplacePlugins,
    autotune_plugins,
    match_plugins,
    replace_plugins,
)

MODEL = "model.onnx"
PLUGINS = "plugins"


def make_runner(chosen: list[PluginMatch]) -> TrtRunner:
    return TrtRunner(
        EngineFromNetwork(
            NetworkFromOnnxModel(ReplacePlugins(OnnxFromPath(MODEL), PLUGINS, chosen))
        ),
        device_times=True,
    )


def main() -> None:
    matches = match_plugins(OnnxFromPath(MODEL), PLUGINS)
    chosen = autotune_plugins(make_runner, matches)
    model = replace_plugins(OnnxFromPath(MODEL), PLUGINS, chosen)
    save_onnx(model, path="tuned.onnx")


if __name__ == "__main__":
    program.run(main)
