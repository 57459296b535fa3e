"""Copies nodes, with the weights that they read, from a reference model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.describe.reading import graph_with_weights
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.graph.element_types import domain_of, versions_of
from polygraphy.adapters.onnx.graph.graph import (
    add_weight,
    clean,
    constant_tensor,
    delete_where,
    drop_unused,
    is_constant,
    is_in_order,
    rename_uses,
    required_tensors,
    sort,
)
from polygraphy.adapters.onnx.graph.inlining import inline_functions
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx_common.messages import (
    copy_of,
    graphs_of,
    identity_of,
    refuse_inner_name,
    tensors_read,
    weight_names,
)
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.two_models import (
    Suspect,
    describe_interface_mismatch,
    plan_copies,
    suspect_names,
    suspects,
)
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.tensors.naming import count_text
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    from polygraphy.domain.diagnosis.pairing import Pairing
    from polygraphy.domain.diagnosis.two_models import CopyPlan
    from polygraphy.domain.diagnosis.variants import Variant


onnx = mod.lazy_import("onnx")


def restore_differences(model: ModelProto, reference: ModelProto, plan: CopyPlan) -> ModelProto:
    """Return a copy of a model with the parts of a plan copied from the reference."""
    copy: ModelProto = copy_of(model)
    graph = copy.graph
    twins = {_first_output(node): node for node in reference.graph.node}
    nodes_by_output = {_first_output(node): node for node in graph.node}
    for node_copy in plan.nodes:
        target = nodes_by_output[node_copy.replaces] if node_copy.replaces else graph.node.add()
        if node_copy.attributes is not None:
            _take_attributes(target, twins[node_copy.twin], node_copy.attributes)
            target.input[:] = node_copy.inputs
            continue
        name = target.name
        target.CopyFrom(twins[node_copy.twin])
        target.name = name if node_copy.replaces else ""
        target.input[:] = node_copy.inputs
        target.output[:] = node_copy.outputs
        holder = onnx.GraphProto(node=[target])
        rename_uses(holder, node_copy.captured)
        target.CopyFrom(holder.node[0])
        target.input[:] = node_copy.inputs
    own_weights = {weight.name: weight for weight in graph.initializer}
    for reference_name, weight in plan.weights.items():
        source = _weight(reference.graph, reference_name)
        if weight in own_weights:
            own_weights[weight].CopyFrom(source)
            own_weights[weight].name = weight
        else:
            add_weight(copy, source, weight)
    domains = {opset.domain for opset in copy.opset_import}
    copy.opset_import.extend(o for o in reference.opset_import if o.domain not in domains)
    del graph.value_info[:]
    sort(graph)
    return copy


def _take_attributes(node: NodeProto, twin: NodeProto, names: Collection[str]) -> None:
    """Copy attributes from a node's counterpart; one that the counterpart lacks is removed."""
    kept_attributes = [
        copy_of(attribute) for attribute in node.attribute if attribute.name not in names
    ]
    del node.attribute[:]
    node.attribute.extend(
        [*kept_attributes, *(attribute for attribute in twin.attribute if attribute.name in names)]
    )


def _first_output(node: NodeProto) -> str:
    """Return the name of the first output of a node that has one."""
    return next(filter(None, node.output), "")


def _weight(graph: GraphProto, name: str) -> TensorProto:
    """Return the weight of a name, from an initializer or a Constant node.
    Raise KeyError if there is none.
    """
    for weight in graph.initializer:
        if weight.name == name:
            source: TensorProto = weight
            return source
    for node in graph.node:
        if name in node.output and is_constant(node):
            tensor = constant_tensor(node)
            if tensor is not None:
                return tensor
    raise KeyError(name)


