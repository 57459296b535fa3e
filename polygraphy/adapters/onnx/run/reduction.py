"""Takes ONNX models apart to find the part that fails."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.edit.observing import OnnxTensorObserver, feeds_of, one_feed
from polygraphy.adapters.onnx.graph.graph import producers, sort
from polygraphy.adapters.onnx.graph.shapes import inferred_value_infos, is_made_up, value_infos
from polygraphy.adapters.onnx.graph.value_infos import described, input_metadata, value_info
from polygraphy.adapters.onnx.run.bodies import body_of
from polygraphy.adapters.onnx.run.subgraph import copy_frame
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx.storage.saving import SaveOnnx, has_to_be_split
from polygraphy.adapters.onnx.storage.writing import write_model
from polygraphy.adapters.onnx_common.messages import identity_of, inputs_of, used_by
from polygraphy.adapters.os.paths import scratch_file
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")
onnx = mod.lazy_import("onnx")

_OLDEST = 4
"""The first version of the format in which weights need not be inputs, too."""


class OnnxModelReducer:
    """Implements the port `ModelReducer`."""

    def open(self, model: ModelProto, data_loader: Any = None) -> ReducibleOnnxModel:
        return ReducibleOnnxModel(model, data_loader)

    def samples(self, model: ModelProto, data_loader: Any = None) -> Iterator[dict[str, Any]]:
        return feeds_of(model, data_loader)

    def save(self, model: ModelProto, path: str) -> None:
        """Write a model; one of 2 GB or more has its weights in a file beside it."""
        if has_to_be_split(model):
            SaveOnnx(model, path).call_impl()
            return
        with scratch_file(path) as stream:
            write_model(model, stream)

    def load(self, path: str) -> ModelProto:
        """Read a model, with its weights."""
        return OnnxFromPath(path).call_impl()


class ReducibleOnnxModel:
    """The nodes of the graph of an ONNX model, apart from those that are constants.

    What nodes inside of nodes take from the graph counts as taken by the node around them.
    """

    def __init__(self, model: ModelProto, data_loader: Any) -> None:
        self._model = model
        sort(model.graph)
        graph = model.graph
        self._nodes = [index for index, node in enumerate(graph.node) if node.op_type != "Constant"]
        self._made_by = producers(graph)
        place = {index: number for number, index in enumerate(self._nodes)}
        self._reads = [tuple(dict.fromkeys(used_by(graph.node[i]))) for i in self._nodes]
        self.dependencies = [
            sorted({place[made] for name in reads if (made := self._made_by.get(name)) in place})
            for reads in self._reads
        ]
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        self._inputs = inputs_of(graph)
        self._stated = value_infos(model)
        self._inferred: dict[str, ValueInfoProto] | None = None
        self._loader = data_loader
        self._feed: dict[str, Any] | None = None
        self._seen: dict[str, Any] = {}

    def name(self, node: int) -> str:
        """Return the name of a node, or else that of the first tensor that it computes."""
        found = self._model.graph.node[self._nodes[node]]
        return identity_of(found) or str(found.op_type)

    def op(self, node: int) -> str:
        return str(self._model.graph.node[self._nodes[node]].op_type)

    def part(
        self,
        nodes: Collection[int],
        *,
        ends: Collection[int] | None = None,
        starts: Collection[int] | None = None,
    ) -> ModelProto:
        graph = self._model.graph
        chosen = [graph.node[self._nodes[node]] for node in sorted(nodes)]
        made = {name for node in chosen for name in node.output if name}
        reads = dict.fromkeys(name for node in sorted(nodes) for name in self._reads[node])
        outside = [name for name in reads if name not in made]
        constants = self._constants(outside)
        fed = {value.name for value in self._inputs}
        cut = [name for name in outside if name not in constants and not self._is_weight(name)]
        computed = [name for name in cut if name not in fed]
        frozen = self._frozen(computed, fed & set(cut), starts)
        if frozen:
            self._observe(computed)  # All at once: what becomes an input may be asked for, too.

        part: ModelProto = onnx.ModelProto()
        copy_frame(self._model, part)
        part.ir_version = max(part.ir_version, _OLDEST)
        part.graph.name = graph.name
        part.graph.node.extend(graph.node[index] for index in sorted(set(constants.values())))
        part.graph.node.extend(chosen)
        part.graph.initializer.extend(
            self._weights[name] for name in outside if name in self._weights
        )
        part.graph.sparse_initializer.extend(
            self._sparse[name] for name in outside if name in self._sparse
        )
        part.graph.initializer.extend(self._constant(name) for name in frozen)
        part.graph.input.extend(value for value in self._inputs if value.name in reads)
        part.graph.input.extend(
            self._as_input(name) for name in cut if name not in fed and name not in frozen
        )
        outputs = self._outputs(nodes, ends, made)
        part.graph.output.extend(self._as_output(name) for name in outputs)
        part.graph.value_info.extend(
            value for value in graph.value_info if value.name in made and value.name not in outputs
        )
        return part

    def feed(self, part: ModelProto) -> dict[str, Any]:
        names = list(input_metadata(part))
        self._observe(names)
        return {name: self._seen[name] for name in names}

    def inside(self, node: int) -> tuple[ModelProto, dict[str, Any]] | None:
        """Return the body of a node that is run, with its data."""

        def values(names: Sequence[str]) -> dict[str, Any]:
            self._observe(names)
            return {name: self._seen[name] for name in names}

        return body_of(self._model, self._model.graph.node[self._nodes[node]], values)

    def _constants(self, names: Iterable[str]) -> dict[str, int]:
        """Return which of some tensors `Constant` nodes make, with the indices of these."""
        searched = set(self._nodes)
        found = {name: self._made_by[name] for name in names if name in self._made_by}
        return {name: index for name, index in found.items() if index not in searched}

    def _is_weight(self, name: str) -> bool:
        return name in self._weights or name in self._sparse

    def _outputs(
        self, nodes: Collection[int], ends: Collection[int] | None, made: set[str]
    ) -> list[str]:
        graph = self._model.graph
        if ends is not None:
            ending = [graph.node[self._nodes[node]] for node in sorted(ends)]
            return [name for node in ending for name in node.output if name]
        kept = set(nodes)
        needed = {value.name for value in graph.output}
        for node, reads in enumerate(self._reads):
            if node not in kept:
                needed.update(reads)
        return [name for name in self._made_by if name in made and name in needed]

    def _frozen(
        self, cut: Sequence[str], fed: Collection[str], starts: Collection[int] | None
    ) -> set[str]:
        """Return which tensors become constants: those of other branches; and those that are no
        floating-point numbers, if there are inputs beside them, because they mostly are shapes and
        indices, for which other data will not do.
        """
        frozen: set[str] = set()
        if starts is not None:
            begun = {name for node in starts for name in self._reads[node]}
            frozen = {name for name in cut if name not in begun}
        entries = [name for name in cut if name not in frozen]
        floating = [name for name in entries if self._is_floating(name)]
        if fed or floating:
            frozen.update(name for name in entries if name not in floating)
        return frozen

    def _is_floating(self, name: str) -> bool:
        dtype = self._known(name).dtype
        return dtype is not None and dtype.is_floating

    def _constant(self, name: str) -> Any:
        """Return a tensor as a weight, with its value when the whole model is run."""
        self._observe([name])
        return numpy_helper.from_array(numpy.asarray(self._seen[name], order="C"), name)

    def _as_input(self, name: str) -> ValueInfoProto:
        """Return the description of a tensor that becomes an input: dimensions that nothing tells
        are those of the data.
        """
        meta = self._known(name)
        named = {dim for value in self._inputs for dim in described(value).shape or ()}
        dims = meta.shape
        if dims is None or any(not isinstance(dim, int) and dim not in named for dim in dims):
            self._observe([name])
            meta = MetadataTuple(meta.dtype, list(self._seen[name].shape))
        return value_info(name, meta)

    def _as_output(self, name: str) -> ValueInfoProto:
        value = self._value(name)
        if value is not None and value.type.WhichOneof("value") != "tensor_type":
            return value
        try:
            meta = self._known(name)
        except BackendError:  # The model cannot be run; what can run the part finds out itself.
            untyped: ValueInfoProto = onnx.ValueInfoProto(name=name)
            return untyped
        shape = meta.shape
        if shape is not None:
            shape = [None if is_made_up(dim) else dim for dim in shape]
        return value_info(name, MetadataTuple(meta.dtype, shape))

    def _value(self, name: str) -> ValueInfoProto | None:
        """Return what the model says about a tensor, or else what can be inferred."""
        known = self._stated.get(name)
        if known is not None and described(known).shape is not None:
            return known
        if self._inferred is None:
            self._inferred = inferred_value_infos(self._model)
        return self._inferred.get(name, known)

    def _known(self, name: str) -> MetadataTuple:
        """Return data type and shape of a tensor; the data type is found out if need be."""
        value = self._value(name)
        if value is not None and value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise ModelError(f"{name!r} is no tensor, so the model cannot be cut there.")
        meta = described(value)
        if meta.dtype is None:
            self._observe([name])
            meta = TensorMetadata.from_feed_dict({name: self._seen[name]})[name]
        return meta

    def _observe(self, names: Iterable[str]) -> None:
        """Find out what tensors hold when the whole model is run."""
        missing = [name for name in names if name not in self._seen]
        if not missing:
            return
        if self._feed is None:
            self._feed = one_feed(self._model, self._loader, only_first=True)
        G_LOGGER.verbose(f"Running the model to find out what {missing} hold.")
        self._seen.update(OnnxTensorObserver().observe(self._model, self._feed, missing))
