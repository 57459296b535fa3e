"""Attributes that say what an operator does anyway."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from polygraphy import mod

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

onnx = mod.lazy_import("onnx")

_NEWEST = 1 << 30
"""An opset above all others."""
_ONES = frozenset({"strides", "dilations"})
_ZEROS = frozenset({"pads", "output_padding"})
_WINDOWED = frozenset(
    {
        "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "LpPool", "MaxPool",
        "QLinearConv",
    }
)  # fmt: skip
"""Operators whose lists of numbers have a default that only their text states."""


def is_default(attribute: AttributeProto, node: NodeProto, opsets: Mapping[str, int]) -> bool:
    """Return whether a node means the same without an attribute, in its opset and in the newest.

    Args:
        attribute: an attribute of the node.
        node: the node.
        opsets: the versions of the operator sets of its model, by domain.
    """
    if attribute.ref_attr_name or attribute.type not in (1, 2, 3, 7):
        return False
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain == "" and node.op_type in _WINDOWED and attribute.type == 7:
        usual = 1 if attribute.name in _ONES else 0 if attribute.name in _ZEROS else None
        return usual is not None and all(number == usual for number in attribute.ints)
    version = opsets.get(domain, opsets.get("ai.onnx", 0) if domain == "" else 0)
    defaults = _defaults(node.op_type, version, domain)
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name not in defaults or defaults[attribute.name] != value:
        return False
    newest = _defaults(node.op_type, _NEWEST, domain)
    return bool(newest.get(attribute.name, value) == value)


@cache
def _defaults(op: str, version: int, domain: str) -> dict[str, Any]:
    """Return the default values of the attributes of an operator, by name."""
    if not version or not onnx.defs.has(op, min(version, _NEWEST), domain):
        return {}
    schema = onnx.defs.get_schema(op, version, domain)
    return {
        name: onnx.helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