def alter_node(
    model: ModelProto, output: str, variant: Variant, *, asks: bool = False
) -> ModelProto:
    """Return a copy of a model in which the node that computes a tensor is replaced.
    See the port."""
    copy: ModelProto = copy_of(model)
    graph, node = copy.graph, next(node for node in copy.graph.node if output in node.output)
    if variant.inner is not None:
        variant = variant.inner
        graph, node = next(_find_inner(node, next(filter(None, variant.node.outputs))))
    names = {name: f"{name}//tried" for name in variant.weights}
    before, op = list(node.input), node.op_type
    node.input[:] = [names.get(name, name) for name in variant.node.inputs]
    is_rewired = sorted(node.output) == sorted(variant.node.outputs) != []
    is_rewired = is_rewired and list(node.output) != list(variant.node.outputs)
    if is_rewired:
        node.output[:] = variant.node.outputs
    known_names = {weight.name for weight in copy.graph.initializer}
    for name, values in variant.weights.items():
        weight = onnx.numpy_helper.from_array(values, names[name])
        if asks:
            kind, shape = weight.data_type, weight.dims
            copy.graph.input.append(onnx.helper.make_tensor_value_info(weight.name, kind, shape))
        elif weight.name not in known_names:
            # Several nodes can read a weight, so add it only once.
            add_weight(copy, weight, weight.name)
    node.op_type = variant.node.op
    given_names = {attribute.name for attribute in variant.node.attributes}
    attribute = [attribute for attribute in node.attribute if attribute.name in given_names]
    attribute_values = {item.name: onnx.helper.get_attribute_value(item) for item in attribute}
    items = [
        onnx.helper.make_attribute(attribute.name, attribute.value)
        for attribute in variant.node.attributes
        if attribute.kind in _PLAIN
        and not _is_same_value(attribute_values.get(attribute.name), attribute.value)
    ]
    changed = {attribute.name for attribute in items}
    attribute = [value for value in attribute if value.name not in changed]
    attributes = [onnx.AttributeProto.FromString(value.SerializeToString()) for value in attribute]
    del node.attribute[:]
    node.attribute.extend([*attributes, *items])
    if before != list(node.input) and not is_in_order(graph):
        sort(graph)
    if before != list(node.input) or items or node.op_type != op or is_rewired:
        del graph.value_info[:]
        del copy.graph.value_info[:]
        for tensor in (*graph.output, *copy.graph.output):
            # The declared shape of an output may be the one of the original node.
            if tensor.type.HasField("tensor_type"):
                tensor.type.tensor_type.ClearField("shape")
    return copy


def _find_inner(node: NodeProto, output: str) -> Iterator[tuple[GraphProto, NodeProto]]:
    """Yield the body of a node that computes a tensor, and the node of the body that does."""
    for body in graphs_of(node):
        for inner in body.node:
            if output in inner.output:
                yield body, inner
            yield from _find_inner(inner, output)


_PLAIN = frozenset({"float", "int", "ints", "floats", "string", "strings"})


def _is_same_value(attribute_value: Any, value: Any) -> bool:
    """Return whether the value of an attribute equals another value."""
    attribute_value = (
        attribute_value.decode() if isinstance(attribute_value, bytes) else attribute_value
    )
    if isinstance(attribute_value, list):
        attribute_value = [
            item.decode() if isinstance(item, bytes) else item for item in attribute_value
        ]
    return attribute_value is not None and (
        list(attribute_value) == list(value)
        if isinstance(value, tuple)
        else attribute_value == value
    )


copy_nodes: Callable[..., ModelProto]


_SHOWN = 10


@mod.export(funcify=True)
class CopyNodes(BaseLoader):
    """Copies differing nodes, with their weights, from a reference into an ONNX model."""

    def __init__(
        self,
        model: Deferred[ModelProto],
        reference: str | Deferred[ModelProto],
        nodes: Sequence[str] | None = None,
    ) -> None:
        """Set the model, the reference, and the nodes to copy.

        Args:
            model: the model, which is not changed, or a loader that returns it.
            reference: the correct model: its path, an ``onnx.ModelProto``, or a loader.
            nodes: the names of the nodes to copy (for unnamed nodes, of their first output;
                default: all that differ). A node in the body of a function is called ``CALL/NODE``;
                the function is then inlined.
        """
        self._model = model
        self._reference = reference
        self._nodes = None if nodes is None else list(nodes)

    def call_impl(self) -> ModelProto:
        """Return a copy of the model with the nodes copied from the reference.

        Raises:
            UnknownNameError: the model has no node with a name.
            UsageError: a node (without names, the whole model) does not differ, or the reference is
                a different model.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Return the model with nodes of the reference in place of its own."""
        given_reference = self._reference
        reference = (
            OnnxFromPath(given_reference)()
            if isinstance(given_reference, str)
            else evaluate(given_reference)
        )
        own = model
        names = {identity_of(node) for node in model.graph.node}
        if (model.functions or reference.functions) and not names.issuperset(self._nodes or [""]):
            model, reference = inline_functions(model), inline_functions(reference)
        pairing = pair_graphs(graph_with_weights(model), graph_with_weights(reference))
        chosen = self._select_differences(pairing, own)
        plan = plan_copies(pairing, chosen)
        differences = restore_differences(model, reference, plan)
        copied = {node.twin for node in plan.nodes}
        nodes = [node for node in reference.graph.node if copied.intersection(node.output)]
        _drop_replaced(
            differences.graph, required_tensors(model.graph) - required_tensors(differences.graph)
        )
        for suspect in chosen[:_SHOWN]:
            G_LOGGER.info(f"Undone: {suspect.change}.")
        G_LOGGER.info(f"Copied {count_text(len(chosen), 'difference')}.")
        _warn_of_domains(model, nodes)
        _warn_of_versions(model, reference, nodes)
        return differences

    def _select_differences(self, pairing: Pairing, model: ModelProto) -> list[Suspect]:
        """Return the differences that copying the selected nodes removes."""
        side = pairing.model
        named_suspects = [(suspect, suspect_names(side, suspect)) for suspect in suspects(pairing)]
        differing = {name for _, names in named_suspects for name in names}
        if self._nodes is None:
            if not named_suspects:
                raise UsageError("The models do not differ, so there is nothing to copy.")
            if mismatch := describe_interface_mismatch(pairing):
                raise UsageError(
                    f"The reference is a different model: {mismatch}.",
                    hint="If you want to copy from it anyway, list the nodes with --nodes.",
                )
            return [suspect for suspect, _ in named_suspects]
        identities = {side.nodes[index].label for index in range(len(side.nodes))}
        for name in self._nodes:
            if name not in identities | differing:
                refuse_inner_name(model.graph, name, model.functions)
                raise UnknownNameError("Node", name, sorted(identities))
            if name not in differing:
                raise UsageError(f"Node {name!r} is the same in both models.")
        return [suspect for suspect, names in named_suspects if set(names) & set(self._nodes)]


