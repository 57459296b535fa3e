"""Write net.onnx. The example input takes the first branch of the ``if``."""

import torch
from net import load_model

EXAMPLE = torch.full((1, 16), 255.0)

torch.onnx.export(
    load_model(), (EXAMPLE,), "net.onnx", input_names=["x"], output_names=["p"], dynamo=False
)
