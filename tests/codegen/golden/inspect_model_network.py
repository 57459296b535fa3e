#!/usr/bin/env python3
"""Show the contents of m.onnx.

polygraphy inspect model m.onnx --convert-to trt --trt-outputs a b --trt-npps edit.py --plugins a.so --onnx-flags native_instancenorm --format json
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.trt import (
    LoadPlugins,
    ModifyNetworkOutputs,
    NetworkFromOnnxPath,
    PostprocessNetwork,
)
from polygraphy.inspect import inspect_model

MODEL = "m.onnx"


def main() -> None:
    parse_network = LoadPlugins(
        plugins=["a.so"], obj=NetworkFromOnnxPath(MODEL, flags=["native_instancenorm"])
    )
    postprocess_network = PostprocessNetwork(
        parse_network, func=InvokeFromScript("edit.py", name="postprocess")
    )
    load_network = ModifyNetworkOutputs(postprocess_network, outputs=["a", "b"])
    inspect_model(load_network)


if __name__ == "__main__":
    program.run(main, banner=False, format="json", sources=["m.onnx", "a.so", "edit.py"])
