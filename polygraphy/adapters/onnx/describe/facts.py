"""Facts about an ONNX model that are known without running it.

The data types in which the outputs of an ONNX model are computed.

Weights and inputs are the same in every backend, whatever their precision; only the precision of
nodes matters.

The values that the inputs of an ONNX graph accept if they are indices or masks.

The range of an index follows from the tensor that it selects from. An input that is used as a
condition is a mask, and so is one that is subtracted from one and multiplied with a large number,
as in ``(1 - mask) * -10000``, which is added to scores to exclude. An input that is only compared
with constants accepts these values: all of a range in a one-hot encoding ``x == range(n)``, or one
number, such as a sampling rate that chooses a branch.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from polygraphy import mod
from polygraphy.adapters.onnx.describe.parts import layouts_of
from polygraphy.adapters.onnx.graph.graph import graph_weights
from polygraphy.adapters.onnx.graph.inlining import inline_functions
from polygraphy.adapters.onnx.graph.shapes import set_input_shapes, shape_of, values_of
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.parsing import (
    MalformedError,
    names_pattern,
    operators,
)
from polygraphy.adapters.onnx.storage.weights import OnnxDataTypes, all_graphs
from polygraphy.adapters.onnx_common.inference import infer_shapes
from polygraphy.adapters.onnx_common.messages import (
    attribute_named,
    copy_of,
    graphs_of,
    inputs_of,
    outer_names,
)
from polygraphy.domain.catalog.compute import ACCURACY_LEVELS, ComputePrecision
from polygraphy.domain.model.regions import BOUNDED, MOVES
from polygraphy.domain.tensors.facts import (
    DeferredFacts,
    DeferredLayouts,
    Facts,
    InputHint,
    ModelFacts,
)
from polygraphy.domain.tensors.naming import one_line
from polygraphy.domain.tensors.parts import Layout
from polygraphy.domain.tensors.precision import coarsest_type, precision_of
from polygraphy.domain.tensors.shapes import may_be_caches
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto


_QUANTIZED = "int8"
_TYPES_BY_ATTRIBUTE = {
    "Cast": "to",
    "RandomNormal": "dtype",
    "RandomNormalLike": "dtype",
    "RandomUniform": "dtype",
    "RandomUniformLike": "dtype",
}
_TYPE_OF_INPUT = {"CastLike": 1, "DequantizeLinear": 1}


def compute_dtypes(
    model: ModelProto, lowered: ComputePrecision | None = None
) -> tuple[dict[str, str], ComputePrecision | None]:
    """Return, by output, the least precise data type, and the model's own operator precision.
    The data type is the least precise one in the output's computation. The precision is that of
    operators on float32 tensors. Outputs with unknown types are missing.

    Args:
        model: the model.
        lowered: the precision in which its backend computes operators on float32 tensors, if not
            float32.
    """
    walk = _Walk(
        {function.name: function.node for function in model.functions},
        {} if lowered is None else lowered.by_operator,
    )
    walk.visit_graph(model.graph)
    dtypes = _coarsest_output_types(model, walk)
    if lowered is None or not walk.lowered:
        return dtypes, None
    return dtypes, evolve(lowered, operators=tuple(walk.lowered))


def _coarsest_output_types(model: ModelProto, walk: _Walk) -> dict[str, str]:
    """Return the coarsest data type on the way to each output, by name."""
    return {
        output.name: walk.coarsest[output.name]
        for output in model.graph.output
        if output.name in walk.coarsest
    }


class _Walk:
    """Tracks the least precise type along the nodes of a graph in file order."""

    def __init__(self, functions: Mapping[str, object], lowered: Mapping[str, str]) -> None:
        """Set the functions of the model, and operators that compute in lower precision."""
        self.types: dict[str, str] = {}  # The data type of each tensor.
        # The coarsest data type that a tensor was computed from.
        self.coarsest: dict[str, str] = {}
        self.lowered: dict[str, None] = {}  # The operators that are not computed in float32.
        self._functions = functions
        self._dtypes = lowered

    def visit_graph(self, graph: GraphProto) -> None:
        """Record the types of all tensors of a graph, and the coarsest types on the way to them."""
        for tensor in graph.initializer:
            self._note_type(tensor.name, tensor.data_type)
        for value in (*graph.input, *graph.value_info, *graph.output):
            self._note_type(value.name, value.type.tensor_type.elem_type)
        for node in graph.node:
            self._visit_node(node)

    def _note_type(self, name: str, elem_type: int) -> None:
        """Record the data type of a tensor, if it is known."""
        if elem_type:
            self.types[name] = _name_of(elem_type)

    def _visit_node(self, node: NodeProto) -> None:
        """Record the types and the coarsest data type of the outputs of a node, and its
        subgraphs."""
        passed = [self.coarsest[name] for name in node.input if name in self.coarsest]
        for body in graphs_of(node):
            self.visit_graph(body)
            passed += [self.coarsest[out.name] for out in body.output if out.name in self.coarsest]
        output_type = self._output_type(node)
        for name in node.output:
            kind = (
                self.types.setdefault(name, output_type)
                if output_type
                else self.types.get(name, "")
            )
            if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
                kind = output_type or kind
            if (inside := self._compute_type(node, kind)) is not None:
                passed = [*passed, inside]
            precision = coarsest_type([*passed, kind] if _is_rounded(kind, node) else passed)
            if precision is not None:
                self.coarsest[name] = precision.name

    def _compute_type(self, node: NodeProto, dtype: str) -> str | None:
        """Return the compute type of a node on float32 tensors, or None.
        The result is None if it is float32, or for other tensors.
        """
        if dtype != "float32":
            return None
        if node.op_type == "MatMulNBits":
            level = attribute_named(node, "accuracy_level")
            return None if level is None else ACCURACY_LEVELS.get(level.i)
        if (fixed_dtype := self._dtypes.get(node.op_type)) is not None:
            self.lowered[node.op_type] = None
        return fixed_dtype

    def _output_type(self, node: NodeProto) -> str:
        """Return the data type of the result of a node, if the node alone determines it."""
        if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
            zero_point = self.types.get(node.input[2], "") if len(node.input) > 2 else ""
            return zero_point or _QUANTIZED
        attribute = attribute_named(node, _TYPES_BY_ATTRIBUTE.get(node.op_type, ""))
        if attribute is not None:
            return _name_of(attribute.i)
        if node.op_type in ("Constant", "ConstantOfShape"):
            value = attribute_named(node, "value")
            return _name_of(value.t.data_type) if value is not None else ""
        if node.op_type in _TYPE_OF_INPUT:
            index = _TYPE_OF_INPUT[node.op_type]
            return self.types.get(node.input[index], "") if len(node.input) > index else ""
        kinds = (self.types.get(name, "") for name in node.input)
        return next((name for name in kinds if name.startswith(("float", "bfloat"))), "")


def _is_rounded(dtype: str, node: NodeProto) -> bool:
    """Return whether a node rounds its results to a data type.
    Integers only count as quantized numbers.
    """
    if node.op_type in ("Constant", "ConstantOfShape"):
        return False
    if dtype.startswith(("float", "bfloat")):
        return precision_of(dtype) is not None
    return node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear")


def _name_of(elem_type: int) -> str:
    """Return our name of an ONNX element type; empty if it is unknown."""
    native = OnnxDataTypes().from_native(elem_type)
    return "" if native is None else native.name


onnx = mod.lazy_import("onnx")

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_SAME_VALUES = frozenset(
    {
        "Cast",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
_SHUTS_OUT = 1000
"""Least factor that a mask is multiplied by to exclude masked positions."""

_MANY = 1 << 20
"""More values than these are not a choice in the source of a model."""

_INDEXING = frozenset({"Gather", "GatherElements", "ScatterElements"})
_SHAPE_ONLY = frozenset({"Shape", "Size"})
LIMITING = _INDEXING | {"Cast", "Equal", "OneHot", "Sub", "Where"}
"""Every graph with a hint has at least one of these operators."""

_MASK = InputHint(0, 1, "a mask")


def input_hints(graph: GraphProto) -> dict[str, InputHint]:
    """Return, by input, the values that it accepts, if known.
    Masks may have any type, indices only integers."""
    graph_uses = _GraphUses(graph)
    hints = {}
    for value in inputs_of(graph):
        is_integer = _is_integer(value)
        uses = list(graph_uses.hints_from_uses(value.name)) if is_integer else []
        compared = None if uses or not is_integer else graph_uses.comparison_hint(value.name)
        if compared is not None:
            uses.append(compared)
        if graph_uses.is_inverted_mask(value.name):
            uses.append(_MASK)
        if uses:
            # Use the narrowest range, because every value must be valid for every use.
            hints[value.name] = min(uses, key=lambda hint: hint.high)
    return hints


def _is_integer(value: ValueInfoProto) -> bool:
    """Return whether a tensor has an integer type."""
    dtype = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
    return dtype in _INTEGERS


class _GraphUses:
    """The consumers, shapes and constants of a graph."""

    def __init__(self, graph: GraphProto) -> None:
        """Index a graph."""
        self._consumers: dict[str, list[NodeProto]] = defaultdict(list)
        self._shapes: dict[str, list[int]] = {}
        self._constants = graph_weights(graph)
        self._captured = {
            name for node in graph.node for inner in graphs_of(node) for name in outer_names(inner)
        }
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self._consumers[name].append(node)
        for value in (*graph.value_info, *graph.input):
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                self._shapes[value.name] = [dim.dim_value for dim in dims]
        for name, tensor in self._constants.items():
            self._shapes[name] = list(tensor.dims)

    def hints_from_uses(self, name: str) -> Iterator[InputHint]:
        """Yield a hint from each use of a tensor, directly or reshaped."""
        for node, at in self._users(name):
            hint = self._hint_from_use(node, at)
            if hint is not None:
                yield hint

    def comparison_hint(self, name: str) -> InputHint | None:
        """Return the range of constants that a tensor is only compared with, or None.
        The result is None if it has other uses, or for a few numbers that include zero and one,
        which any data contain."""
        constants: list[int] = []
        for node, at in self._users(name):
            if node.op_type == "Equal" and (values := self._integer_elements(node.input[1 - at])):
                constants += values
            elif node.op_type not in _SHAPE_ONLY and not _passes_on(node, at):
                return None
        if not constants or not self._captured.isdisjoint(self._tensors_with_values_of(name)):
            return None
        low, high = min(constants), max(constants)
        if low < high and set(constants) == set(range(low, high + 1)):
            reason = f"a value to compare with each number from {low} to {high}"
            return InputHint(low, high, reason) if high > 1 else None
        is_single = prod(self._shapes.get(name, [0])) == 1
        if not is_single or {0, 1} & set(constants):
            return None
        return InputHint(constants[0], constants[0], f"a value to compare with {constants[0]}")

    def is_inverted_mask(self, name: str) -> bool:
        """Return whether one minus the tensor is used to exclude elements."""
        return any(
            node.op_type == "Sub"
            and self._constant_number(node.input[1 - at]) == 1
            and any(self._excludes_ones(*user) for user in self._users(node.output[0]))
            for node, at in self._users(name)
        )

    def _excludes_ones(self, node: NodeProto, at: int) -> bool:
        """Return whether a node excludes the elements where its input is one."""
        if node.op_type == "Mul":
            return abs(self._constant_number(node.input[1 - at]) or 0) >= _SHUTS_OUT
        return _is_condition(node, at)

    def _users(self, name: str) -> Iterator[tuple[NodeProto, int]]:
        """Yield each node that uses the values of a tensor, and the position of its input.

        It reads the tensor directly or reshaped.
        """
        for current in self._tensors_with_values_of(name):
            for node in self._consumers[current]:
                yield node, list(node.input).index(current)

    def _tensors_with_values_of(self, name: str) -> Iterator[str]:
        """Yield the tensors with all or some values of a tensor, itself first."""
        visited, pending = {name}, [name]
        while pending:
            current = pending.pop()
            yield current
            for node in self._consumers[current]:
                if _passes_on(node, list(node.input).index(current)):
                    pending += [output for output in node.output if output not in visited]
                    visited.update(node.output)

    def _hint_from_use(self, node: NodeProto, at: int) -> InputHint | None:
        """Return the hint from one use of a tensor; None if there is none."""
        if node.op_type in _INDEXING and at == 1:
            return self._indices(node)
        if node.op_type == "OneHot" and at == 0:
            depth = int(self._constant_number(node.input[1]) or 0)
            return InputHint(0, depth - 1, f"one-hot of depth {depth}") if depth > 0 else None
        if _is_condition(node, at):
            return _MASK
        return None

    def _indices(self, node: NodeProto) -> InputHint | None:
        """Return the range of indices into the table that a node reads; None if it is unknown."""
        table = node.input[0]
        shape = self._shapes.get(table)
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
        if shape is None or not -len(shape) <= axis < len(shape) or shape[axis] < 1:
            return None
        return InputHint(0, shape[axis] - 1, f"indices into {shape[axis]} entries of {table!r}")

    def _constant_number(self, name: str) -> float | None:
        """Return the value of a constant with one element; None for other tensors."""
        values = self._constant_elements(name, at_most=1)
        return float(values[0]) if len(values) == 1 else None

    def _integer_elements(self, name: str) -> list[int]:
        """Return the elements of an integer constant; empty for other tensors."""
        values = self._constant_elements(name, _MANY)
        integers = [int(value) for value in values if isinstance(value, int) or value.is_integer()]
        return integers if len(integers) == len(values) else []

    def _constant_elements(self, name: str, at_most: int) -> list[Any]:
        """Return the elements of a constant as numbers.
        The result is empty if it is too large, or stored in a file.
        """
        tensor = self._constants.get(name)
        if tensor is None or (tensor.HasField("data_location") and tensor.data_location):
            return []
        return elements(tensor).ravel().tolist() if prod(tensor.dims) <= at_most else []


def _passes_on(node: NodeProto, at: int) -> bool:
    """Return whether the results of a node are values of its input at that position."""
    return node.op_type in _SAME_VALUES and at == 0 and not _is_condition(node, 0)


def _is_condition(node: NodeProto, at: int) -> bool:
    """Return whether an input of a node is used as a boolean."""
    if node.op_type == "Where":
        return at == 0
    if node.op_type != "Cast":
        return False
    to = next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)
    return bool(to == onnx.TensorProto.BOOL)


_LARGEST_BYTES = 1 << 28
"""For a message, shapes of larger models are not inferred."""


def describe_node_inputs(
    model: Any, op: str, name: str, shapes: Mapping[str, Sequence[int]]
) -> str:
    """Return the opset and the inputs of a node as text, with known types and shapes.
    The result is empty if the node is not found or ambiguous.

    Args:
        model: a model, its bytes, or its path.
        op: the operator.
        name: the name of the node; may be empty.
        shapes: the shapes of the inputs of the model, if known.
    """
    try:
        loaded = _load_small_model(model)
        if loaded is None:
            return ""
        _fix_input_shapes(loaded.graph, shapes)
        inferred = infer_shapes(loaded, data_prop=True)
    except Exception as error:  # The error is reported without these details.
        G_LOGGER.verbose(f"Shapes could not be inferred: {error}")
        return ""
    graphs = list(all_graphs(inferred.graph))
    nodes = [
        node for graph in graphs for node in graph.node if node.op_type == op and node.name == name
    ]
    if len(nodes) != 1:
        return ""
    (node,) = nodes
    values = {value.name: _describe_value(value) for graph in graphs for value in values_of(graph)}
    for graph in graphs:
        values.update(
            (tensor.name, _describe_type(tensor.data_type, tensor.dims))
            for tensor in graph.initializer
        )
    opsets = {entry.domain: entry.version for entry in inferred.opset_import}
    inputs = [
        f"{entry} {values[entry]}" if entry in values else entry for entry in node.input if entry
    ]
    opset = opsets.get(node.domain, "?")
    return one_line(f"{op} of opset {opset} on {', '.join(inputs) or 'nothing'}")


def _load_small_model(model: Any) -> ModelProto | None:
    """Return a copy of a model, loaded if it is a path or bytes; None if it is too large."""
    if isinstance(model, (str, Path)):
        if Path(model).stat().st_size > _LARGEST_BYTES:
            return None
        return onnx.load(str(model), load_external_data=False)  # type: ignore[no-any-return]
    if isinstance(model, bytes):
        return onnx.load_model_from_string(model) if len(model) <= _LARGEST_BYTES else None
    copied: ModelProto = copy_of(model)
    return copied


def _fix_input_shapes(graph: GraphProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Set the shapes of inputs to those of the data, and remove all declared shapes of other
    tensors.
    """
    set_input_shapes(graph, shapes)
    if shapes:
        del graph.value_info[:]
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")


