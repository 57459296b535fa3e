"""The attributes of nodes, each type of them as a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from polygraphy.adapters.onnx.storage.datatype import OnnxDataTypes
from polygraphy.adapters.onnx.storage.parsing import texts
from polygraphy.domain.model import Attribute, Graph, Weight

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto


_TYPES = OnnxDataTypes()
_HOLD_DTYPE = {"Cast": "to", "ConstantOfShape": "", "EyeLike": "dtype", "SequenceEmpty": "dtype"}
_RANDOM = ("Random", "Bernoulli", "Multinomial", "BlackmanWindow", "HannWindow", "HammingWindow")


class Describing(Protocol):
    """Describes what attributes may hold."""

    def graph(self, graph: GraphProto) -> Graph:
        """Describe a graph."""

    def weight(self, tensor: TensorProto) -> Weight:
        """Describe a tensor."""

    def sparse(self, tensor: SparseTensorProto) -> Weight:
        """Describe a tensor that is mostly zero."""


def attribute_of(node: NodeProto, attribute: AttributeProto, describing: Describing) -> Attribute:
    """Describe an attribute of a node; one of an unknown type has the kind ``unknown``."""
    name, reference = texts((attribute.name, attribute.ref_attr_name))
    if reference:
        return Attribute(name, "reference", reference)
    number = attribute.type
    if number in _PLAIN:
        kind, read = _PLAIN[number]
        value = read(attribute)
        if kind == "int" and _is_dtype(node.op_type, name):
            entry = _TYPES.from_native(value)
            if entry is not None:
                return Attribute(name, "dtype", entry.name)
        return Attribute(name, kind, value)
    if number in _DESCRIBED:
        kind, describe = _DESCRIBED[number]
        return Attribute(name, kind, describe(attribute, describing))
    return Attribute(name, "unknown", None)


def _is_dtype(op: str, name: str) -> bool:
    """Return whether a number stands for a data type."""
    return _HOLD_DTYPE.get(op) == name or (
        name in ("dtype", "output_datatype") and op.startswith(_RANDOM)
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _type_text(described: Any) -> str:
    return " ".join(str(described).split())


# The numbers are those of AttributeProto.AttributeType in onnx.proto.
_PLAIN: dict[int, tuple[str, Callable[[AttributeProto], Any]]] = {
    1: ("float", lambda attribute: attribute.f),
    2: ("int", lambda attribute: attribute.i),
    3: ("string", lambda attribute: _text(attribute.s)),
    6: ("floats", lambda attribute: tuple(attribute.floats)),
    7: ("ints", lambda attribute: tuple(attribute.ints)),
    8: ("strings", lambda attribute: tuple(map(_text, attribute.strings))),
    13: ("type", lambda attribute: _type_text(attribute.tp)),
    14: ("types", lambda attribute: tuple(map(_type_text, attribute.type_protos))),
}
_DESCRIBED: dict[int, tuple[str, Callable[[AttributeProto, Describing], Any]]] = {
    4: ("tensor", lambda attribute, of: of.weight(attribute.t)),
    5: ("graph", lambda attribute, of: of.graph(attribute.g)),
    9: ("tensors", lambda attribute, of: tuple(map(of.weight, attribute.tensors))),
    10: ("graphs", lambda attribute, of: tuple(map(of.graph, attribute.graphs))),
    11: ("tensor", lambda attribute, of: of.sparse(attribute.sparse_tensor)),
    12: ("tensors", lambda attribute, of: tuple(map(of.sparse, attribute.sparse_tensors))),
}
