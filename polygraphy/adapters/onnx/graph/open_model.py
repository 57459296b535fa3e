"""A model that is indexed once: producer, readers and facts of each tensor, and parts of the graph
as separate models.

Everything is computed on first use, and once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import (
    IR_WITHOUT_WEIGHTS_AS_INPUTS,
    constants_of,
    producers,
)
from polygraphy.adapters.onnx.graph.shapes import (
    describe_value,
    has_rank,
    infer_value_infos,
    input_metadata,
    set_input_shapes,
    value_info,
    value_infos,
)
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.weights import (
    byte_size,
    copy_fields,
    weights_size,
    without_large_weights,
)
from polygraphy.adapters.onnx_common.messages import copy_of, shape_of, tensor_names, tensors_read
from polygraphy.domain.search.layers import Layer
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.shapes import fits

if TYPE_CHECKING:
    from onnx import (
        GraphProto,
        ModelProto,
        NodeProto,
        SparseTensorProto,
        TensorProto,
        ValueInfoProto,
    )

numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

Values = Callable[[Sequence[str]], Mapping[str, Any]]
"""Returns the values of tensors of the graph."""

_BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}
_COPIED = 1 << 20
"""Models with more bytes of weights are copied without them."""
_MADE = "//made"

_HANDED_OVER = range(1, 14)
"""Data types, by their numbers in ONNX, that every release of every backend accepts and returns:
those of NumPy itself, without bfloat16 and narrower types.
"""


class OpenGraph:
    """The graph of a model or a subgraph, with producers, consumers and weights of tensors. It must
    not be changed while this object is used."""

    def __init__(self, graph: GraphProto, *, source: GraphProto | None = None) -> None:
        """Open a graph; `source` is a graph of the same nodes with weights (default: the same)."""
        self.graph_proto = graph
        self._source = graph if source is None else source

    @cached_property
    def protos(self) -> list[NodeProto]:
        """Return the nodes as protobuf messages, in order."""
        return list(self.graph_proto.node)

    @cached_property
    def reads(self) -> list[tuple[str, ...]]:
        """Return the tensors that each node reads, including those in its subgraphs."""
        return [tuple(dict.fromkeys(tensors_read(node))) for node in self.protos]

    @cached_property
    def makers(self) -> dict[str, int]:
        """Return the index of the node that computes each tensor.
        Raise ModelError if there are two.
        """
        return producers(self.graph_proto)

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """Return the indices of the nodes that read each tensor, directly or in a subgraph."""
        readers_of: dict[str, list[int]] = {}
        for index, names in enumerate(self.reads):
            for name in names:
                readers_of.setdefault(name, []).append(index)
        return readers_of

    @cached_property
    def weights(self) -> dict[str, TensorProto]:
        """Return the initializers by name."""
        return {tensor.name: tensor for tensor in self._source.initializer}

    @cached_property
    def sparse_weights(self) -> dict[str, SparseTensorProto]:
        """Return the sparse initializers by name."""
        return {sparse.values.name: sparse for sparse in self._source.sparse_initializer}

    @cached_property
    def dense_weights(self) -> dict[str, TensorProto]:
        """Return the dense weights by name, including those in Constant nodes, for reading only."""
        return {**constants_of(self.protos), **self.weights}

    @cached_property
    def constant_nodes(self) -> dict[str, int]:
        """Return the index of the Constant node of each tensor that has one."""
        return {
            name: index
            for index, node in enumerate(self.protos)
            if node.op_type == "Constant"
            for name in node.output
        }

    @cached_property
    def constants(self) -> set[str]:
        """Return the names of the weights, including those in Constant nodes."""
        return {*self.weights, *self.sparse_weights, *self.constant_nodes}

    @cached_property
    def outputs(self) -> list[str]:
        """Return the names of the outputs of the graph."""
        return [value.name for value in self.graph_proto.output]

    @property
    def output_shapes(self) -> dict[str, Sequence[Any]]:
        """Return the known shapes of the outputs of the graph, by name."""
        outputs = self.graph_proto.output
        shapes = {value.name: shape_of(value.type.tensor_type) for value in outputs}
        return {name: shape for name, shape in shapes.items() if shape is not None}

    @cached_property
    def _infos(self) -> dict[str, ValueInfoProto]:
        """Return the declared types of tensors, by name."""
        graph = self.graph_proto
        return {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}

    def shape(self, name: str) -> tuple[Any, ...] | None:
        """Return the declared dimensions of a tensor: numbers, names or None.
        The result is None if even the rank is unknown.
        """
        if name in self.dense_weights:
            return tuple(self.dense_weights[name].dims)
        shape = describe_value(self._infos.get(name)).shape
        return None if shape is None else tuple(shape)

    def constant(self, name: str) -> list[int] | None:
        """Return the elements of a constant list of integers; None for other tensors."""
        if name not in self.dense_weights:
            return None
        return [int(value) for value in elements(self.dense_weights[name]).reshape(-1)]

    def maker(self, name: str) -> NodeProto | None:
        """Return the node that computes a tensor; None for an input or a weight."""
        return self.protos[self.makers[name]] if name in self.makers else None


class OpenModel(OpenGraph):
    """A model opened for reading, which must not be changed while this object is used.

    Attributes:
        proto: the model.
        load_weights: reads the weights of a part that refers to them in files; None if they are in
            memory.
    """

    def __init__(
        self,
        proto: ModelProto,
        *,
        source: GraphProto | None = None,
        load_weights: Callable[[ModelProto], None] | None = None,
    ) -> None:
        """Open a model; `source` is a graph of the same nodes with weights (default: its own)."""
        super().__init__(proto.graph, source=source)
        self.proto = proto
        self.load_weights = load_weights

    @cached_property
    def declared_types(self) -> dict[str, ValueInfoProto]:
        """Return the declared types of tensors, by name."""
        return value_infos(self.proto)

    @cached_property
    def inferred_types(self) -> dict[str, ValueInfoProto]:
        """Return the inferred types of tensors, by name."""
        return infer_value_infos(self.proto)

    @cached_property
    def types(self) -> dict[str, ValueInfoProto]:
        """Return the known types of tensors: declared ones, and inferred ones if the declared data
        type or rank is missing."""
        ranked = {name: value for name, value in self.declared_types.items() if has_rank(value)}
        return {**self.declared_types, **self.inferred_types, **ranked}

    @cached_property
    def inputs(self) -> TensorMetadata:
        """Return names, data types and shapes of the inputs."""
        return input_metadata(self.proto)

    def value(self, name: str) -> ValueInfoProto:
        """Return the known type of a tensor."""
        stated = self.declared_types.get(name)
        if stated is not None and has_rank(stated):
            return stated
        return self.inferred_types.get(name) or stated or value_without_type(name)

    def is_handed_over(self, name: str, *, if_unknown: bool) -> bool:
        """Return whether every backend accepts and returns the type of a tensor;
        `if_unknown` for an unknown type."""
        value = self.value(name)
        number = value.type.tensor_type.elem_type
        return is_tensor(value) and (number in _HANDED_OVER if number else if_unknown)

    def non_boundary_tensors(self) -> set[str]:
        """Return the outputs of nodes that not every backend accepts as model inputs or outputs."""
        names = {name for node in self.protos for name in node.output if name}
        return {name for name in names if not self.is_handed_over(name, if_unknown=False)}

    def layers(self, shapes: Mapping[str, Sequence[int]]) -> list[Layer]:
        """Return a description of each node, for inputs of these shapes."""
        names = [name for node in self.protos for name in node.output if name]
        byte_sizes = {
            name: byte_size(self.dense_weights[name])
            for name in names
            if name in self.dense_weights
        }
        sizes = {
            name: byte_sizes[name] if name in byte_sizes else _bytes(self.value(name))
            for name in names
        }
        if None in sizes.values():
            bound = infer_value_infos(_bind_input_shapes(self.proto, shapes))
            sizes.update({name: _bytes(value) for name, value in bound.items()})
        return [
            Layer(
                makes={name: sizes.get(name) for name in node.output if name},
                reads=[name for name in reads if name not in self.constants],
                weights={n: byte_size(self.weights[n]) for n in reads if n in self.weights},
            )
            for node, reads in zip(self.protos, self.reads)
        ]

    def results_read_outside(self, nodes: Collection[int]) -> list[str]:
        """Return the results of some nodes that other nodes, or the outputs, need;
        all results if there are none.
        """
        inside, outputs = set(nodes), set(self.outputs)
        items = [n for index in sorted(inside) for n in self.protos[index].output if n]
        computed = [name for name in items if name not in self.constants]
        needed = [
            name
            for name in computed
            if name in outputs or not inside.issuperset(self.readers.get(name, ()))
        ]
        return needed or computed or items

    def part(
        self,
        nodes: Collection[int],
        given_values: Mapping[str, Any] | None = None,
        outputs: Collection[str] | None = None,
        *,
        keeps_types: bool = False,
    ) -> ModelProto:
        """Return a model of some of the nodes; see the port."""
        if outputs is None:
            names = self.results_read_outside(nodes)
            is_only = len(names) == 1
            outputs = [n for n in names if is_only or self.is_handed_over(n, if_unknown=True)]
        given_values = given_values or {}
        reads = {name for index in nodes for name in self.reads[index]}
        part = self.cut(
            nodes,
            {name: value_of(name, given_values[name]) for name in reads if name in given_values},
            [self.value(name) for name in outputs],
            keeps_types=keeps_types,
        )
        if self.load_weights is not None:
            self.load_weights(part)
        return part

    def cut(
        self,
        nodes: Iterable[int],
        infos: Mapping[str, ValueInfoProto],
        outputs: Iterable[ValueInfoProto],
        weights: Iterable[TensorProto] = (),
        *,
        keeps_types: bool = False,
    ) -> ModelProto:
        """Return a model of some of the nodes, in their order, with the weights that they read.

        Args:
            nodes: their positions; Constant nodes that they read are added.
            infos: the descriptions of tensors that become inputs; for others, the known types are
                used.
            outputs: the tensors that become outputs.
            weights: the tensors that become weights, not inputs.
            keeps_types: whether the declared types of inner tensors are copied.
        """
        outputs, weights, chosen = list(outputs), list(weights), set(nodes)
        read = dict.fromkeys(name for index in sorted(chosen) for name in self.reads[index])
        chosen.update(self.constant_nodes[name] for name in read if name in self.constant_nodes)
        parts = [self.protos[index] for index in sorted(chosen)]
        items = {name for node in parts for name in node.output}
        fixed = {tensor.name for tensor in weights}
        used_values = dict.fromkeys([*read, *(value.name for value in outputs)])
        names = [name for name in used_values if name not in items and name not in fixed]
        requested_values = dict.fromkeys(name for name in self.inputs if name in names)
        requested_values.update(dict.fromkeys(name for name in names if name not in self.constants))
        part = assemble(
            self.proto,
            parts,
            inputs=[infos.get(name) or self.value(name) for name in requested_values],
            outputs=outputs,
            weights=[*(self.weights[name] for name in names if name in self.weights), *weights],
            sparse=[self.sparse_weights[name] for name in names if name in self.sparse_weights],
        )
        if keeps_types:
            between = items - self.constants - {value.name for value in outputs}
            stated = self.proto.graph.value_info
            part.graph.value_info.extend(value for value in stated if value.name in between)
        return part

    def with_all_outputs(self) -> ModelProto:
        """Return the model with every tensor that backends return as an output."""
        model = copy_of(self.proto)
        outputs = set(self.outputs)
        for node in self.protos:
            for name in node.output:
                if name and name not in outputs and name not in self.constants:
                    outputs.add(name)
                    if self.is_handed_over(name, if_unknown=True):
                        model.graph.output.add().name = name
        return model

    def isolate_nodes(
        self, values: Mapping[str, Any], *, checked: bool = False
    ) -> tuple[ModelProto, dict[str, str]]:
        """Return a model in which every node reads given values, and the new names of results.
        The names are those of the outputs of its nodes.
        """
        read = {name for names in self.reads for name in names}
        model = assemble(
            self.proto,
            self.protos,
            weights=self.weights.values(),
            sparse=self.sparse_weights.values(),
        )
        graph = model.graph
        names: dict[str, str] = {}
        for node in graph.node:
            for position, name in enumerate(node.output):
                if name in values and self.accepts(name, values[name], checked):
                    names[name] = f"{name}{_MADE}"
                    node.output[position] = names[name]
        requested_names = [name for name in self.inputs if name in read]
        cut = [name for name in names if name in read]
        graph.input.extend(value_of(name, values[name]) for name in (*requested_names, *cut))
        graph.output.extend(map(value_without_type, names.values()))
        return model, names

    def accepts(self, name: str, array: Any, checks_shape: bool = False) -> bool:
        """Return whether an array fits a tensor, because executed graphs keep names of tensors
        whose data type or layout they changed."""
        value = self.value(name)
        if name in self.constants or not is_tensor(value):
            return False
        metadata = describe_value(value)
        meta = TensorMetadata.from_feed_dict({name: array})[name]
        return metadata.dtype in (None, meta.dtype) and (
            not checks_shape or fits(array.shape, metadata.shape)
        )

    def inside(self, index: int, values: Values) -> tuple[ModelProto, dict[str, Any]] | None:
        """Return the body of a node as a model, and its input data; None without a (nonempty) body.
        The body is the taken branch of an ``If``, or the first iteration of a ``Loop`` or ``Scan``.

        Args:
            index: the position of the node.
            values: returns the values of tensors of the graph.
        """
        node = self.protos[index]
        graphs = {attribute.name: attribute.g for attribute in node.attribute}
        names = [name for name in _BODIES.get(node.op_type, ()) if name in graphs]
        if not names:
            return None
        if node.op_type == "If":
            [condition] = values(node.input[:1]).values()
            names = names[:1] if bool(numpy.asarray(condition).reshape(-1)[0]) else names[1:]
        if not names or not graphs[names[0]].node:
            return None
        body = graphs[names[0]]
        return self._body(body, _own_feed(node, body, values), values)

    def _body(
        self, body: GraphProto, feed: dict[str, Any], values: Values
    ) -> tuple[ModelProto, dict[str, Any]]:
        """Return a body as a model and its data.
        Tensors from outer graphs become inputs, except weights.
        """
        own_names = tensor_names(body)
        reads = dict.fromkeys(name for node in body.node for name in tensors_read(node))
        captured = [name for name in reads if name not in own_names]
        feed = {**feed, **values([name for name in captured if name not in self.constants])}
        types = TensorMetadata.from_feed_dict(feed)
        stated = {value.name: value for value in body.input}
        names = {name for node in body.node for name in node.output}
        outputs = [value for value in body.output if value.name in names]
        constants = [self.constant_nodes[name] for name in captured if name in self.constant_nodes]
        inner = assemble(
            self.proto,
            [*(self.protos[index] for index in constants), *body.node],
            inputs=[
                # Describe the inputs by their values, because bodies rarely declare shapes.
                value_info(
                    name,
                    MetadataTuple(
                        meta.dtype,
                        (describe_value(stated[name]).shape if name in stated else None)
                        or meta.shape,
                    ),
                )
                for name, meta in types.items()
                if name in reads
            ],
            outputs=outputs,
            weights=[*body.initializer, *(self.weights[n] for n in captured if n in self.weights)],
            sparse=[
                *body.sparse_initializer,
                *(self.sparse_weights[n] for n in captured if n in self.sparse_weights),
            ],
        )
        inner.graph.name = body.name or inner.graph.name
        inner.graph.value_info.extend(body.value_info)
        if any(describe_value(value).shape is None for value in outputs):
            # Bodies may omit the shapes of their outputs.
            inferred = infer_value_infos(inner)
            for value in inner.graph.output:
                value.CopyFrom(inferred.get(value.name) or value_without_type(value.name))
        return inner, {value.name: feed[value.name] for value in inner.graph.input}


def _own_feed(node: NodeProto, body: GraphProto, values: Values) -> dict[str, Any]:
    """Return the values of the inputs of a body in its first iteration."""
    names = [value.name for value in body.input]
    given_values = values([name for name in node.input if name])
    first = [given_values.get(name) for name in node.input]
    if node.op_type == "Loop":
        _, condition, *states = first
        start = True if condition is None else bool(numpy.asarray(condition).reshape(-1)[0])
        first = [numpy.array(0, numpy.int64), numpy.array(start), *states]
    elif node.op_type == "Scan":
        scanned = next(int(a.i) for a in node.attribute if a.name == "num_scan_inputs")
        axes = next((list(a.ints) for a in node.attribute if a.name == "scan_input_axes"), None)
        count = len(first) - scanned
        slices = [
            numpy.take(array, 0, axis=0 if axes is None else axes[index])
            for index, array in enumerate(first[count:])
        ]
        first = [*first[:count], *slices]
    return {name: array for name, array in zip(names, first) if array is not None}


def _bind_input_shapes(model: ModelProto, shapes: Mapping[str, Sequence[int]]) -> ModelProto:
    """Return a copy whose inputs have these shapes, without declared shapes that depend on them."""
    is_large = weights_size(model) >= _COPIED
    bound = without_large_weights(model) if is_large else copy_of(model)
    set_input_shapes(bound.graph, shapes)
    stated = [value for value in bound.graph.value_info if _bytes(value) is not None]
    del bound.graph.value_info[:]
    bound.graph.value_info.extend(stated)
    for value in bound.graph.output:
        if value.type.WhichOneof("value") == "tensor_type" and _bytes(value) is None:
            value.type.tensor_type.ClearField("shape")
    return bound


def _bytes(value: ValueInfoProto) -> int | None:
    """Return the number of bytes of a tensor; None if it is unknown."""
    dtype, shape = describe_value(value)
    if dtype is None or shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    nbytes: int = ceil(prod(shape) * dtype.itemsize)
    return nbytes


def is_tensor(value: ValueInfoProto) -> bool:
    """Return whether a value is a tensor as far as is known, not a sequence or an optional
    value."""
    return value.type.WhichOneof("value") in (None, "tensor_type")


def value_of(name: str, array: Any) -> ValueInfoProto:
    """Return the declaration of a tensor with the type of an array."""
    return value_info(name, TensorMetadata.from_feed_dict({name: array})[name])


def value_without_type(name: str) -> ValueInfoProto:
    """Return the declaration of a tensor without a type."""
    value: ValueInfoProto = onnx.ValueInfoProto(name=name)
    return value


def assemble(
    frame: ModelProto,
    nodes: Iterable[NodeProto],
    *,
    inputs: Iterable[ValueInfoProto] = (),
    outputs: Iterable[ValueInfoProto] = (),
    weights: Iterable[TensorProto] = (),
    sparse: Iterable[SparseTensorProto] = (),
) -> ModelProto:
    """Return a model with copies of nodes, and the versions, functions and metadata of another
    model. Weights need not be inputs."""
    model: ModelProto = onnx.ModelProto()
    copy_fields(frame, model, "graph")
    model.ir_version = max(model.ir_version, IR_WITHOUT_WEIGHTS_AS_INPUTS)
    graph = model.graph
    graph.name = frame.graph.name
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    graph.initializer.extend(weights)
    graph.sparse_initializer.extend(sparse)
    return model
