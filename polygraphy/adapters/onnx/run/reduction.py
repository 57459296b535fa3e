"""Takes ONNX models apart to find the part that fails."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.edit.observing import observe_tensors, one_feed
from polygraphy.adapters.onnx.graph.graph import in_order
from polygraphy.adapters.onnx.graph.open_model import OpenModel, is_tensor, untyped
from polygraphy.adapters.onnx.graph.shapes import is_made_up
from polygraphy.adapters.onnx.graph.value_infos import described, input_metadata, value_info
from polygraphy.adapters.onnx_common.messages import identity_of
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")


class ReducibleOnnxModel:
    """The nodes of the graph of an ONNX model, apart from those that are constants.

    What nodes inside of nodes take from the graph counts as taken by the node around them.
    """

    def __init__(self, model: ModelProto, data_loader: Any) -> None:
        self._opened = opened = OpenModel(in_order(model))
        self._nodes = [i for i, node in enumerate(opened.protos) if node.op_type != "Constant"]
        place = {index: number for number, index in enumerate(self._nodes)}
        makers = opened.makers
        self.dependencies = [
            sorted({place[made] for n in opened.reads[i] if (made := makers.get(n)) in place})
            for i in self._nodes
        ]
        self._loader = data_loader
        self._feed: dict[str, Any] | None = None
        self._seen: dict[str, Any] = {}

    def name(self, node: int) -> str:
        """Return the name of a node, or else that of the first tensor that it computes."""
        found = self._opened.protos[self._nodes[node]]
        return identity_of(found) or str(found.op_type)

    def op(self, node: int) -> str:
        return str(self._opened.protos[self._nodes[node]].op_type)

    def part(
        self,
        nodes: Collection[int],
        *,
        ends: Collection[int] | None = None,
        starts: Collection[int] | None = None,
    ) -> ModelProto:
        opened, chosen = self._opened, self._places(nodes)
        made = {name for index in chosen for name in opened.protos[index].output if name}
        reads = dict.fromkeys(name for index in chosen for name in opened.reads[index])
        cut = [name for name in reads if name not in made and name not in opened.constants]
        computed = [name for name in cut if name not in opened.inputs]
        frozen = self._frozen(computed, len(computed) < len(cut), starts)
        if frozen:
            self._observe(computed)  # All at once: what becomes an input may be asked for, too.
        outputs = opened.needed_of(chosen)
        if ends is not None:
            ending = [opened.protos[index] for index in self._places(ends)]
            outputs = [name for node in ending for name in node.output if name]
        return opened.cut(
            chosen,
            {name: self._as_input(name) for name in computed if name not in frozen},
            map(self._as_output, outputs),
            map(self._constant, frozen),
            keeps_types=True,
        )

    def _places(self, nodes: Collection[int]) -> list[int]:
        return [self._nodes[node] for node in sorted(nodes)]

    def feed(self, part: ModelProto) -> dict[str, Any]:
        names = list(input_metadata(part))
        self._observe(names)
        return {name: self._seen[name] for name in names}

    def inside(self, node: int) -> tuple[ModelProto, dict[str, Any]] | None:
        """Return the body of a node that is run, with its data."""

        def values(names: Sequence[str]) -> dict[str, Any]:
            self._observe(names)
            return {name: self._seen[name] for name in names}

        return self._opened.inside(self._nodes[node], values)

    def _frozen(self, cut: Sequence[str], is_fed: bool, starts: Collection[int] | None) -> set[str]:
        """Return which tensors become constants: those of other branches; and those that are no
        floating-point numbers, if there are inputs beside them, because they mostly are shapes and
        indices, for which other data will not do.
        """
        frozen: set[str] = set()
        if starts is not None:
            places = self._places(starts)
            begun = {name for index in places for name in self._opened.reads[index]}
            frozen = {name for name in cut if name not in begun}
        entries = [name for name in cut if name not in frozen]
        floating = [name for name in entries if self._is_floating(name)]
        if is_fed or floating:
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
        named = {dim for given in self._opened.inputs.values() for dim in given.shape or ()}
        dims = meta.shape
        if dims is None or any(not isinstance(dim, int) and dim not in named for dim in dims):
            self._observe([name])
            meta = MetadataTuple(meta.dtype, list(self._seen[name].shape))
        return value_info(name, meta)

    def _as_output(self, name: str) -> ValueInfoProto:
        value = self._opened.value(name)
        if not is_tensor(value):
            return value
        try:
            meta = self._known(name)
        except BackendError:  # The model cannot be run; what can run the part finds out itself.
            return untyped(name)
        shape = meta.shape
        if shape is not None:
            shape = [None if is_made_up(dim) else dim for dim in shape]
        return value_info(name, MetadataTuple(meta.dtype, shape))

    def _known(self, name: str) -> MetadataTuple:
        """Return data type and shape of a tensor; the data type is found out if need be."""
        value = self._opened.value(name)
        if not is_tensor(value):
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
            self._feed = one_feed(self._opened.proto, self._loader, only_first=True)
        G_LOGGER.verbose(f"Running the model to find out what {missing} hold.")
        self._seen.update(observe_tensors(self._opened.proto, self._feed, missing))
