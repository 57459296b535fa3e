#!/usr/bin/env python3
"""Create a TensorRT network with the network API, starting from model.onnx.

polygraphy template trt-network model.onnx --strongly-typed -o -
"""

from polygraphy import program
from polygraphy.backend.trt import NetworkFromOnnxPath
from polygraphy.func import extend
from polygraphy.inspect import inspect_model

MODEL = "model.onnx"


@extend(NetworkFromOnnxPath(MODEL, strongly_typed=True))
def load_network(builder, network, parser):
    """Change the network in place, and return nothing."""
    # Add layers with network.add_...(), and mark outputs with network.mark_output().


def main() -> None:
    inspect_model(__file__, show=["layers"])


if __name__ == "__main__":
    program.run(main, banner=False)
