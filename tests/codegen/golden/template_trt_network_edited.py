#!/usr/bin/env python3
"""Create a TensorRT network with the network API, starting from model.onnx.

polygraphy template trt-network model.onnx --trt-outputs a b --onnx-outputs '*' -o -
"""

from polygraphy import program
from polygraphy.backend.onnx import ModifyOutputs, OnnxFromPath
from polygraphy.backend.trt import ModifyNetworkOutputs, NetworkFromOnnxModel
from polygraphy.constants import MARK_ALL
from polygraphy.func import extend
from polygraphy.inspect import inspect_model

MODEL = "model.onnx"


def load_given():
    """Return the network to start from."""
    load_model = ModifyOutputs(OnnxFromPath(MODEL), outputs=MARK_ALL)
    parse_network = NetworkFromOnnxModel(load_model)
    load_network = ModifyNetworkOutputs(parse_network, outputs=["a", "b"])
    return load_network()


@extend(load_given)
def load_network(builder, network, parser):
    """Change the network in place, and return nothing."""
    # Add layers with network.add_...(), and mark outputs with network.mark_output().


def main() -> None:
    inspect_model(__file__, show=["layers"])


if __name__ == "__main__":
    program.run(main, banner=False)