def _describe_value(value: ValueInfoProto) -> str:
    """Return data type and shape of a tensor as text."""
    shape = shape_of(value)
    known_dims = shape and ["?" if dim is None else dim for dim in shape]
    return _describe_type(value.type.tensor_type.elem_type, known_dims)


def _describe_type(kind: int, shape: Sequence[Any] | None) -> str:
    """Return a data type and a shape as text, such as ``float32[1,3]``."""
    name = onnx.TensorProto.DataType.Name(kind).lower()
    name = "float32" if name == "float" else name
    return name if shape is None else f"{name}[{','.join(map(str, shape))}]"


_CHOOSES = MOVES | {
    "AveragePool", "Clip", "Compress", "DepthToSpace", "DequantizeLinear", "Dropout", "Expand",
    "Gather", "GatherElements", "GatherND", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Neg",
    "QuantizeLinear", "ReduceMax", "ReduceMean", "ReduceMin", "Resize", "SpaceToDepth", "Split",
    "Tile", "TopK", "ZipMap",
}  # fmt: skip
"""Operators whose results are within the range of their first input; quantized numbers count as the
numbers that they represent.
"""
_JOINS = frozenset({"Concat", "Max", "Mean", "Min", "Mul"})
"""Operators whose results are within the range of all their inputs."""
_PROBABILITIES = frozenset({"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"})
_SORTS = frozenset({"NonMaxSuppression", "TopK"})


