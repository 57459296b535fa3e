#!/usr/bin/env python3
"""Create a TensorRT network with the network API.

polygraphy template trt-network -o -
"""

from polygraphy import program
from polygraphy.backend.trt import CreateNetwork
from polygraphy.func import extend
from polygraphy.inspect import inspect_model


@extend(CreateNetwork())
def load_network(builder, network):
    """Change the network in place, and return nothing."""
    # Add layers with network.add_...(), and mark outputs with network.mark_output().


def main() -> None:
    inspect_model(__file__, show=["layers"])


if __name__ == "__main__":
    program.run(main, banner=False)
