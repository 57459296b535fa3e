#!/usr/bin/env python3
"""Show the contents of net.py:make.

polygraphy inspect model net.py:make --all-tensor-formats linear --show layers attrs
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.trt import SetTensorFormats
from polygraphy.inspect import inspect_model

MODEL = "net.py"


def main() -> None:
    create_network = InvokeFromScript(MODEL, name="make")
    load_network = SetTensorFormats(create_network, tensor_formats=["linear"])
    inspect_model(load_network, show=["layers", "attrs"])


if __name__ == "__main__":
    program.run(main, banner=False)
