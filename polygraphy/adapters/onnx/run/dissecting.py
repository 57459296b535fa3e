"""Takes ONNX models apart to run their nodes alone: implements the port `DissectedModels`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx.describe.facts import OnnxFactFinder
from polygraphy.adapters.onnx.describe.origins import origin_of
from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.graph import IR_WITHOUT_WEIGHTS_AS_INPUTS, in_order
from polygraphy.adapters.onnx.graph.inlining import inlined, with_branches
from polygraphy.adapters.onnx.graph.shapes import inferred_value_infos, value_infos
from polygraphy.adapters.onnx.graph.value_infos import described, input_metadata, value_info
from polygraphy.adapters.onnx.run.subgraph import copy_frame
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx_common.messages import copy_of, used_by, weight_names
from polygraphy.domain.diagnosis.regions import DISCONTINUOUS, GraphNode, consumers
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.shapes import fits

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

_HANDED_OUT = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13))
"""Data types, by their numbers in ONNX, that every release of every backend hands out: bfloat16 and
narrower ones are none."""
_MADE = "//made"
_ROUNDED = frozenset((1, 10, 11, 16))


class OnnxDissectedModels:
    """Opens ONNX models."""

    def open(self, model: Any) -> OnnxDissectedModel:
        """Read a model; see the port."""
        if isinstance(model, (str, Path)):
            return OnnxDissectedModel(OnnxFromPath(str(model)).call_impl())
        return OnnxDissectedModel(evaluate(model))


class OnnxDissectedModel:
    """An ONNX model that is taken apart; see the port `DissectedModel`."""

    def __init__(self, given: ModelProto, proto: ModelProto | None = None) -> None:
        self.given = in_order(given)
        self.proto = proto = inlined(self.given) if proto is None else proto
        graph = proto.graph
        self.constants = weight_names(graph) | {
            name for node in graph.node if node.op_type == "Constant" for name in node.output
        }
        self.nodes = [_node(node) for node in graph.node]
        self.inputs: TensorMetadata = input_metadata(proto)
        self.outputs = [value.name for value in graph.output]
        self._known: dict[str, ValueInfoProto] | None = None
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._given = set(self.outputs)
        self._constant_nodes = {
            name: index
            for index, node in enumerate(self.nodes)
            if node.op == "Constant"
            for name in node.makes
        }
        self._readers = {name: set(held) for name, held in consumers(self.nodes).items()}

    def facts(self) -> Facts:
        return OnnxFactFinder().find(self.proto)

    def with_branches(self, conditions: Mapping[str, Any]) -> OnnxDissectedModel:
        asked = {name for node in self.nodes if node.op == "If" for name in node.reads[:1]}
        weights = graph_weights(self.proto.graph) if asked else {}
        known: dict[str, Any] = {name: elements(weights[name]) for name in asked & weights.keys()}
        known.update(conditions)
        decided = {name: bool(np.all(array)) for name, array in known.items()}
        made = with_branches(self.proto, decided)
        return self if made is self.proto else OnnxDissectedModel(self.given, made)

    def _types(self) -> dict[str, ValueInfoProto]:
        if self._known is None:
            self._known = {**inferred_value_infos(self.proto), **value_infos(self.proto)}
        return self._known

    def marked(self) -> ModelProto:
        made: ModelProto = copy_of(self.proto)
        given = {value.name for value in made.graph.output}
        types = self._types()
        for node in made.graph.node:
            for name in node.output:
                if name and name not in given and name not in self.constants:
                    given.add(name)
                    if _can_be_handed_out(types.get(name)):
                        made.graph.output.add().name = name
        return made

    def cut(
        self, values: Mapping[str, Any], *, checked: bool = False
    ) -> tuple[ModelProto, dict[str, str]]:
        """Return a model whose nodes compute from given values alone; see the port."""
        made: ModelProto = onnx.ModelProto()
        copy_frame(self.proto, made)
        made.ir_version = max(made.ir_version, IR_WITHOUT_WEIGHTS_AS_INPUTS)
        graph = made.graph
        graph.name = self.proto.graph.name
        graph.node.extend(self.proto.graph.node)
        graph.initializer.extend(self.proto.graph.initializer)
        graph.sparse_initializer.extend(self.proto.graph.sparse_initializer)
        read = {name for node in self.nodes for name in node.reads}
        names: dict[str, str] = {}
        for node in graph.node:
            for position, name in enumerate(node.output):
                if name in values and self._takes(name, values[name], checked):
                    names[name] = f"{name}{_MADE}"
                    node.output[position] = names[name]
        asked = [name for name in self.inputs if name in read]
        cut = [name for name in names if name in read]
        graph.input.extend(_described(name, values[name]) for name in (*asked, *cut))
        for name in names.values():
            graph.output.add().name = name
        return made, names

    def _takes(self, name: str, array: Any, checked: bool) -> bool:
        """Return whether an array can stand for a tensor: other graphs keep names of tensors of
        which they changed the data type or the layout.
        """
        value = self._types().get(name)
        if name in self.constants or not _is_tensor(value):
            return False
        known = described(value)
        meta = TensorMetadata.from_feed_dict({name: array})[name]
        return known.dtype in (None, meta.dtype) and (not checked or fits(array.shape, known.shape))

    def part(self, nodes: Sequence[int], values: Mapping[str, Any]) -> ModelProto:
        """Return a model of some of the nodes; see the port."""
        made: ModelProto = onnx.ModelProto()
        copy_frame(self.proto, made)
        made.ir_version = max(made.ir_version, IR_WITHOUT_WEIGHTS_AS_INPUTS)
        graph = made.graph
        graph.name = self.proto.graph.name
        chosen = self._with_constants(nodes)
        graph.node.extend(self.proto.graph.node[index] for index in chosen)
        own = dict.fromkeys(name for index in chosen for name in self.nodes[index].makes)
        read = dict.fromkeys(name for index in chosen for name in self.nodes[index].reads)
        graph.initializer.extend(self._weights[name] for name in read if name in self._weights)
        graph.sparse_initializer.extend(
            sparse for sparse in self.proto.graph.sparse_initializer if sparse.values.name in read
        )
        for name in read:
            if name not in own and name not in self.constants:
                known = self._types().get(name) or onnx.ValueInfoProto(name=name)
                graph.input.append(_described(name, values[name]) if name in values else known)
        inside = set(chosen)
        outputs = [
            name
            for name in own
            if name not in self.constants
            and (name in self._given or not self._readers.get(name, set()) <= inside)
        ]
        for name in outputs or self.nodes[chosen[-1]].makes[:1]:
            if _can_be_handed_out(self._types().get(name)) or len(outputs) == 1:
                graph.output.add().name = name
        return made

    def _with_constants(self, nodes: Sequence[int]) -> list[int]:
        """Return the positions of nodes, and of the Constant nodes that they read."""
        read = {name for index in nodes for name in self.nodes[index].reads}
        return sorted({*nodes, *(at for name, at in self._constant_nodes.items() if name in read)})


def _node(node: NodeProto) -> GraphNode:
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
    settings = sorted(
        attribute.SerializeToString(deterministic=True) for attribute in node.attribute
    )
    origin = origin_of(node)
    cast_to = next((entry.i for entry in node.attribute if entry.name == "to"), 1)
    return GraphNode(
        name=node.name or next((name for name in node.output if name), ""),
        op=f"{domain}{node.op_type}",
        reads=list(dict.fromkeys(used_by(node))),
        makes=[name for name in node.output if name],
        settings=b"|".join(settings).hex(),
        jumps=node.op_type in DISCONTINUOUS
        or (node.op_type == "Cast" and cast_to not in _ROUNDED)
        or node.op_type.startswith("QLinear"),
        origin=None if origin is None else str(origin),
    )


def _is_tensor(value: ValueInfoProto | None) -> bool:
    """Return whether it is one as far as is known, not a sequence or an optional value."""
    return value is None or value.type.WhichOneof("value") in (None, "tensor_type")


def _can_be_handed_out(value: ValueInfoProto | None) -> bool:
    if value is None or not _is_tensor(value):
        return value is None
    return value.type.tensor_type.elem_type in (0, *_HANDED_OUT)


def _described(name: str, array: Any) -> ValueInfoProto:
    metadata = TensorMetadata.from_feed_dict({name: array})
    made: ValueInfoProto = value_info(name, metadata[name])
    return made
