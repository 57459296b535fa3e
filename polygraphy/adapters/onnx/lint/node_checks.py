"""Checks every node of a model against the definition of its operator: `onnx.checker`, and shape
inference, one node at a time, so that an error hides no other.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.graph import constant_tensor, is_constant
from polygraphy.adapters.onnx.storage.parsing import one_line
from polygraphy.adapters.onnx.storage.weights import SMALL, byte_size, is_external
from polygraphy.adapters.onnx_common.inference import crashes_without_types
from polygraphy.adapters.onnx_common.messages import graphs_of, shape_of
from polygraphy.domain.checks.lint import EXCEPTION, WARNING, LintEntry, Source

if TYPE_CHECKING:
    from onnx import (
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        TensorProto,
        TypeProto,
    )


onnx = mod.lazy_import("onnx")
onnx_checker = mod.lazy_import("onnx.checker")
onnx_shapes = mod.lazy_import("onnx.shape_inference")

Types = ChainMap[str, Any]


class NodeChecks:
    """Checks the nodes of one model."""

    def __init__(self, model: ModelProto) -> None:
        """Take a model; large weights may be left out."""
        self._model = model
        self._opsets = _opsets(model.opset_import)

    def entries(self, labels: Sequence[str]) -> Iterator[LintEntry]:
        """Yield what is wrong; `labels` are the names of the nodes of the main graph."""
        context = _context(self._model.ir_version, self._opsets)
        yield from self._graph(self._model.graph, labels, ChainMap(), ChainMap(), context)
        for function in self._model.functions:
            opsets = _opsets(function.opset_import)
            inner = _context(self._model.ir_version, opsets or self._opsets)
            where = f"{function.domain}.{function.name}"
            for index, node in enumerate(function.node):
                if any(attribute.ref_attr_name for attribute in node.attribute):
                    continue  # What it refers to is only known where the function is used.
                if (message := _check_node(node, inner)) is not None:
                    label = f"{where}/{node.name or f'{node.op_type}_{index}'}"
                    yield LintEntry(EXCEPTION, Source.CHECKER, message, (label,), node.op_type)

    def _graph(
        self,
        graph: GraphProto,
        labels: Sequence[str],
        outer_types: Types,
        outer_data: ChainMap[str, Any],
        context: Any,
    ) -> Iterator[LintEntry]:
        types, data = outer_types.new_child(), outer_data.new_child()
        for tensor in graph.initializer:
            types[tensor.name] = _tensor_type(tensor)
            if byte_size(tensor) <= SMALL and not is_external(tensor):
                data[tensor.name] = tensor
        stated = {
            value.name: value.type
            for values in (graph.value_info, graph.output, graph.input)
            for value in values
            if value.type.WhichOneof("value") is not None
        }
        types.update(
            {value.name: stated[value.name] for value in graph.input if value.name in stated}
        )
        for node, label in zip(graph.node, labels):
            found = list(self._inner(node, label, types, data, context))
            yield from found
            if found:
                continue
            message = _check_node(node, context)
            if message is not None:
                yield LintEntry(EXCEPTION, Source.CHECKER, message, (label,), node.op_type)
            else:
                try:
                    made = self._infer_output_types(node, types, data)
                except _Contradiction as error:
                    yield LintEntry(EXCEPTION, Source.SHAPES, str(error), (label,), node.op_type)
                else:
                    for text in _wrong_ranks(node, types):
                        yield LintEntry(WARNING, Source.SHAPES, text, (label,), node.op_type)
                    types.update(made)
                    for text in _disagreements(made, stated):
                        yield LintEntry(WARNING, Source.SHAPES, text, (label,), node.op_type)
            _take_constant(node, data)
            for name in node.output:
                if name not in types and name in stated:
                    types[name] = stated[name]

    def _inner(
        self, node: NodeProto, label: str, types: Types, data: ChainMap[str, Any], context: Any
    ) -> Iterator[LintEntry]:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            for position, graph in enumerate(inner):
                number = f"[{position}]" if attribute.graphs else ""
                where = f"{label}/{attribute.name}{number}"
                labels = [
                    f"{where}/{one.name or f'polygraphy_unnamed_node_{index}'}"
                    for index, one in enumerate(graph.node)
                ]
                yield from self._graph(graph, labels, types, data, context)

    def _infer_output_types(
        self, node: NodeProto, types: Types, data: ChainMap[str, Any]
    ) -> dict[str, TypeProto]:
        """Return the types of a node's outputs, as far as they follow from those of its inputs."""
        if graphs_of(node):
            return {}
        version = self._opsets.get(node.domain, self._opsets.get("ai.onnx", 0))
        if not version or not onnx.defs.has(node.op_type, version, node.domain):
            return {}
        names = [name for name in node.input if name]
        if crashes_without_types(node) and (not names or len(names) < len(node.input)):
            return {}
        if not all(name in types for name in names):
            return {}
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        try:
            made: dict[str, TypeProto] = onnx_shapes.infer_node_outputs(
                schema,
                node,
                {name: types[name] for name in names},
                {name: data[name] for name in names if name in data},
                opset_imports=list(self._model.opset_import),
                ir_version=self._model.ir_version,
            )
        except onnx_shapes.InferenceError as error:
            raise _Contradiction(one_line(error)) from error
        except Exception:  # Its other errors are about what it does not know, not about the node.
            return {}
        return made


