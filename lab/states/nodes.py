"""Writes the nodes of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .specs import Array


@dataclass
class Net:
    weights: dict[str, Array]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    prefix: str = ""
    wrong: set[str] = field(default_factory=set)

    def op(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = self.prefix + output
        self.nodes.append(
            helper.make_node(kind, inputs, [output], name=f"n_{output}", **attributes)
        )
        return output

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        """Add a constant, and return its name."""
        array = np.array(value, dtype)
        name = (
            f"c_{array.dtype}_{'x'.join(map(str, array.shape))}_{'_'.join(map(str, array.ravel()))}"
        )
        self.weights[name] = array
        return name

    def blame(self, *names: str) -> None:
        """Record nodes as faulty."""
        self.wrong.update(names)


def value_info(name: str, kind: int, shape: Any) -> onnx.ValueInfoProto:
    """Return the description of a tensor."""
    return helper.make_tensor_value_info(name, kind, shape)
