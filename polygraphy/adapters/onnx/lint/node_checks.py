"""Checks every node of a model against the definition of its operator: `onnx.checker`, and shape
inference, one node at a time, so that an error hides no other.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.onnx.graph.declared_types import mistyped_weights
from polygraphy.adapters.onnx.graph.editing import is_only_discouraged
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.graph import constant_tensor, is_constant
from polygraphy.adapters.onnx.lint.body_checks import find_violation_in_body
from polygraphy.adapters.onnx.lint.declarations import (
    dims_of,
    disagreements,
    wrong_declarations,
)
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.parsing import one_line
from polygraphy.adapters.onnx.storage.weights import SMALL, OnnxDataTypes, byte_size, is_external
from polygraphy.adapters.onnx_common.inference import (
    crashes_by_attribute,
    crashes_without_types,
)
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.checks.lint import EXCEPTION, OPSET_IMPORT, WARNING, LintEntry, Source
from polygraphy.domain.checks.operator_call import (
    ATTRIBUTE,
    SHAPE,
    TYPE,
    Body,
    InvalidNode,
    Operand,
    OperatorCall,
    Violation,
)
from polygraphy.domain.checks.operator_rules import violations
from polygraphy.domain.checks.undefined_rules import undefined_results
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import count_text

if TYPE_CHECKING:
    from onnx import (
        FunctionProto,
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

_INDEX_TYPES = (6, 7)
"""The data types of indices, by their numbers in ONNX."""
_LARGEST_INDICES = 64 << 20
"""Largest number of bytes of indices that are checked."""
_INDEXED = frozenset(
    {"Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"}
)

_NO_IMPORT = "No opset import for domain"
"""What the checker says of a node whose operator set is not imported."""
_CHECKED_DOMAINS = ("", "ai.onnx.ml")
"""The domains with operators that have rules."""

Types = ChainMap[str, Any]

_TYPES = OnnxDataTypes()


def find_violations(
    model: ModelProto, values: Mapping[str, Any], chosen: Collection[int] | None = None
) -> list[InvalidNode]:
    """Return the nodes that violate the ONNX specification; see the port."""
    labels = [str(index) for index in range(len(model.graph.node))]
    invalid = {
        wrong_declaration.index: wrong_declaration
        for wrong_declaration in wrong_declarations(model, values)
        if chosen is None or wrong_declaration.index in chosen
    }
    for entry, violation in NodeChecks(model, values, chosen).findings(labels):
        kind, tensor = (violation.kind, violation.tensor) if violation else (SHAPE, "")
        place = entry.nodes[0].partition("/")[2] if entry.nodes else ""
        for index in _positions(model, entry.nodes):
            if chosen is None or index in chosen:
                found = InvalidNode(index, entry.op, entry.message, kind, tensor, place)
                invalid.setdefault(index, found)
    for index, node in enumerate(model.graph.node if values else ()):
        if index not in invalid and (chosen is None or index in chosen) and graphs_of(node):
            inner = find_violation_in_body(model, index, values, find_violations)
            invalid.update({} if inner is None else {index: inner})
    return [invalid[index] for index in sorted(invalid)]


def _positions(model: ModelProto, labels: Sequence[str]) -> list[int]:
    """Return the indices of main-graph nodes for a finding:
    of the node itself, or of the calls of its function.
    """
    where = labels[0].partition("/")[0] if labels else ""
    if where.isdecimal():
        return [int(where)]
    called = {(f.domain, f.name) for f in model.functions if f"{f.domain}.{f.name}" == where}
    return [i for i, node in enumerate(model.graph.node) if (node.domain, node.op_type) in called]


class NodeChecks:
    """Checks the nodes of one model."""

    def __init__(
        self,
        model: ModelProto,
        values: Mapping[str, Any] | None = None,
        chosen: Collection[int] | None = None,
    ) -> None:
        """Create the checks of a model.

        Args:
            model: the model; large weights may be missing.
            values: the known values of tensors of its main graph.
            chosen: the nodes of its main graph that are checked (default: all).
        """
        self._model = model
        self._chosen = chosen
        self._opsets = _opsets(model.opset_import)
        self._functions = {
            (function.domain, function.name): function for function in model.functions
        }
        self._indices = {
            tensor.name: tensor
            for tensor in model.graph.initializer
            if tensor.data_type in _INDEX_TYPES and SMALL < byte_size(tensor) <= _LARGEST_INDICES
        }
        self._mistyped = {value.name: types for value, *types in mistyped_weights(model.graph)}
        self._values = {
            name: value for name, value in (values or {}).items() if isinstance(value, np.ndarray)
        }
        self._lengths = {
            name: len(value) for name, value in (values or {}).items() if isinstance(value, list)
        }

    def entries(self, labels: Sequence[str]) -> Iterator[LintEntry]:
        """Yield the problems; `labels` are the names of the nodes of the main graph."""
        return (entry for entry, _ in self.findings(labels))

    def findings(self, labels: Sequence[str]) -> Iterator[tuple[LintEntry, Violation | None]]:
        """Yield the findings, each with the violation if a rule of this package is broken."""
        context = _context(self._model.ir_version, self._opsets)
        yield from self._graph_problems(self._model.graph, labels, ChainMap(), ChainMap(), context)
        for function in self._model.functions:
            opsets = _opsets(function.opset_import)
            inner = _context(self._model.ir_version, opsets or self._opsets)
            where = f"{function.domain}.{function.name}"
            for index, node in enumerate(function.node):
                if any(attribute.ref_attr_name for attribute in node.attribute):
                    # The values of attribute references are known only where the function is
                    # called.
                    continue
                if (message := _check_node(node, inner)) is not None:
                    label = f"{where}/{node.name or f'{node.op_type}_{index}'}"
                    yield LintEntry(
                        EXCEPTION, Source.CHECKER, message, (label,), node.op_type
                    ), None

    def _graph_problems(
        self,
        graph: GraphProto,
        labels: Sequence[str],
        outer_types: Types,
        outer_data: ChainMap[str, Any],
        context: Any,
    ) -> Iterator[tuple[LintEntry, Violation | None]]:
        """Yield the problems of a graph, each with the broken rule of this package, if any."""
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
        if graph is self._model.graph:
            types.update(self._value_types(value.name for value in graph.input))
        chosen = self._chosen if graph is self._model.graph else None
        last = len(graph.node) if chosen is None else max(chosen, default=-1) + 1
        for index, (node, label) in enumerate(zip(graph.node[:last], labels)):
            if chosen is not None and index not in chosen:
                with suppress(_Contradiction):
                    types.update(self._infer_output_types(node, types, data))
                self._add_known(graph, node, types, data, stated)
                continue
            inner = list(self._subgraph_problems(node, label, types, data, context))
            yield from inner
            if inner:
                continue
            broken: list[Violation] = []
            message = _check_node(node, context)
            if message is not None:
                rule = OPSET_IMPORT if message.startswith(_NO_IMPORT) else ""
                entry = LintEntry(EXCEPTION, Source.CHECKER, message, (label,), node.op_type, rule)
                yield entry, None
            else:
                broken = [*self._violations(node, types, data)]
                for broken_node in broken:
                    yield LintEntry(
                        EXCEPTION,
                        Source.SHAPES,
                        broken_node.message,
                        (label,),
                        node.op_type,
                        is_requirement=True,
                    ), broken_node
                try:
                    output_types = self._infer_output_types(node, types, data)
                except _Contradiction as error:
                    if not broken:
                        text, source = str(error), Source.SHAPES
                        yield LintEntry(EXCEPTION, source, text, (label,), node.op_type), None
                else:
                    if not broken:
                        # Do not run an invalid node, because its errors would be reported for later
                        # nodes.
                        types.update(output_types)
                    for text in disagreements(output_types, stated):
                        yield LintEntry(WARNING, Source.SHAPES, text, (label,), node.op_type), None
            self._add_known(graph, node, types, data, {} if broken else stated)

    def _add_known(
        self,
        graph: GraphProto,
        node: NodeProto,
        types: Types,
        data: ChainMap[str, Any],
        stated: Mapping[str, TypeProto],
    ) -> None:
        """Add known facts about the outputs of a node: types of values, a constant, declared
        types."""
        if graph is self._model.graph:
            types.update(self._value_types(node.output))
        _take_constant(node, data)
        for name in node.output:
            if name not in types and name in stated:
                types[name] = stated[name]

    def _subgraph_problems(
        self, node: NodeProto, label: str, types: Types, data: ChainMap[str, Any], context: Any
    ) -> Iterator[tuple[LintEntry, Violation | None]]:
        """Yield each problem in the subgraphs of a node, with the broken rule or None.

        The rule is one of this package.
        """
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            for position, graph in enumerate(inner):
                number = f"[{position}]" if attribute.graphs else ""
                where = f"{label}/{attribute.name}{number}"
                labels = [
                    f"{where}/{node.name or f'polygraphy_unnamed_node_{index}'}"
                    for index, node in enumerate(graph.node)
                ]
                yield from self._graph_problems(graph, labels, types, data, context)

    def _value_types(self, names: Iterable[str]) -> dict[str, TypeProto]:
        """Return the types of tensors with known values."""
        return {
            name: _array_type(self._values[name])
            for name in names
            if name in self._values and self._values[name].dtype.kind not in "OUS"
        }

    def _violations(
        self, node: NodeProto, types: Types, data: ChainMap[str, Any]
    ) -> Iterator[Violation]:
        """Yield the operator rules that a node breaks."""
        schema = self._schema(node)
        for name in (name for name in node.input if name in self._mistyped):
            declared, actual = self._mistyped[name]
            wanted = f"the declared type {declared} of {name!r}"
            yield Violation(node.op_type, wanted, f"the weight is {actual}", TYPE, name)
        if (function := self._functions.get((node.domain, node.op_type))) is not None:
            yield from wrong_call(node, function)
        if schema is None or domain_of(node.domain) not in _CHECKED_DOMAINS:
            return
        reads_indices = node.op_type in _INDEXED
        inputs = [
            self._operand(name, types, data, is_index=reads_indices) if name else None
            for name in node.input
        ]
        attributes = {
            attribute.name: onnx.helper.get_attribute_value(attribute.default_value)
            for attribute in schema.attributes.values()
            if attribute.default_value.name
        }
        attributes.update(
            (attribute.name, onnx.helper.get_attribute_value(attribute))
            for attribute in node.attribute
            if not attribute.ref_attr_name
            and not attribute.HasField("g")
            and not attribute.HasField("t")
        )
        plain = {name: _decode_attribute(value) for name, value in attributes.items()}
        plain.update(
            (attribute.name, Operand(attribute.name, tuple(attribute.t.dims)))
            for attribute in node.attribute
            if attribute.HasField("t")
        )
        bodies = {
            attribute.name: _body_of(attribute.g)
            for attribute in node.attribute
            if attribute.HasField("g")
        }
        opset = self._opsets.get(node.domain, self._opsets.get("ai.onnx", 0))
        call = OperatorCall(node.op_type, opset, plain, inputs, len(node.output), bodies)
        if bodies:  # For nodes without subgraphs, the checker reports missing parts.
            yield from _missing_parts(call, node, schema)
        yield from _forbidden_types(call, schema)
        if not domain_of(node.domain):
            yield from _type_conflicts(call, schema)
            yield from _forbidden_results(call, schema)
        yield from violations(call)
        if self._chosen is not None:  # For valid nodes, only different results matter.
            yield from undefined_results(call)

    def _operand(
        self, name: str, types: Types, data: ChainMap[str, Any], *, is_index: bool
    ) -> Operand:
        """Return the known type, shape and values of an operand."""
        values = self._values.get(name)
        if values is None and is_index and name in self._indices:
            with suppress(PolygraphyException):  # The file of the weight may be missing.
                values = elements(self._indices[name])
        if values is None and name in data:
            values = elements(data[name])
        if name not in types or not types[name].HasField("tensor_type"):
            return Operand(name, None, values, length=self._lengths.get(name))
        return _typed_operand(name, types[name], values)

    def _schema(self, node: NodeProto) -> Any:
        """Return the definition of an operator; None if there is none."""
        version = self._opsets.get(node.domain, self._opsets.get("ai.onnx", 0))
        if not version or not onnx.defs.has(node.op_type, version, node.domain):
            return None
        return onnx.defs.get_schema(node.op_type, version, node.domain)

    def _infer_output_types(
        self, node: NodeProto, types: Types, data: ChainMap[str, Any]
    ) -> dict[str, TypeProto]:
        """Return the types of a node's outputs as far as the input types determine them."""
        if graphs_of(node):
            return {}
        schema = self._schema(node)
        function = self._functions.get((node.domain, node.op_type))
        if function is not None and all(name in types for name in node.input):
            return _infer_function(function, node, types)
        if schema is None:
            return {}
        names = [name for name in node.input if name]
        is_untyped = not names or len(names) < len(node.input)
        if crashes_by_attribute(node) or (crashes_without_types(node) and is_untyped):
            return {}
        if not all(name in types for name in names):
            return {}
        try:
            node_outputs: dict[str, TypeProto] = onnx_shapes.infer_node_outputs(
                schema,
                node,
                {name: types[name] for name in names},
                {name: data[name] for name in names if name in data},
                opset_imports=list(self._model.opset_import),
                ir_version=self._model.ir_version,
            )
        except onnx_shapes.InferenceError as error:
            raise _Contradiction(one_line(error)) from error
        except Exception:
            # Other errors of the inference are about unknown shapes or types, not about the node.
            return {}
        return node_outputs


