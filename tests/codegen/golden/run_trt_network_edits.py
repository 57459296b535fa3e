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
    parse_network = NetworkFromOnnxPath(MODEL)
    postprocess_network = PostprocessNetwork(
        parse_network, func=InvokeFromScript("edit.py", name="postprocess")
    )
    modify_network_outputs = ModifyNetworkOutputs(postprocess_network, outputs=["a", "b"])
    set_layer_precisions = SetLayerPrecisions(
        modify_network_outputs, layer_precisions={"c": "float32"}
    )
    set_decomposable_attentions = SetDecomposableAttentions(set_layer_precisions)
    set_tensor_datatypes = SetTensorDatatypes(
        set_decomposable_attentions, tensor_datatypes={"x": "float16"}
    )
    set_tensor_formats = SetTensorFormats(
        set_tensor_datatypes, tensor_formats={"x": ["linear", "chw4"]}
    )
    load_network = MarkDebug(set_tensor_formats, mark_debug=["d"])
    build_engine = EngineFromNetwork(load_network)
    runners = [TrtRunner(build_engine)]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
