"""The element types of all tensors of a graph, from the schemas of its operators.

Unlike shape inference, this needs no weights, includes subgraphs and functions, and also infers
types backwards: if one operand of an addition is known, so is the other. A type is written as in
the standard: ``tensor(float)``, ``seq(tensor(int64))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import attribute_named, graphs_of

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        TensorProto,
        TypeProto,
    )


onnx = mod.lazy_import("onnx")

FLOAT = 1
TYPE_ATTRIBUTES: dict[str, tuple[str, int | None]] = {
    "Bernoulli": ("dtype", None),
    "BlackmanWindow": ("output_datatype", FLOAT),
    "Cast": ("to", None),
    "DequantizeLinear": ("output_dtype", None),
    "EyeLike": ("dtype", None),
    "HammingWindow": ("output_datatype", FLOAT),
    "HannWindow": ("output_datatype", FLOAT),
    "MelWeightMatrix": ("output_datatype", FLOAT),
    "RandomNormal": ("dtype", FLOAT),
    "RandomNormalLike": ("dtype", None),
    "RandomUniform": ("dtype", FLOAT),
    "RandomUniformLike": ("dtype", None),
}
"""Operators whose output type is an attribute: which, and its default; None is the input's type."""

_INNER_LOOP_ARGUMENTS = 2  # The iteration number and the condition precede the carried values.


class Parameter(NamedTuple):
    """One formal input or output of an operator.

    Attributes:
        variable: the name of its type variable, or the type itself.
        types: the types that are allowed.
    """

    variable: str
    types: frozenset[str]


class Signature(NamedTuple):
    """The formal inputs and outputs of an operator; the last of each repeats if variadic."""

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    is_deterministic: bool

    def parameters_for(
        self, inputs: int, outputs: int
    ) -> tuple[list[Parameter], list[Parameter]] | None:
        """Return the input and the output parameters of a node with that many of each, or None.
        The result is None if there are too many.
        """
        if (inputs and not self.inputs) or (outputs and not self.outputs):
            return None
        return _repeat_parameters(self.inputs, inputs), _repeat_parameters(self.outputs, outputs)


@cache
def _parameters_of(
    signature: Signature, inputs: int, outputs: int
) -> tuple[list[Parameter], list[Parameter]] | None:
    """Return the input and the output parameters of a node with that many of each, or None.
    The result is None if there are too many, or the operator is unknown.
    """
    return signature.parameters_for(inputs, outputs)


def _repeat_parameters(parameters: Sequence[Parameter], count: int) -> list[Parameter]:
    """Return one parameter for each tensor; the last one repeats."""
    return [parameters[min(index, len(parameters) - 1)] for index in range(count)]


@cache
def signature_of(op_type: str, domain: str, version: int) -> Signature | None:
    """Return the signature of an operator in the standard; None if it is unknown."""
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # A name that is not UTF-8 is returned as bytes.
        return None
    variables = {
        type_constraint.type_param_str: type_constraint.allowed_type_strs
        for type_constraint in schema.type_constraints
    }
    return Signature(
        tuple(_parameter(declared, variables) for declared in schema.inputs),
        tuple(_parameter(declared, variables) for declared in schema.outputs),
        not op_type.startswith(("Random", "Bernoulli", "Multinomial")),
    )


def _parameter(declared: Any, variables: Mapping[str, Sequence[str]]) -> Parameter:
    # Operands of a heterogeneous variadic parameter share its name but not its type.
    """Return a declared input or output with its allowed types."""
    name = declared.type_str if declared.is_homogeneous else f"{declared.type_str}/any"
    try:
        types = declared.types
    except TypeError:  # onnx 1.20 cannot return some of the schemas.
        types = variables.get(declared.type_str, [declared.type_str])
    return Parameter(name, frozenset(types))


def domain_of(domain: str) -> str:
    """Return the canonical spelling of a domain, because the standard one has two."""
    return "" if domain == "ai.onnx" else domain


