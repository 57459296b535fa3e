"""Describes ONNX models, and loads only the requested parts."""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, evolve

from polygraphy.adapters.onnx.graph.element_types import versions_of
from polygraphy.adapters.onnx.graph.shapes import add_shapes
from polygraphy.adapters.onnx.storage.elements import WeightArrays, location_of
from polygraphy.adapters.onnx.storage.model import load_structure
from polygraphy.adapters.onnx.storage.parsing import check_texts, decode_text, decode_texts
from polygraphy.adapters.onnx.storage.weights import (
    OnnxDataTypes,
    all_graphs,
    byte_size,
    is_external,
    is_stored,
)
from polygraphy.adapters.onnx_common.defaults import is_default
from polygraphy.domain.errors import ModelError
from polygraphy.domain.model import (
    EVERYTHING,
    Attribute,
    Detail,
    Function,
    Graph,
    Model,
    ModelSource,
    Node,
    Origin,
    Tensor,
    Weight,
)
from polygraphy.domain.model.graph import frames_in
from polygraphy.domain.model.source import kind_of, technology_of
from polygraphy.domain.tensors.shapes import Dim

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        GraphProto,
        ModelProto,
        NodeProto,
        SparseTensorProto,
        TensorProto,
        TypeProto,
    )

    from polygraphy.domain.model.difference import Outline


_TYPES = OnnxDataTypes()
_HOLD_DTYPE = {"Cast": "to", "ConstantOfShape": "", "EyeLike": "dtype", "SequenceEmpty": "dtype"}
_RANDOM = ("Random", "Bernoulli", "Multinomial", "BlackmanWindow", "HannWindow", "HammingWindow")


def attribute_of(
    node: NodeProto, attribute: AttributeProto, describing: _ModelDescriber
) -> Attribute:
    """Return a description of an attribute of a node; an unknown type has the kind ``unknown``."""
    is_usual = is_default(attribute, node, describing.opsets)
    name, reference = decode_texts((attribute.name, attribute.ref_attr_name))
    if reference:
        return Attribute(name, "reference", reference)
    number = attribute.type
    if number in _PLAIN:
        kind, read = _PLAIN[number]
        value = read(attribute)
        if kind == "int" and _is_dtype(node.op_type, name):
            entry = _TYPES.from_native(value)
            if entry is not None:
                return Attribute(name, "dtype", entry.name, is_usual)
        return Attribute(name, kind, value, is_usual)
    if number in _DESCRIBED:
        kind, describe = _DESCRIBED[number]
        return Attribute(name, kind, describe(attribute, describing))
    return Attribute(name, "unknown", None)


def _is_dtype(op: str, name: str) -> bool:
    """Return whether a numeric attribute stands for a data type."""
    return _HOLD_DTYPE.get(op) == name or (
        name in ("dtype", "output_datatype") and op.startswith(_RANDOM)
    )


def _text(raw: bytes) -> str:
    """Return bytes as text, with invalid UTF-8 as escapes."""
    return raw.decode("utf-8", "backslashreplace")


def _type_text(described: Any) -> str:
    """Return a type as text in one line."""
    return " ".join(str(described).split())


# These are the numbers of AttributeProto.AttributeType in onnx.proto.
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
_DESCRIBED: dict[int, tuple[str, Callable[[AttributeProto, _ModelDescriber], Any]]] = {
    4: ("tensor", lambda attribute, of: of.weight(attribute.t)),
    5: ("graph", lambda attribute, of: of.graph(attribute.g)),
    9: ("tensors", lambda attribute, of: tuple(map(of.weight, attribute.tensors))),
    10: ("graphs", lambda attribute, of: tuple(map(of.graph, attribute.graphs))),
    11: ("tensor", lambda attribute, of: of.sparse_weight(attribute.sparse_tensor)),
    12: ("tensors", lambda attribute, of: tuple(map(of.sparse_weight, attribute.sparse_tensors))),
}


_TRACE = "pkg.torch.onnx.stack_trace"
_SCOPES = "pkg.torch.onnx.name_scopes"
_IN_DOCUMENTATION = re.compile(r"^(.+?)\((\d+)\): ", re.MULTILINE)
"""A frame as the exporter writes it that traces TorchScript: the first one is the innermost."""
_MOST = 1 << 16
"""Characters of a record that are read."""


