"""Two network scripts: the identity model under another name, and x + 1 built layer by layer."""

import numpy as np

from polygraphy import func
from polygraphy.backend.trt import CreateNetwork, NetworkFromOnnxPath


@func.extend(NetworkFromOnnxPath("identity.onnx"))
def load_network(builder, network, parser):
    """Rename the parsed network."""
    network.name = "MyIdentity"


@func.extend(CreateNetwork())
def create_network(builder, network):
    """Add the layers of `output` = `input` + 1, float32 [64, 64]."""
    import tensorrt as trt

    shape = (64, 64)
    network_input = network.add_input("input", trt.float32, shape)
    one = network.add_constant(shape, np.ones(shape, dtype=np.float32)).get_output(0)
    total = network.add_elementwise(network_input, one, trt.ElementWiseOperation.SUM).get_output(0)
    total.name = "output"
    network.mark_output(total)