class OutputKinds:
    """The bounded outputs of a model, and those sorted by a score.

    Attributes:
        bounded: outputs whose elements always lie between -1 and 1, such as probabilities.
        all_bounded: all tensors with this property.
        ordered: outputs computed from tensors that were sorted by a score.
    """

    def __init__(self, model: ModelProto) -> None:
        """Find the bounded and sorted tensors of a model."""
        self._bounded: set[str] = set()
        self._ordered: set[str] = set()
        self._visit_graph(model.graph)
        names = [value.name for value in model.graph.output]
        self.bounded = frozenset(name for name in names if name in self._bounded)
        self.ordered = frozenset(name for name in names if name in self._ordered)
        self.all_bounded = frozenset(self._bounded)

    def _visit_graph(self, graph: GraphProto) -> None:
        """Record the bounded and the sorted tensors of a graph."""
        for node in graph.node:
            for body in graphs_of(node):
                self._visit_graph(body)
            if self._is_bounded(node):
                self._bounded.update(filter(None, node.output))
            if node.op_type in _SORTS or not self._ordered.isdisjoint(node.input):
                self._ordered.update(filter(None, node.output))

    def _is_bounded(self, node: NodeProto) -> bool:
        """Return whether the results of a node are bounded."""
        if node.op_type == "If":
            # Only the data decides which branch is taken, so a possible probability counts as one.
            names = [value.name for body in graphs_of(node) for value in body.output]
            return not self._bounded.isdisjoint(names)
        if node.op_type in _JOINS:
            return self._bounded.issuperset(filter(None, node.input))
        handed_on = node.op_type in _CHOOSES and node.input[0] in self._bounded
        return handed_on or node.op_type in BOUNDED or node.op_type in _PROBABILITIES