def origin_of(node: NodeProto) -> Origin | None:
    """Return the source of a node; None if its model does not record it."""
    records = {decode_text(entry.key): decode_text(entry.value) for entry in node.metadata_props}
    frames = frames_in(records.get(_TRACE, "")[:_MOST])
    frames = frames or _IN_DOCUMENTATION.findall(decode_text(node.doc_string)[:_MOST])
    return Origin.of(frames, _scope(records.get(_SCOPES, "")) or _scope_in(node.name))


def _scope(record: str) -> str:
    """Return the innermost module in a list of scopes, whose last element is the operation
    itself."""
    try:
        scopes = ast.literal_eval(record[:_MOST]) if record else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if not isinstance(scopes, list):
        return ""
    return next((scope for scope in reversed(scopes[:-1]) if isinstance(scope, str) and scope), "")


def _scope_in(name: str) -> str:
    """Return the modules at the start of a name such as ``/blocks.0/f/Gemm``."""
    return name.rpartition("/")[0].strip("/")


_EMPTY: Mapping[str, Tensor] = {}


def describe_file(source: ModelSource, detail: Detail) -> Model:
    """Return a description of an ONNX file.

    Raises:
        FileError: the file, or a file with requested weights, is missing, or a weight file is
            outside the model's folder.
        ModelError: the file is not an ONNX model, or is truncated.
    """
    model = load_structure(source.path)
    if source.infer_shapes:
        add_shapes(model, allow_onnxruntime=source.allow_onnxruntime)
    arrays = None
    if detail.weights:
        arrays = WeightArrays(source.path, source.external_data_dir)
    return describe_model(
        model, source.path, detail, arrays, skips_files=source.ignore_external_data
    )


def describe_model(
    model: ModelProto,
    path: str,
    detail: Detail,
    arrays: WeightArrays | None = None,
    *,
    skips_files: bool = False,
) -> Model:
    """Return a description of a model in memory.

    Args:
        model: the model; large weights may be in files.
        path: the source of the model.
        detail: the level of detail.
        arrays: reads the elements of weights; None to omit them.
        skips_files: whether elements in other files are omitted.
    """
    opsets = versions_of(model.opset_import)
    describing = _ModelDescriber(detail, arrays, Path(path).name, opsets, skips_files=skips_files)
    with _pause_collector():
        return _model(model, path, describing)


def read_graph(model: Any) -> Graph | None:
    """Return the graph of a model, without large weights; None if it is not an ONNX model.
    See the port.
    """
    detail, arrays = Detail(layers=True, attrs=True), _SingleNumbers("")
    if isinstance(model, (str, Path)):
        if technology_of(kind_of(str(model))) != "onnx":
            return None
        return describe_model(load_structure(str(model)), str(model), detail, arrays).graph
    is_model = hasattr(model, "graph") and hasattr(model, "opset_import")
    return describe_model(model, "", detail, arrays).graph if is_model else None


def describe_nodes(model: ModelProto) -> tuple[Node, ...]:
    """Return the nodes of a model with their attributes and origins."""
    detail = Detail(layers=True, attrs=True, origins=True)
    opsets = versions_of(model.opset_import)
    describing = _ModelDescriber(detail, _LazyArrays(""), "", opsets, skips_files=False)
    with _pause_collector():
        return describing.nodes(model.graph.node)


def describe_with_weights(model: ModelProto) -> Model:
    """Return the description of a model with the values of its weights."""
    return describe_model(model, "", EVERYTHING, _LazyArrays(""))


def graph_with_weights(model: ModelProto, nodes: tuple[Node, ...] | None = None) -> Graph:
    """Return the description of the graph of a model with the values of its weights.
    `nodes` are its nodes, if they were described before.
    """
    if nodes is None:
        return describe_with_weights(model).graph
    detail = Detail(weights=True)
    opsets = versions_of(model.opset_import)
    graph = _ModelDescriber(detail, _LazyArrays(""), "", opsets, skips_files=False).graph(
        model.graph
    )
    tensors = _tensors((*model.graph.value_info, *model.graph.output, *model.graph.input))
    return evolve(graph, nodes=nodes, tensors={tensor.name: tensor for tensor in tensors})