def _infer_function(function: FunctionProto, node: NodeProto, types: Types) -> dict[str, TypeProto]:
    """Return the types of the outputs of a call of a function; empty if they cannot be inferred."""
    if any(map(crashes_without_types, function.node)):
        return {}
    read = [types[name] for name in node.input]
    try:
        outputs = onnx_shapes.infer_function_output_types(function, read, list(node.attribute))
    except Exception:  # Errors in a function belong to its nodes, which are checked separately.
        return {}
    return {name: kind for name, kind in zip(node.output, outputs) if name}


def wrong_call(node: NodeProto, function: FunctionProto) -> Iterator[Violation]:
    """Yield violations if a node has more inputs, or more or fewer outputs, than the function that
    it calls.
    """
    count, most = len(node.input), len(function.input)
    if count > most:
        requirement = f"at most {count_text(most, 'input')}"
        yield Violation(node.op_type, requirement, f"it has {count}", TYPE)
    count, expected = len(node.output), len(function.output)
    if count != expected:
        more = " ('' for each unused one)" if count < expected else ""
        requirement = f"{count_text(expected, 'output')}{more}"
        yield Violation(node.op_type, requirement, f"it has {count}", TYPE)


class _Contradiction(Exception):
    """Raised if the types of a node's inputs do not fit its operator."""