def _warn_of_domains(model: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Warn of copied operators from domains that the model did not use before."""
    before = {(node.domain, node.op_type) for node in model.graph.node}
    kinds = {(node.domain, node.op_type) for node in nodes if domain_of(node.domain)} - before
    if kinds:
        G_LOGGER.warning(
            "Copied operators outside the ONNX specification:"
            f" {', '.join(sorted('::'.join(kind) for kind in kinds))}. They come from a"
            " reference that a backend optimized, and other backends may not run the result."
        )


def _warn_of_versions(model: ModelProto, reference: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Warn of copied operators that the model's opset declares differently."""
    own_versions, reference_versions = (
        versions_of(model.opset_import) for model in (model, reference)
    )
    op_types = {
        n.op_type
        for n in nodes
        if _arguments_in_schema(n, own_versions) != _arguments_in_schema(n, reference_versions)
    }
    if op_types:
        G_LOGGER.warning(
            f"Copied operators that differ between opset {own_versions.get('')} of the model and"
            f" opset {reference_versions.get('')} of the reference: {', '.join(sorted(op_types))}."
            " Convert one of the models first (polygraphy convert --opset)."
        )


def _arguments_in_schema(node: NodeProto, versions: Mapping[str, int]) -> Any:
    """Return the inputs and attributes of an operator in an opset; None if it has no schema."""
    domain = domain_of(node.domain)
    try:
        schema = onnx.defs.get_schema(node.op_type, versions[domain], domain)
    except (KeyError, onnx.defs.SchemaError):
        return None
    attributes = {
        name: str(attribute.default_value) for name, attribute in schema.attributes.items()
    }
    return [input_name.name for input_name in schema.inputs], attributes


def _drop_replaced(graph: GraphProto, removed_names: set[str]) -> None:
    """Remove nodes and weights that only the replaced nodes needed."""
    delete_where(
        graph.node, lambda node: bool(node.output) and removed_names.issuperset(node.output)
    )
    union = weight_names(graph).union(*(tensors_read(node) for node in graph.node))
    drop_unused(graph, (union | {value.name for value in graph.output}) - removed_names)


def replace_nodes(model: ModelProto, parts: Sequence[ModelProto]) -> ModelProto:
    """Return a copy of a model with the nodes of other models; see the port."""
    copy: ModelProto = copy_of(model)
    results = {name for part in parts for node in part.graph.node for name in node.output}
    weights = {weight.name: weight for part in parts for weight in part.graph.initializer}
    delete_where(copy.graph.node, lambda node: not results.isdisjoint(node.output))
    delete_where(copy.graph.initializer, lambda weight: weight.name in weights)
    copy.graph.node.extend(node for part in parts for node in part.graph.node)
    copy.graph.initializer.extend(weights.values())
    clean(copy.graph)
    sort(copy.graph)
    return copy