_LARGE = 1 << 16
"""Weights with more bytes are not cached."""


class _LazyArrays(WeightArrays):
    """Reads the elements of weights on access; large ones are not cached."""

    def array(self, tensor: TensorProto) -> Any:
        """Return a function that reads the elements."""
        read = partial(_IN_MODEL.array, tensor)
        nbytes = prod(tensor.dims[:]) * _dtype_of(tensor.data_type)[1]
        return read if nbytes >= _LARGE else _CachedCall(read)


_IN_MODEL = WeightArrays("")


@define(eq=False)
class _CachedCall:
    """Calls a function once, and returns its result each time; unlike `functools.cache`, it can be
    pickled.
    """

    read: Callable[[], Any]
    elements: Any = None

    def __call__(self) -> Any:
        """Return the result of the function, which is called once."""
        if self.elements is None:
            self.elements = self.read()
        return self.elements


class _SingleNumbers(WeightArrays):
    """Reads weights with a single integer, such as the operand of a comparison."""

    def array(self, tensor: TensorProto) -> Any:
        """Return the number; None for other weights, and damaged ones."""
        if tensor.data_type not in _WHOLE or prod(tensor.dims[:]) != 1 or is_external(tensor):
            return None
        try:
            return super().array(tensor)
        except ModelError:
            return None


_WHOLE = (6, 7)
"""`TensorProto.INT32` and `TensorProto.INT64`."""