def versions_of(imports: Iterable[Any]) -> dict[str, int]:
    """Return the versions of the operator sets that a model or function imports, by domain."""
    return {domain_of(entry.domain): entry.version for entry in imports}


def type_name(kind: TypeProto) -> str | None:
    """Return a type in ONNX notation; None if it is not declared."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return element_type(kind.tensor_type.elem_type)
    if which == "sequence_type":
        inner = type_name(kind.sequence_type.elem_type)
        return inner and f"seq({inner})"
    if which == "optional_type":
        inner = type_name(kind.optional_type.elem_type)
        return inner and f"optional({inner})"
    return f"other({which})" if which else None


@cache
def element_type(number: int) -> str | None:
    """Return the tensor type, in ONNX notation, for the number of an element type, or None.
    The result is None if unknown."""
    names = onnx.TensorProto.DataType
    return f"tensor({names.Name(number).lower()})" if number in names.values() and number else None


class GraphTypes:
    """The types of the tensors that are visible in a graph.

    Attributes:
        parent: the types of the outer graph.
    """

    def __init__(self, parent: GraphTypes | None = None) -> None:
        """Start without types; `parent` has those of the outer graph."""
        self.parent = parent
        self._own: dict[str, str] = {}
        self._inner: dict[int, list[GraphTypes]] = {}

    def __getitem__(self, name: str) -> str | None:
        """Return the type of a tensor; None if it is unknown."""
        scope: GraphTypes | None = self
        while scope is not None:
            if name in scope._own:
                return scope._own[name]
            scope = scope.parent
        return None

    def set(self, name: str, kind: str | None) -> None:
        """Record the type of a tensor; known types are kept."""
        if name and kind and self[name] is None:
            self._own[name] = kind

    def declare(self, name: str, kind: str | None) -> None:
        """Record the type of a tensor of this graph, which may hide one of an outer graph."""
        if name and kind:
            self._own.setdefault(name, kind)

    def inner(self, index: int) -> list[GraphTypes]:
        """Return the types in the subgraphs of the node at an index, in order."""
        return self._inner.get(index, [])


class TypeInference:
    """Infers the element types of a model.

    Attributes:
        calls: the input types of every call of a function, by ``(domain, name, overload)``.
    """

    def __init__(self, model: ModelProto) -> None:
        """Set the model, whose functions and opsets are used."""
        self._functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
        self._versions = versions_of(model.opset_import)
        self.calls: dict[tuple[str, str, str], set[tuple[str | None, ...]]] = {}
        self._results: dict[Any, list[str | None]] = {}

    def infer_graph(self, graph: GraphProto, parent: GraphTypes | None = None) -> GraphTypes:
        """Return the types in a graph and in all its subgraphs."""
        return self._infer_types(graph, parent, self._versions, ())

    def infer_function(self, function: FunctionProto, inputs: Sequence[str | None]) -> GraphTypes:
        """Return the types in a function that is called with inputs of given types."""
        types = GraphTypes()
        for name, kind in zip(function.input, inputs):
            types.declare(name, kind)
        for value in function.value_info:
            types.declare(value.name, type_name(value.type))
        versions = versions_of(function.opset_import)
        self._infer_nodes(function.node, types, versions)
        return types

    def _infer_types(
        self,
        graph: GraphProto,
        parent: GraphTypes | None,
        versions: dict[str, int],
        inputs: Sequence[str | None],
    ) -> GraphTypes:
        """Return the types in a graph, for given types of its inputs."""
        types = GraphTypes(parent)
        for tensor in graph.initializer:
            types.declare(tensor.name, element_type(tensor.data_type))
        for sparse in graph.sparse_initializer:
            types.declare(sparse.values.name, "sparse")
        for values in (graph.input, graph.output, graph.value_info):
            for value in values:
                types.declare(value.name, type_name(value.type))
        for value, kind in zip(graph.input, inputs):
            types.declare(value.name, kind)
        self._infer_nodes(graph.node, types, versions)
        return types

    def _infer_nodes(
        self, nodes: Sequence[NodeProto], types: GraphTypes, versions: dict[str, int]
    ) -> None:
        """Record the types of the results of nodes."""
        for index, node in enumerate(nodes):
            kinds = [types[name] for name in node.input[:]]
            inner = [
                self._infer_types(graph, types, versions, _body_inputs(node, kinds))
                for graph in graphs_of(node)
            ]
            if inner:
                types._inner[index] = inner
            outputs = self._outputs(node, types, kinds, inner, versions)
            for name, kind in zip(node.output[:], outputs):
                types.set(name, kind)

    def _outputs(
        self,
        node: NodeProto,
        types: GraphTypes,
        input_types: Sequence[str | None],
        inner: Sequence[GraphTypes],
        versions: dict[str, int],
    ) -> Sequence[str | None]:
        """Return the types of the outputs of a node, None for unknown ones."""
        domain = domain_of(node.domain)
        function = self._functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self._call_types(function, input_types)
        signature = signature_of(node.op_type, domain, versions.get(domain, 1))
        if signature is None:
            return [None] * len(node.output)
        if not domain and (special := _special_output_types(node, input_types, inner)) is not None:
            return special
        parameters = _parameters_of(signature, len(node.input), len(node.output))
        return _unify_types(node, types, parameters) if parameters else [None] * len(node.output)

    def _call_types(
        self, function: FunctionProto, input_types: Sequence[str | None]
    ) -> Sequence[str | None]:
        """Return the types of the outputs of a function call."""
        key = (domain_of(function.domain), function.name, function.overload)
        self.calls.setdefault(key, set()).add(tuple(input_types))
        slot = (key, tuple(input_types))
        if slot not in self._results:
            # A placeholder that prevents endless recursion in invalid models; functions cannot be
            # recursive.
            self._results[slot] = [None] * len(function.output)
            types = self.infer_function(function, input_types)
            self._results[slot] = [types[name] for name in function.output]
        return self._results[slot]


def _body_inputs(node: NodeProto, input_types: Sequence[str | None]) -> Sequence[str | None]:
    """Return the types of the inputs of a loop body; empty for other nodes."""
    if node.op_type == "Loop":
        return ["tensor(int64)", "tensor(bool)", *input_types[_INNER_LOOP_ARGUMENTS:]]
    return input_types if node.op_type == "Scan" else ()


def _special_output_types(
    node: NodeProto, input_types: Sequence[str | None], inner: Sequence[GraphTypes]
) -> Sequence[str | None] | None:
    """Return the output types that no type variable determines; None if one does."""
    op = node.op_type
    if op in ("If", "Loop", "Scan") and inner:
        graph = next(iter(graphs_of(node)))
        names = [value.name for value in graph.output][1 if op == "Loop" else 0 :]
        return [inner[0][name] for name in names]
    if (
        op in ("SequenceAt", "ConcatFromSequence", "OptionalGetElement")
        and input_types
        and input_types[0]
    ):
        return [
            input_types[0].partition("(")[2][:-1] if "(tensor" in input_types[0] else input_types[0]
        ]
    if op in ("SequenceConstruct", "SplitToSequence") and input_types and input_types[0]:
        return [f"seq({input_types[0]})"]
    if op == "Constant":
        return [_constant_type(node.attribute)]
    if op == "ConstantOfShape":
        value = attribute_named(node, "value")
        return [element_type(value.t.data_type) if value else element_type(FLOAT)]
    return _output_types_in_attributes(node, input_types) if op in TYPE_ATTRIBUTES else None


def _output_types_in_attributes(
    node: NodeProto, input_types: Sequence[str | None]
) -> Sequence[str | None] | None:
    """Return the output types that an attribute of a node sets, or None.
    The result is None if the attribute does not set them.
    """
    name, default = TYPE_ATTRIBUTES[node.op_type]
    stated = attribute_named(node, name)
    if stated is not None and stated.ref_attr_name:
        return [None] * len(node.output)
    if stated is not None and stated.i:
        return [element_type(stated.i)]
    if default is not None:
        return [element_type(default)]
    if node.op_type == "DequantizeLinear":
        return [input_types[1]]
    return (
        [input_types[0]] if node.op_type.endswith("Like") or node.op_type == "Bernoulli" else None
    )


def _constant_type(attributes: Iterable[AttributeProto]) -> str | None:
    """Return the type of a Constant from its attributes; None if it is unknown."""
    for attribute in attributes:
        if attribute.ref_attr_name:
            return None
        if attribute.name == "value":
            return element_type(attribute.t.data_type)
        if attribute.name == "sparse_value":
            return "sparse"
        for kind in ("float", "int", "string"):
            if attribute.name.startswith(f"value_{kind}"):
                return f"tensor({'int64' if kind == 'int' else kind})"
    return None


def _unify_types(
    node: NodeProto, types: GraphTypes, parameters: tuple[list[Parameter], list[Parameter]]
) -> Sequence[str | None]:
    """Bind the type variables of an operator to the types of a node's tensors, and return the types
    of its outputs.
    """
    inputs, outputs = parameters
    bound: dict[str, str | None] = {}
    used_input = node.input[:]
    for name, parameter in [*zip(used_input, inputs), *zip(node.output[:], outputs)]:
        free = parameter.variable not in bound and not parameter.variable.endswith("/any")
        if name and free and (kind := types[name]):
            bound[parameter.variable] = kind
    for name, parameter in zip(used_input, inputs):
        types.set(name, bound.get(parameter.variable))
    return [
        bound.get(parameter.variable)
        or (next(iter(parameter.types)) if len(parameter.types) == 1 else None)
        for parameter in outputs
    ]


CONSTANTS = frozenset({"Constant", "ConstantOfShape"})
"""Operators whose attribute is their value."""

_FIRST_TYPED_DEQUANTIZE = 23
"""Before this opset, the output of DequantizeLinear has the type of its scale."""


def set_output_type(
    node: NodeProto,
    elem_type: int,
    version: int,
    convert: Callable[[TensorProto, TensorProto, str, Sequence[str]], None],
) -> None:
    """Change the output type of a node from float32 to another one, in its attribute or constant
    value; do nothing for other nodes.

    Args:
        node: the node, of the standard's domain.
        elem_type: the number of the type.
        version: the opset.
        convert: converts a tensor; see `cast_rules.CastSettings`.
    """
    if node.op_type in CONSTANTS:
        _convert_value(node, convert)
        return
    if node.op_type not in TYPE_ATTRIBUTES:
        return
    name, default = TYPE_ATTRIBUTES[node.op_type]
    stated = attribute_named(node, name)
    can_state = node.op_type != "DequantizeLinear" or version >= _FIRST_TYPED_DEQUANTIZE
    if stated is not None:
        stated.i = elem_type
    elif default is not None or can_state:
        node.attribute.append(onnx.helper.make_attribute(name, elem_type))


def _convert_value(
    node: NodeProto, convert: Callable[[TensorProto, TensorProto, str, Sequence[str]], None]
) -> None:
    """Replace the value of a node with its converted elements."""
    value = onnx.TensorProto(data_type=FLOAT)
    for attribute in node.attribute:
        if attribute.name == "value":
            value.CopyFrom(attribute.t)
        elif attribute.name == "value_float":
            value.float_data.append(attribute.f)
        elif attribute.name == "value_floats":
            value.float_data.extend(attribute.floats)
            value.dims.append(len(attribute.floats))
    if not node.attribute:  # ConstantOfShape without a value returns zeros.
        value.float_data.append(0.0)
        value.dims.append(1)
    tensor = onnx.TensorProto(name=value.name)
    convert(value, tensor, node.output[0], ())
    del node.attribute[:]
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
