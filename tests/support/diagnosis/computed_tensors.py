"""What the tests of `application/diagnose/test_evidence.py` and others share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from polygraphy.adapters.onnxruntime.party import OnnxrtParty


def compute_tensors(
    model: onnx.ModelProto, feed: Mapping[str, Any], *tensors: str
) -> dict[str, Any]:
    """Return the values of tensors of a model by name."""
    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    have = {one.name for one in marked.graph.output}
    marked.graph.output.extend(onnx.ValueInfoProto(name=n) for n in tensors if n not in have)
    made = OnnxrtParty().load(marked)(feed)
    return {name: made[name] for name in tensors}