@contextmanager
def _pause_collector() -> Iterator[None]:
    """Pause the garbage collector inside the block,
    because descriptions are large and have no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _model(model: ModelProto, path: str, describing: _ModelDescriber) -> Model:
    """Return a description of a model."""
    return Model(
        path=path,
        graph=describing.graph(model.graph),
        opsets={decode_text(entry.domain): entry.version for entry in model.opset_import},
        ir_version=model.ir_version,
        producer=" ".join(
            filter(None, decode_texts((model.producer_name, model.producer_version)))
        ),
        functions=tuple(
            Function(
                name=decode_text(function.name),
                domain=decode_text(function.domain),
                inputs=decode_texts(function.input),
                outputs=decode_texts(function.output),
                node_count=len(function.node),
                nodes=describing.nodes(function.node),
            )
            for function in model.functions
        ),
        metadata={
            decode_text(entry.key): decode_text(entry.value) for entry in model.metadata_props
        },
    )


class _ModelDescriber:
    """Converts messages of a model to values, up to the requested detail."""

    def __init__(
        self,
        detail: Detail,
        arrays: WeightArrays | None,
        own_name: str,
        opsets: Mapping[str, int],
        *,
        skips_files: bool,
    ) -> None:
        """Set the detail, and how weights are read."""
        self.opsets = opsets
        self._detail = detail
        self._arrays = arrays
        self._own_name = own_name
        self._skips_files = skips_files

    def graph(self, graph: GraphProto) -> Graph:
        """Return a description of a graph and its subgraphs."""
        inputs, outputs = _tensors(graph.input), _tensors(graph.output)
        name, doc = decode_texts((graph.name, graph.doc_string))
        weights = tuple(self.weight(tensor) for tensor in graph.initializer)
        weights += tuple(self.sparse_weight(sparse) for sparse in graph.sparse_initializer)
        listed = {weight.name for weight in weights}
        empty: Mapping[str, Tensor] = _EMPTY
        if self._detail.layers:
            stated = _tensors(graph.value_info)
            empty = {tensor.name: tensor for tensor in (*stated, *outputs, *inputs)}
        return Graph(
            name=name,
            doc=doc,
            # Before version 4 of the format, initializers also had to be listed as inputs.
            inputs=tuple(tensor for tensor in inputs if tensor.name not in listed),
            outputs=outputs,
            weights=weights,
            node_count=len(graph.node),
            nodes=self.nodes(graph.node),
            tensors=empty,
            quantization={
                decode_text(annotation.tensor_name): tuple(
                    sorted(
                        f"{decode_text(entry.key)}={decode_text(entry.value)}"
                        for entry in annotation.quant_parameter_tensor_names
                    )
                )
                for annotation in graph.quantization_annotation
            },
        )

    def nodes(self, nodes: Iterable[NodeProto]) -> tuple[Node, ...]:
        """Return descriptions of nodes; empty if they were not requested."""
        if not self._detail.layers:
            return ()
        with_attributes = self._detail.attrs
        result = []
        for node in nodes:
            # Copying complete lists is several times faster than iterating over them.
            inputs, outputs = node.input[:], node.output[:]
            array = node.name, node.op_type, node.domain
            check_texts((*array, *inputs, *outputs))
            attributes = self._attributes(node) if with_attributes else ()
            origin = origin_of(node) if self._detail.origins else None
            result.append(Node(*array, tuple(inputs), tuple(outputs), attributes, origin))
        return tuple(result)

    def _attributes(self, node: NodeProto) -> tuple[Attribute, ...]:
        """Return descriptions of the attributes of a node."""
        return tuple(attribute_of(node, attribute, self) for attribute in node.attribute)

    def weight(self, tensor: TensorProto) -> Weight:
        """Return a description of a weight, with its values if they were requested."""
        location = None if is_stored(tensor) or not is_external(tensor) else location_of(tensor)
        if location == self._own_name:
            location = None
        values = None
        if self._arrays is not None and not (location is not None and self._skips_files):
            values = self._arrays.array(tensor)
        shape = tuple(tensor.dims[:])
        dtype, itemsize = _dtype_of(tensor.data_type)
        nbytes = ceil(prod(shape) * itemsize)
        return Weight(decode_text(tensor.name), dtype, shape, nbytes, location, values)

    def sparse_weight(self, tensor: SparseTensorProto) -> Weight:
        """Return a description of a sparse tensor, without its elements."""
        stored = tensor.values
        return Weight(
            decode_text(stored.name),
            dtype_name(stored.data_type),
            tuple(tensor.dims),
            byte_size(stored),
        )


@cache
def _dtype_of(number: int) -> tuple[str | None, float]:
    """Return our name of a data type, and the bytes of an element; None and 0 if it is unknown."""
    entry = _TYPES.from_native(number)
    return (None, 0.0) if entry is None else (entry.name, entry.itemsize)


def dtype_name(number: int) -> str | None:
    """Return our name of a data type; None if it is unknown."""
    return _dtype_of(number)[0]


def _tensors(values: Any) -> tuple[Tensor, ...]:
    """Return descriptions of tensors."""
    return tuple(Tensor(decode_text(value.name), *type_of(value.type)) for value in values)


def type_of(described: TypeProto) -> tuple[str | None, tuple[Dim, ...] | None]:
    """Return the name of a type and the shape of a tensor; None for unknown parts."""
    kind = described.WhichOneof("value")
    if kind == "tensor_type":
        tensor = described.tensor_type
        shape = _shape(tensor.shape) if tensor.HasField("shape") else None
        return dtype_name(tensor.elem_type), shape
    if kind == "sparse_tensor_type":
        tensor = described.sparse_tensor_type
        shape = _shape(tensor.shape) if tensor.HasField("shape") else None
        return f"sparse({dtype_name(tensor.elem_type)})", shape
    if kind in ("sequence_type", "optional_type"):
        inner, _ = type_of(getattr(described, kind).elem_type)
        return f"{kind.partition('_')[0]}({inner})", None
    if kind == "map_type":
        inner, _ = type_of(described.map_type.value_type)
        return f"map({dtype_name(described.map_type.key_type)}, {inner})", None
    return None, None


def _shape(shape: Any) -> tuple[Dim, ...]:
    """Return a shape: a length, a name or None for each dimension."""
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else (decode_text(dim.dim_param) or None)
        for dim in shape.dim
    )


def outline_of(model: ModelProto) -> Outline:
    """Return the parts of a model, including those of its subgraphs."""
    nodes: Counter[tuple[str, str]] = Counter()
    weights: Counter[str] = Counter()
    for graph in all_graphs(model.graph):
        ops = decode_texts(node.op_type for node in graph.node)
        names = decode_texts(node.name or next(iter(node.output), "") for node in graph.node)
        nodes.update(zip(ops, names))
        weights.update(decode_texts(tensor.name for tensor in graph.initializer))
    from polygraphy.domain.model.difference import Outline

    return Outline(describe_model(model, "", Detail()), nodes, weights)