class _Contradiction(Exception):
    """The types of a node's inputs do not fit its operator."""


_HIGHEST = 2**31 - 1
"""The highest opset that the checker takes; a model may claim any."""


def _opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    return {each.domain: min(each.version, _HIGHEST) for each in imports}


def _context(ir_version: int, opsets: dict[str, int]) -> Any:
    context = onnx_checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = opsets
    return context


def _disagreements(made: Mapping[str, TypeProto], stated: Mapping[str, TypeProto]) -> Iterator[str]:
    """Yield which tensors have another shape than the graph says: backends go by either."""
    for name, inferred in made.items():
        if name in stated:
            ours, theirs = _dims(inferred), _dims(stated[name])
            if ours is None or theirs is None:
                continue
            is_same = len(ours) == len(theirs) and all(
                isinstance(a, str) or isinstance(b, str) or a == b for a, b in zip(ours, theirs)
            )
            if not is_same:
                yield (
                    f"Output: '{name}' is of shape ({', '.join(map(str, ours))}), but the graph"
                    f" says ({', '.join(map(str, theirs))})."
                )


_RANKS = {"STFT": (0, 3)}
"""Which operand of an operator has which number of dimensions, where inference does not ask."""


def _wrong_ranks(node: NodeProto, types: Types) -> Iterator[str]:
    """Yield which operand has another number of dimensions than the standard says: some backends
    take it, others do not.
    """
    position, rank = _RANKS.get("" if domain_of(node.domain) else node.op_type, (0, 0))
    if not rank or len(node.input) <= position or node.input[position] not in types:
        return
    name = node.input[position]
    dims = _dims(types[name])
    if dims is not None and len(dims) != rank:
        yield f"Input: '{name}' has {len(dims)} dimension(s); the ONNX specification requires {rank}."


def _dims(described: TypeProto) -> list[int | str] | None:
    """Return the dimensions of a tensor, texts for those that are open; None for no shape."""
    shape = shape_of(described.tensor_type)
    return shape and ["?" if dim is None else dim for dim in shape]


def _check_node(node: NodeProto, context: Any) -> str | None:
    """Return what the checker has against a node."""
    if graphs_of(node):
        return None  # Its graphs read from around them, which the checker does not see here.
    try:
        onnx_checker.check_node(node, context)
    except Exception as error:  # ValidationError; of malformed messages whatever protobuf raises.
        text = one_line(error)
        is_import = text.startswith("No opset import for domain")
        return None if is_import and is_foreign(node.domain) else text
    return None


@cache
def is_foreign(domain: str) -> bool:
    """Return whether the onnx package has no operator of a domain, as none of a plugin's."""
    return all(domain_of(domain) != schema.domain for schema in onnx.defs.get_all_schemas())


def _tensor_type(tensor: TensorProto) -> TypeProto:
    made: TypeProto = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return made


def _take_constant(node: NodeProto, data: ChainMap[str, Any]) -> None:
    """Keep the value of a constant, which shapes may depend on."""
    if is_constant(node) and len(node.output) == 1:
        tensor = constant_tensor(node)
        if tensor is not None and byte_size(tensor) <= SMALL:
            data[node.output[0]] = tensor
