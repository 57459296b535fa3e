"""Removes the weights from an ONNX model, and replaces them.

A model without weights is small, and sufficient to build an engine that is refitted later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.describe.reading import describe_model
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.graph.element_types import domain_of, signature_of, versions_of
from polygraphy.adapters.onnx.graph.graph import delete_where, graph_weights, to_initializers
from polygraphy.adapters.onnx.storage.elements import (
    STRIPPED,
    elements,
    is_stripped,
    plain_dtype,
    replace_elements,
)
from polygraphy.adapters.onnx.storage.weights import (
    DATA_FIELDS,
    SMALL,
    OnnxDataTypes,
    all_graphs,
    byte_size,
    is_stored,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import copy_of, graphs_of
from polygraphy.adapters.os.paths import readable_file, translate_os_errors
from polygraphy.domain.errors import DamagedFileError, ModelError, UnknownNameError
from polygraphy.domain.model import Detail
from polygraphy.domain.model.sparsity import dense_groups, prunable_weights, prune_array
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.naming import count_text
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import cores

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


_OPERANDS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "GRU": (1, 2, 3),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "LSTM": (1, 2, 3),
    "MatMul": (0, 1),
    "RNN": (1, 2, 3),
    "Slice": (0,),
}
"""Positions of the operands that are weights, by operator."""
_LEAST_ELEMENTS = {"Gather": 1024, "Slice": 1024}
"""Least number of elements of a weight, by operator; smaller ones may be shapes."""
_PASSED_THROUGH = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear", "Transpose"})
_UINT8 = 2


def prunable_axes(model: ModelProto) -> dict[str, int]:
    """Return, by name, the weights that may be 2:4 sparse, with their axis."""
    graph = describe_model(model, "", Detail(layers=True, attrs=True)).graph
    return {
        prunable_weight.weight.name: prunable_weight.axis
        for prunable_weight in prunable_weights(graph)
    }


def strippable_weights(model: ModelProto) -> set[str]:
    """Return the names of the weights that an engine can be refitted with."""
    versions = versions_of(model.opset_import)
    return set(_used_weights(model.graph, versions, {}, {}))


def _used_weights(
    graph: GraphProto,
    versions: dict[str, int],
    outer_weights: Mapping[str, TensorProto],
    outer_makers: Mapping[str, NodeProto],
) -> Iterator[str]:
    """Yield the weights that the nodes of a graph and its subgraphs use."""
    weights = {**outer_weights, **graph_weights(graph)}
    makers = {**outer_makers, **{name: node for node in graph.node for name in node.output}}
    for node in graph.node:
        for inner in graphs_of(node):
            yield from _used_weights(inner, versions, weights, makers)
        for operand in _weight_operands(node, versions):
            name = _weight_origin(operand, makers)
            tensor = weights.get(name)
            if tensor is None or tensor.data_type == _UINT8:
                continue
            if prod(tensor.dims) >= _LEAST_ELEMENTS.get(node.op_type, 1):
                yield name


def _weight_origin(name: str, makers: Mapping[str, NodeProto]) -> str:
    """Return the tensor that an operand comes from, before nodes that only reorder or cast it."""
    for _ in makers:  # The graph may have a cycle.
        node = makers.get(name)
        if node is None or node.op_type not in _PASSED_THROUGH or not node.input:
            break
        name = node.input[0]
    return name


def _weight_operands(node: NodeProto, versions: dict[str, int]) -> list[str]:
    """Return the names of the inputs of a node that can be weights."""
    domain = domain_of(node.domain)
    if not domain and node.op_type in _OPERANDS:
        return [node.input[i] for i in _OPERANDS[node.op_type] if i < len(node.input)]
    if signature_of(node.op_type, domain, versions.get(domain, 1)) is None:
        return list(node.input)  # A plugin decides which of its tensors are weights.
    return []


_INTEGERS = 8
"""Integers are drawn from below this magnitude, which every integer type of weights holds."""


def random_weight(shape: tuple[int, ...], dtype: DataTypeEntry, seed: int) -> np.ndarray[Any, Any]:
    """Return random numbers of a shape and a type.

    Floating-point numbers are normally distributed, and the larger the tensor is beside its first
    dimension, the smaller they are, so that sums over them stay in range.
    """
    random = np.random.default_rng(seed)
    if dtype.is_floating:
        scale = np.float32(1 / max(1.0, prod(shape[1:])) ** 0.5)
        array: np.ndarray[Any, Any] = random.standard_normal(shape, np.float32) * scale
        return array.astype(dtype.numpy())
    low = -_INTEGERS if not dtype.name.startswith(("u", "bool")) else 0
    high = 2 if dtype.name == "bool" else _INTEGERS
    return random.integers(low, high, shape).astype(dtype.numpy())


reconstruct_weights: Callable[..., ModelProto]
restore_weights: Callable[..., ModelProto]
strip_weights: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")
numpy_helper = mod.lazy_import("onnx.numpy_helper")

_SPARSE = "SPARSE_2_4"
_DOCUMENTATION = "polygraphy.doc_string"
_FLOATS = (1, 10, 16)  # Data types that may be sparse: float32, float16 and bfloat16.


@mod.export(funcify=True)
class StripWeights(BaseLoader):
    """Removes the data of weights from an ONNX model."""

    def __init__(
        self,
        model: Deferred[ModelProto],
        exclude: Collection[str] = (),
        exclude_list: str | None = None,
    ) -> None:
        """Set the model and the weights to keep.

        Args:
            model: the model, which is changed in place, or a loader that returns it.
            exclude: names of weights to keep: initializers, or outputs of Constant nodes.
            exclude_list: the path of a text file with further such names, one per line.
        """
        self._model = model
        self._exclude = frozenset(exclude)
        self._exclude_list = exclude_list

    def call_impl(self) -> ModelProto:
        """Return the model without the elements of its weights.
        They become initializers, whose documentation marks them and whether they were sparse.

        Raises:
            UnknownNameError: no weight has an excluded name.
            FileError: the file with names cannot be read.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Remove the data of weights, and return the model."""
        names = {name for graph in all_graphs(model.graph) for name in graph_weights(graph)}
        exclude = self._exclude | _read_names(self._exclude_list)
        for name in sorted(exclude):
            if name not in names:
                raise UnknownNameError("Weight", name, sorted(names))
        chosen = strippable_weights(model) - exclude
        axes = prunable_axes(model)
        count = size = 0
        for graph in all_graphs(model.graph):
            to_initializers(model, graph, chosen)
            for tensor in graph.initializer:
                if tensor.name in chosen and not is_stripped(tensor):
                    count, size = count + 1, size + byte_size(tensor)
                    _strip_tensor(tensor, axes.get(tensor.name))
        if count and STRIPPED not in model.doc_string:
            model.doc_string = "-".join(filter(None, [model.doc_string, STRIPPED]))
        G_LOGGER.info(f"Removed {count_text(count, 'weight')} ({size} bytes).")
        return model


def _read_names(path: str | None) -> frozenset[str]:
    """Return the names in a file, one per line."""
    if path is None:
        return frozenset()
    file = readable_file(path, "List of weights")
    with translate_os_errors(path, "read"):
        content = file.read_bytes()
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"{path} is not a UTF-8 text file: {error}.", path=path) from error
    return frozenset(filter(None, map(str.strip, lines)))


def _strip_tensor(tensor: TensorProto, axis: int | None) -> None:
    """Remove the data of a weight, and mark it as stripped; note whether it was sparse."""
    is_float = tensor.data_type in _FLOATS
    is_sparse = axis is not None and is_float and not dense_groups(elements(tensor), axis)
    for field in DATA_FIELDS:
        tensor.ClearField(field)
    tensor.raw_data = b""
    if tensor.doc_string:
        # The mark replaces the text in `doc_string`, so store the text elsewhere.
        tensor.metadata_props.add(key=_DOCUMENTATION, value=tensor.doc_string)
    tensor.doc_string = f"{STRIPPED}/{_SPARSE if is_sparse else ''}"


@mod.export(funcify=True)
class RestoreWeights(BaseLoader):
    """Restores weights that were stripped from an ONNX model, from a model that has them."""

    def __init__(self, model: Deferred[ModelProto], original: Deferred[ModelProto]) -> None:
        """Create a loader that fills a model without weights from one with them.
        Both may be loaders.
        """
        self._model = model
        self._original = original

    def call_impl(self) -> ModelProto:
        """Return a new model with all weights.

        Raises:
            UnknownNameError: the original lacks a weight.
        """
        restored: ModelProto = copy_of(evaluate_model(self._model))
        original = evaluate(self._original)
        pairs = zip(all_graphs(restored.graph), all_graphs(original.graph), strict=True)
        for graph, before in pairs:
            tensors = graph_weights(before)
            for tensor in graph.initializer:
                if is_stripped(tensor):
                    name = tensor.name
                    if name not in tensors:
                        raise UnknownNameError("Weight", name, sorted(tensors))
                    tensor.CopyFrom(tensors[name])
                    tensor.name = name
        _remove_mark(restored)
        return restored


@mod.export(funcify=True)
class ReconstructWeights(BaseLoader):
    """Replaces stripped weights of an ONNX model with random numbers."""

    def __init__(self, model: Deferred[ModelProto], map_weights: bool | None = None) -> None:
        """Create a loader that replaces stripped weights with random ones, in memory or in a mapped
        file.

        Args:
            model: the model, which is changed in place, or a loader that returns it.
            map_weights: whether large weights are written to a temporary file, and mapped until
                their elements are needed; see `OnnxFromPath`.
        """
        self._model = model
        self._map_weights = bool(map_weights)

    def call_impl(self) -> ModelProto:
        """Return the model with random weights, which are reproducible, and sparse if the weight
        was sparse. A model with all its weights is unchanged, with a warning.

        Raises:
            FileError: the temporary folder is full.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Replace stripped weights by random numbers, and return the model."""
        axes = prunable_axes(model)
        count = 0
        for graph in all_graphs(model.graph):
            for tensor in graph.initializer:
                if is_stripped(tensor):
                    _fill_tensor(tensor, axes.get(tensor.name), in_file=self._map_weights)
                    count += 1
        if not count:
            G_LOGGER.warning(
                "The model is unchanged: it has all its weights. Only weights that weight-strip"
                " removed are reconstructed."
            )
            return model
        _remove_mark(model)
        G_LOGGER.info(f"Replaced {count_text(count, 'weight')} with random numbers.")
        return model


def _remove_mark(model: ModelProto) -> None:
    """Remove the mark that weights are missing from a model."""
    parts = [part for part in model.doc_string.split("-") if part != STRIPPED]
    model.doc_string = "-".join(parts)


def _fill_tensor(tensor: TensorProto, axis: int | None, *, in_file: bool) -> None:
    """Fill a stripped weight with random numbers, sparse ones if it was sparse."""
    dtype = OnnxDataTypes().from_native(tensor.data_type)
    if dtype is None:
        raise ModelError(f"Weight {tensor.name!r} has the unknown type {tensor.data_type}.")
    shape = tuple(tensor.dims)
    try:
        weight: Any = random_weight(shape, dtype, seed=crc32(tensor.name.encode()))
    except (MemoryError, ValueError) as error:
        raise ModelError(
            f"Weight {tensor.name!r} of shape {shape} cannot be created: {error}."
        ) from error
    if tensor.doc_string.endswith(_SPARSE) and axis is not None:
        weight = prune_array(weight, axis)
    tensor.ClearField("doc_string")
    for entry in tensor.metadata_props:
        if entry.key == _DOCUMENTATION:
            tensor.doc_string = entry.value
    delete_where(tensor.metadata_props, lambda entry: entry.key == _DOCUMENTATION)
    if in_file and byte_size(tensor) > SMALL and plain_dtype(tensor) is not None:
        replace_elements(tensor, weight, in_file=True)
    else:
        tensor.raw_data = numpy_helper.from_array(weight, tensor.name).raw_data


prune_weights: Callable[..., ModelProto]


@mod.export(funcify=True)
class PruneWeights(BaseLoader):
    """Sets the two smallest of every four consecutive weights of products to zero. Tensor cores
    compute with such weights twice as fast, but the accuracy is lost."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Create a loader that changes a model, or the model from a loader, in place."""
        self._model = model

    def call_impl(self) -> ModelProto:
        """Return the model with pruned weights."""
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Make weights sparse, and return the model."""
        axes = prunable_axes(model)
        threads = cores()
        for graph in all_graphs(model.graph):
            for name, tensor in graph_weights(graph, axes).items():
                array = prune_array(elements(tensor), axes[name], threads=threads)
                replace_elements(tensor, array, in_file=is_stored(tensor))
        if axes:
            G_LOGGER.info(f"Pruned {count_text(len(axes), 'weight')}: {', '.join(axes)}")
        else:
            G_LOGGER.warning("The model has no weight that can be pruned.")
        return model
