"""A chain of products, and the same with quantized operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.support.models import make, value

LAYERS, SIZE = 4, 32


def weights() -> dict[str, Any]:
    """Return random weights of the chain by name."""
    random = np.random.default_rng(7)
    made = {f"w{n}": random.standard_normal((SIZE, SIZE)) / SIZE**0.5 for n in range(LAYERS)}
    return {name: array.astype(np.float32) for name, array in made.items()}


def plain() -> onnx.ModelProto:
    """Return a chain of products, each except the last followed by a Relu."""
    nodes, last = [], "x"
    for n in range(LAYERS):
        end = "y" if n == LAYERS - 1 else f"p{n}"
        nodes.append(helper.make_node("MatMul", [last, f"w{n}"], [end], f"product{n}"))
        if end != "y":
            nodes.append(helper.make_node("Relu", [end], [f"r{n}"], f"relu{n}"))
        last = f"r{n}"
    ends = [value("x", [8, SIZE])], [value("y", [8, SIZE])]
    return make("plain", nodes, *ends, weights=weights())


def build_quantized(
    coarse: int | None = None, *, absorbs: bool = False, bits: int = 8
) -> onnx.ModelProto:
    """Return the chain with Q/DQ pairs on the operands of each product.

    Args:
        coarse: the product whose first operand is quantized with a tenth of the scale that it needs.
        absorbs: whether unsigned integers do what a Relu does, which is left out then.
        bits: how many of the scale's eight are used.
    """
    nodes, held, last = [], dict(weights()), "x"

    def both(name: str, scale: float, zero: Any) -> str:
        """Add a Q/DQ pair after a tensor, and return the name of its output."""
        held.update({f"{name}_s": np.float32(scale), f"{name}_z": zero})
        nodes.append(
            helper.make_node("QuantizeLinear", [name, f"{name}_s", f"{name}_z"], [f"{name}_q"])
        )
        nodes.append(
            helper.make_node(
                "DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [f"{name}_d"]
            )
        )
        return f"{name}_d"

    steps = 2.0 ** (bits - 1) - 1
    for n in range(LAYERS):
        end = "y" if n == LAYERS - 1 else f"p{n}"
        zero = np.uint8(0) if absorbs and n else np.int8(0)
        scale = (6.0 if not n else 4.0) / (2 * steps if absorbs and n else steps)
        reads = both(last, scale * (0.1 if n == coarse else 1), zero)
        array = held[f"w{n}"]
        weight = both(f"w{n}", float(np.abs(array).max() / steps), np.int8(0))
        nodes.append(helper.make_node("MatMul", [reads, weight], [end], f"product{n}"))
        last = end
        if end != "y" and not absorbs:
            nodes.append(helper.make_node("Relu", [end], [f"r{n}"], f"relu{n}"))
            last = f"r{n}"
    ends = [value("x", [8, SIZE])], [value("y", [8, SIZE])]
    return make("quantized", nodes, *ends, weights=held)