_RECORD = "pkg.torch.onnx.fx_node"
_FX_NODE = re.compile(r"%(\w+)\s*:")


def facts_of(
    model: ModelProto, source: Any = None, lowered: ComputePrecision | None = None
) -> ModelFacts:
    """Return the facts about a model, with its source (default: the model itself)."""
    kinds = OutputKinds(model)
    dtypes, compute_precision = compute_dtypes(model, lowered)
    return ModelFacts(
        dtypes,
        input_hints(model.graph),
        _tensor_sources(model.graph),
        bounded=kinds.bounded,
        ordered=kinds.ordered,
        source=model if source is None else source,
        layouts=DeferredLayouts(partial(_layouts, model, kinds)),
        lowered=compute_precision,
        dim_lengths=_dim_lengths(model),
    )


def _layouts(model: ModelProto, kinds: OutputKinds) -> dict[str, Layout]:
    """Return the layouts of the outputs of a model, also if its functions join them."""
    plain = inline_functions(model)
    return layouts_of(plain, (kinds if plain is model else OutputKinds(plain)).all_bounded)


def _dim_lengths(model: ModelProto) -> dict[str, int]:
    """Return the lengths of named input dimensions, such as those of caches, that operators
    require."""
    shapes = [shape_of(value) or () for value in model.graph.input]
    if not may_be_caches(shapes):
        return {}
    from polygraphy.adapters.onnx.describe.reading import read_graph
    from polygraphy.domain.states.cache_sizes import cache_sizes, mask_sizes

    graph = read_graph(model)
    return {} if graph is None else {**mask_sizes(graph), **cache_sizes(graph, (), None)}