_HIGHEST = 2**31 - 1
"""The highest opset that the checker supports; a model may declare any."""


def _opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the imported version of each domain, at most the highest that the package supports."""
    return {entry.domain: min(entry.version, _HIGHEST) for entry in imports}


def _context(ir_version: int, opsets: dict[str, int]) -> Any:
    """Return a checker context for these versions."""
    context = onnx_checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = opsets
    return context


def _type_conflicts(call: OperatorCall, schema: Any) -> Iterator[Violation]:
    """Yield a violation for each input whose data type must equal that of another, and differs."""
    formal = list(schema.inputs)
    operands: dict[str, Operand] = {}
    for position, operand in enumerate(call.inputs):
        if operand is None or not operand.dtype or not formal:
            continue
        parameter = formal[min(position, len(formal) - 1)]
        if position >= len(formal) and str(parameter.option) != str(_variadic()):
            return
        if not parameter.is_homogeneous or "(" in parameter.type_str:
            continue
        first = operands.setdefault(parameter.type_str, operand)
        if first.dtype != operand.dtype:
            actual = f"{operand.name!r} is {operand.dtype} and {first.name!r} is {first.dtype}"
            yield Violation(call.op, "inputs of one data type", actual, TYPE, operand.name)
            return


def _forbidden_types(call: OperatorCall, schema: Any) -> Iterator[Violation]:
    """Yield a violation for the first input whose data type the operator does not accept."""
    formal = list(schema.inputs)
    allowed = {
        constraint.type_param_str: constraint.allowed_type_strs
        for constraint in schema.type_constraints
    }
    for position, operand in enumerate(call.inputs):
        if operand is None or operand.dtype not in _type_names() or not formal:
            continue
        kind = formal[min(position, len(formal) - 1)].type_str
        types = list(allowed.get(kind, [kind]))
        if f"tensor({_type_names()[operand.dtype]})" not in types:
            type_names = {f"tensor({spelled})": name for name, spelled in _type_names().items()}
            names = [type_names.get(spelled, spelled) for spelled in types]
            more = f" and {len(names) - _MOST_TYPES} more" if len(names) > _MOST_TYPES + 1 else ""
            shown = ", ".join(names[:_MOST_TYPES] if more else names)
            actual = f"{operand.name!r} is {operand.dtype}"
            required = f"an input of type {shown}{more}"
            yield Violation(call.op, required, actual, TYPE, operand.name)
            return


_MOST_TYPES = 4
"""Largest number of data types in a message."""
_CHOSEN_TYPES = ("dtype", "output_datatype", "output_dtype", "to")
"""Attributes that choose the data type of the first output; 0 is the default."""


def _forbidden_results(call: OperatorCall, schema: Any) -> Iterator[Violation]:
    """Yield a violation for an attribute with a data type that the operator does not return."""
    formal = list(schema.outputs)
    allowed = {
        constraint.type_param_str: constraint.allowed_type_strs
        for constraint in schema.type_constraints
    }
    for name in _CHOSEN_TYPES:
        number = call.attributes.get(name)
        if not number or not formal:
            continue
        entry = _TYPES.from_native(number)
        types = list(allowed.get(formal[0].type_str, [formal[0].type_str]))
        spelled = "" if entry is None else _type_names().get(entry.name, "")
        if not {f"tensor({spelled})", f"seq(tensor({spelled}))"} & {*types}:
            actual = entry.name if entry is not None else str(number)
            stated = f"attribute {name!r} is {number}"
            stated += f" ({actual})" if entry is not None else ""
            yield Violation(call.op, "a data type that it can return", stated, ATTRIBUTE)


def _missing_parts(call: OperatorCall, node: NodeProto, schema: Any) -> Iterator[Violation]:
    """Yield a violation if an operator with subgraphs has too few or too many inputs or outputs, or
    lacks an attribute.
    """
    for kind, count, least, most in (
        ("input", len(node.input), schema.min_input, schema.max_input),
        ("output", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            limit, required = ("least", least) if count < least else ("most", most)
            text = f"at {limit} {count_text(required, kind)}"
            yield Violation(call.op, text, f"it has {count}", SHAPE)
            return
    given_names = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in given_names:
            yield Violation(call.op, f"attribute {name!r}", "it is missing", ATTRIBUTE)


def _body_of(graph: GraphProto) -> Body:
    """Return the declared inputs and outputs of a subgraph."""
    weights = {weight.name for weight in graph.initializer}
    return Body(
        graph.name,
        [
            _typed_operand(value.name, value.type)
            for value in graph.input
            if value.name not in weights
        ],
        [_typed_operand(value.name, value.type) for value in graph.output],
    )


def _typed_operand(name: str, described: TypeProto, values: Any = None) -> Operand:
    """Return an operand with the facts of its type; without facts if it is not a tensor."""
    if not described.HasField("tensor_type"):
        return Operand(name, None, values)
    dims = dims_of(described)
    entry = _TYPES.from_native(described.tensor_type.elem_type)
    return Operand(
        name,
        None if dims is None else tuple(d if isinstance(d, int) else None for d in dims),
        values,
        "" if entry is None else entry.name,
    )


@cache
def _type_names() -> dict[str, str]:
    """Return the names of data types in the definitions of operators,
    by their names in this package.
    """
    names = {}
    for number in onnx.TensorProto.DataType.values():
        entry = _TYPES.from_native(number)
        if entry is not None:
            names[entry.name] = onnx.TensorProto.DataType.Name(number).lower()
    return names


def _variadic() -> Any:
    """Return onnx's constant for a variadic parameter."""
    return onnx.defs.OpSchema.FormalParameterOption.Variadic


