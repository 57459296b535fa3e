#!/usr/bin/env python3
"""Run model.onnx in TensorRT.

polygraphy run model.onnx --trt --trt-npps edit.py --trt-outputs a b --layer-precisions c:fp32 --tensor-dtypes x:fp16 --tensor-formats 'x:[linear,chw4]' --mark-debug d --decomposable-attentions
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.trt import (
    EngineFromNetwork,
    MarkDebug,
    ModifyNetworkOutputs,
    NetworkFromOnnxPath,
    PostprocessNetwork,
    SetDecomposableAttentions,
    SetLayerPrecisions,
    SetTensorDatatypes,
    SetTensorFormats,
    TrtRunner,
)
from polygraphy.comparator import Comparator

MODEL = "model.onnx"


def main() -> None:
    load_network = NetworkFromOnnxPath(MODEL)
    load_network = PostprocessNetwork(
        load_network, func=InvokeFromScript("edit.py", name="postprocess")
    )
    load_network = ModifyNetworkOutputs(load_network, outputs=["a", "b"])
    load_network = SetLayerPrecisions(load_network, layer_precisions={"c": "float32"})
    load_network = SetDecomposableAttentions(load_network)
    load_network = SetTensorDatatypes(load_network, tensor_datatypes={"x": "float16"})
    load_network = SetTensorFormats(load_network, tensor_formats={"x": ["linear", "chw4"]})
    load_network = MarkDebug(load_network, mark_debug=["d"])
    build_engine = EngineFromNetwork(load_network)
    runners = [TrtRunner(build_engine)]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed when it is asked for.


if __name__ == "__main__":
    program.run(main)