def _tensor_sources(graph: GraphProto) -> dict[str, str]:
    """Return the tensor of the PyTorch program from which each tensor was exported,
    if the exporter recorded it. If an operation became several nodes, the last one computes its
    result.
    """
    makers: dict[str, str] = {}
    for node in graph.node:
        for entry in node.metadata_props:
            match = _FX_NODE.match(entry.value) if entry.key == _RECORD else None
            if match is not None and len(node.output) == 1:
                makers[match[1]] = node.output[0]
    return {tensor: source for source, tensor in makers.items()}


def find_facts(model: Any, lowered: ComputePrecision | None = None) -> Facts:
    """Return the facts about a model, its bytes or its path, computed on first use.
    It returns empty facts if it is too large or cannot be read."""
    if isinstance(model, (str, Path)):
        path = Path(model)
        return DeferredFacts(partial(_read_facts, path, lowered), partial(_may_limit_inputs, path))
    return DeferredFacts(partial(_read_facts, model, lowered))


def _read_facts(model: Any, lowered: ComputePrecision | None) -> ModelFacts:
    """Return the facts about a model; empty, with a line in the log, if that fails."""
    source = model
    # For a model that is too large to read, assume the worst case.
    unread = ModelFacts() if lowered is None else ModelFacts({"": lowered.dtype}, lowered=lowered)
    try:
        if isinstance(model, Path):
            if model.stat().st_size > _LARGEST_BYTES:
                return unread
            model = onnx.load(str(model), load_external_data=False)
        elif isinstance(model, (bytes, bytearray)):
            if len(model) > _LARGEST_BYTES:
                return unread
            model = onnx.load_model_from_string(bytes(model))
        return facts_of(model, source, lowered)
    except Exception as error:  # Facts are optional: running the model reports the error.
        G_LOGGER.verbose(f"The model could not be analyzed: {error}")
        return ModelFacts()


def _may_limit_inputs(path: Path) -> bool:
    """Return whether a file has operators that limit the values of inputs, found without importing
    the onnx package, which takes longer than most models run."""
    try:
        return any(op in LIMITING for op in operators(path, names_pattern(LIMITING)))
    except (OSError, ValueError, MalformedError, IndexError):
        return True
