"""Opens ONNX models: implements the ports of `polygraphy.ports.opening`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx.describe.facts import find_facts
from polygraphy.adapters.onnx.describe.reading import origin_of
from polygraphy.adapters.onnx.edit.observing import feeds_of
from polygraphy.adapters.onnx.edit.outputs import ModifyOutputs
from polygraphy.adapters.onnx.graph.graph import graph_weights, in_order
from polygraphy.adapters.onnx.graph.inlining import inlined, with_branches
from polygraphy.adapters.onnx.graph.open_model import OpenModel
from polygraphy.adapters.onnx.run.recomputing import Recomputer
from polygraphy.adapters.onnx.run.reduction import ReducibleOnnxModel
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.external import load_external_data
from polygraphy.adapters.onnx.storage.model import OnnxFromPath, load_structure
from polygraphy.adapters.onnx.storage.saving import SaveOnnx, has_to_be_split, write_model
from polygraphy.adapters.onnx.storage.weights import weights_size, without_large_weights
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.adapters.os.paths import scratch_file
from polygraphy.domain.diagnosis.regions import DISCONTINUOUS, GraphNode

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

    from polygraphy.domain.results.results import Recomputed
    from polygraphy.domain.tensors.facts import Facts

numpy = mod.lazy_import("numpy")

_ROUNDED = frozenset((1, 10, 11, 16))


class OnnxOpenModels:
    """Opens ONNX models."""

    def open(self, model: Any, *, as_it_is: bool = False) -> OnnxOpenModel:
        given = self.load(str(model)) if isinstance(model, (str, Path)) else evaluate(model)
        if as_it_is:
            return OnnxOpenModel(given)
        ordered = in_order(given)
        return OnnxOpenModel(inlined(ordered), given=ordered)

    def layered(self, model: Any, exclude_outputs: Sequence[str]) -> LayeredOnnxModel:
        if isinstance(model, (str, Path)):
            path = Path(model)
            return LayeredOnnxModel(
                load_structure(path),
                exclude_outputs,
                load=OnnxFromPath(str(path)).call_impl,
                load_weights=lambda part: load_external_data(
                    part, path.parent, trusted=[path.resolve().parent]
                ),
            )
        given: ModelProto = evaluate(model)
        is_ours = callable(model)
        return LayeredOnnxModel(
            without_large_weights(given),
            exclude_outputs,
            load=(lambda: given) if is_ours else (lambda: copy_of(given)),
            source=given.graph,
            resident_weights=weights_size(given),
        )

    def reducible(self, model: ModelProto, data_loader: Any = None) -> ReducibleOnnxModel:
        return ReducibleOnnxModel(model, data_loader)

    def samples(self, model: ModelProto, data_loader: Any = None) -> Iterator[dict[str, Any]]:
        return feeds_of(model, data_loader)

    def save(self, model: ModelProto, path: str, **options: Any) -> None:
        """Write a model; one of 2 GB or more has its weights in a file beside it."""
        if options or has_to_be_split(model):
            SaveOnnx(model, path, **options).call_impl()
            return
        with scratch_file(path) as stream:
            write_model(model, stream)

    def load(self, path: str) -> ModelProto:
        """Read a model, with its weights."""
        return OnnxFromPath(path).call_impl()


class OnnxOpenModel(OpenModel):
    """An ONNX model that is open; see the port `OpenModel`."""

    def __init__(self, proto: ModelProto, given: ModelProto | None = None, **weights: Any) -> None:
        """Take a model, and that of which it was made if it is another; see `OpenModel`."""
        super().__init__(proto, **weights)
        self.given = proto if given is None else given

    @cached_property
    def nodes(self) -> list[GraphNode]:
        return list(map(_node, self.protos, self.reads))

    @property
    def operators(self) -> list[str]:
        return [str(node.op_type) for node in self.protos]

    def facts(self) -> Facts:
        return find_facts(self.proto)

    def with_branches(self, conditions: Mapping[str, Any]) -> OnnxOpenModel:
        nodes = zip(self.protos, self.reads)
        asked = {name for node, names in nodes if node.op_type == "If" for name in names[:1]}
        weights = graph_weights(self.proto.graph) if asked else {}
        known: dict[str, Any] = {name: elements(weights[name]) for name in asked & weights.keys()}
        known.update(conditions)
        decided = {name: bool(numpy.all(array)) for name, array in known.items()}
        made = with_branches(self.proto, decided)
        return self if made is self.proto else OnnxOpenModel(made, given=self.given)

    @cached_property
    def _recomputer(self) -> Recomputer:
        return Recomputer(self)

    def recompute(
        self, name: str, runs: Sequence[Mapping[str, np.ndarray[Any, Any]]], epsilon: float
    ) -> Recomputed | None:
        return self._recomputer.recompute(name, runs, epsilon)


class LayeredOnnxModel(OnnxOpenModel):
    """The structure of an ONNX model, whose outputs are what is compared; see the port."""

    def __init__(
        self,
        structure: ModelProto,
        exclude_outputs: Sequence[str],
        *,
        load: Callable[[], ModelProto],
        load_weights: Callable[[ModelProto], None] | None = None,
        source: GraphProto | None = None,
        resident_weights: int = 0,
    ) -> None:
        """Take the structure of a model.

        Args:
            structure: the model without its large weights.
            exclude_outputs: what is not compared.
            load: loads the whole model as it was given, to be changed in place.
            load_weights: reads the weights of a model that refers to them in files.
            source: a graph of the same nodes that has the weights; else they are in files.
            resident_weights: bytes of weights in memory.
        """
        self._own_outputs: list[ValueInfoProto] = [copy_of(v) for v in structure.graph.output]
        super().__init__(
            _marked(structure, exclude_outputs), load_weights=load_weights, source=source
        )
        self._exclude = exclude_outputs
        self._load = load
        self._is_loaded_anew = source is None
        self.resident_weights = resident_weights

    def whole(self) -> ModelProto:
        return _marked(self._load(), self._exclude)

    def unmarked(self) -> ModelProto:
        """Return the model with its own outputs alone; a model of its own, whatever `whole` made of
        the one that was given.
        """
        model = self._load()
        if not self._is_loaded_anew:
            model = copy_of(model)
        del model.graph.output[:]
        model.graph.output.extend(self._own_outputs)
        return model


def _marked(model: ModelProto, exclude_outputs: Sequence[str]) -> ModelProto:
    marked: ModelProto = ModifyOutputs(
        model, outputs=constants.MARK_ALL, exclude_outputs=exclude_outputs
    ).call_impl()
    return marked


def _node(node: NodeProto, reads: Sequence[str]) -> GraphNode:
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
    settings = sorted(
        attribute.SerializeToString(deterministic=True) for attribute in node.attribute
    )
    origin = origin_of(node)
    cast_to = next((entry.i for entry in node.attribute if entry.name == "to"), 1)
    return GraphNode(
        name=node.name or next((name for name in node.output if name), ""),
        op=f"{domain}{node.op_type}",
        reads=list(reads),
        makes=[name for name in node.output if name],
        settings=b"|".join(settings).hex(),
        jumps=node.op_type in DISCONTINUOUS
        or (node.op_type == "Cast" and cast_to not in _ROUNDED)
        or node.op_type.startswith("QLinear"),
        origin=None if origin is None else str(origin),
    )