def _array_type(array: Any) -> TypeProto:
    """Return the type of an array as an ``onnx.TypeProto``."""
    meta = TensorMetadata.from_feed_dict({"": array})[""]
    number = 0 if meta.dtype is None else _TYPES.to_native(meta.dtype) or 0
    tensor_type_proto: TypeProto = onnx.helper.make_tensor_type_proto(number, list(array.shape))
    return tensor_type_proto


def _check_node(node: NodeProto, context: Any) -> str | None:
    """Return the checker's error about a node; None if there is none."""
    if graphs_of(node):
        return None  # Subgraphs read outer tensors, which the checker does not know here.
    try:
        onnx_checker.check_node(node, context)
    except Exception as error:  # ValidationError; for malformed messages, any error of protobuf.
        text = one_line(error)
        if is_only_discouraged(text):
            return None
        is_import = text.startswith(_NO_IMPORT)
        return None if is_import and is_foreign(node.domain) else text
    return None


@cache
def is_foreign(domain: str) -> bool:
    """Return whether the onnx package has no operators in a domain, such as that of a plugin."""
    return all(domain_of(domain) != schema.domain for schema in onnx.defs.get_all_schemas())


def _tensor_type(tensor: TensorProto) -> TypeProto:
    """Return the type of a weight as an ``onnx.TypeProto``."""
    tensor_type_proto: TypeProto = onnx.helper.make_tensor_type_proto(
        tensor.data_type, list(tensor.dims)
    )
    return tensor_type_proto


def _take_constant(node: NodeProto, data: ChainMap[str, Any]) -> None:
    """Store the value of a constant, because shapes may depend on it."""
    if is_constant(node) and len(node.output) == 1:
        tensor = constant_tensor(node)
        if tensor is not None and byte_size(tensor) <= SMALL:
            data[node.output[0]] = tensor


def _decode_attribute(value: Any) -> Any:
    """Return the value of an attribute with strings for bytes, also in a list."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [_decode_attribute(member) for member in value]
    return value
