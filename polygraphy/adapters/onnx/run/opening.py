"""Opens ONNX models, to be cut, reduced and computed in part: the ports of
`polygraphy.ports.editing` that open models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx.describe.facts import find_facts
from polygraphy.adapters.onnx.describe.reading import describe_nodes, graph_with_weights
from polygraphy.adapters.onnx.edit.outputs import (
    ModifyOutputs,
    feeds_of,
    observe_tensors,
    one_feed,
)
from polygraphy.adapters.onnx.graph.graph import (
    constants_of,
    find_misplaced_node,
    graph_weights,
    sort_model,
)
from polygraphy.adapters.onnx.graph.inlining import inline_functions, with_branches
from polygraphy.adapters.onnx.graph.open_model import (
    OpenModel,
    assemble,
    is_tensor,
    value_without_type,
)
from polygraphy.adapters.onnx.graph.shapes import (
    describe_value,
    input_metadata,
    is_made_up,
    value_info,
)
from polygraphy.adapters.onnx.storage.elements import elements, load_external_data
from polygraphy.adapters.onnx.storage.model import OnnxFromPath, load_onnx, load_structure
from polygraphy.adapters.onnx.storage.saving import SaveOnnx, has_to_be_split, write_model
from polygraphy.adapters.onnx.storage.weights import (
    is_stored,
    weights_size,
    without_large_weights,
)
from polygraphy.adapters.onnx_common.messages import copy_of, identity_of
from polygraphy.adapters.os.paths import scratch_file
from polygraphy.domain.checks.order import MisplacedNode
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.profiling.execution import ModelNodes, profile_node
from polygraphy.domain.results.results import RecomputedTensors
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.precision import is_float
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, ValueInfoProto

    from polygraphy.domain.tensors.facts import Facts

    Array = np.ndarray[Any, Any]
    Feed = Mapping[str, Any]

numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")
numpy_helper = mod.lazy_import("onnx.numpy_helper")


def open_model(model: Any, *, as_it_is: bool = False, maps_weights: bool = False) -> OnnxOpenModel:
    """Return a model opened for diagnosis; see the port."""
    is_path = isinstance(model, (str, Path))
    loaded = load_onnx(str(model), maps_weights=maps_weights) if is_path else evaluate(model)
    if as_it_is:
        return OnnxOpenModel(loaded)
    ordered = sort_model(loaded)
    opened = OnnxOpenModel(inline_functions(ordered), model=ordered)
    if ordered is not loaded:
        opened.misplaced = find_misplaced_node(loaded)
    is_in_files = any(map(is_stored, loaded.graph.initializer))
    if is_path and opened.proto is loaded and (is_in_files or has_to_be_split(loaded)):
        opened.loadable = str(model)
    return opened


def model_nodes(model: Any) -> ModelNodes:
    """Return the nodes of a model without its weights; see the port."""
    path = str(model) if isinstance(model, (str, Path)) else ""
    opened = open_model(load_structure(path) if path else without_large_weights(evaluate(model)))
    nodes = [_short_node(node) for node in opened.nodes if node.op != "Constant"]
    return ModelNodes(nodes, list(opened.inputs), list(opened.outputs), path)


def _short_node(node: Node) -> Node:
    """Return a node as stored in profiles: inputs include those of its subgraphs, and a digest
    replaces its attributes.
    """
    inner = (name for name in node.reads if name not in node.inputs)
    digest = blake2b(node.settings.encode(), digest_size=6).hexdigest() if node.settings else ""
    return profile_node(node.label, node.operator, (*node.inputs, *inner), node.makes, digest)


def open_layered(model: Any, exclude_outputs: Sequence[str]) -> LayeredOnnxModel:
    """Return a model prepared for comparing its tensors layer by layer; see the port."""
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
    layered: ModelProto = evaluate(model)
    is_ours = callable(model)
    return LayeredOnnxModel(
        without_large_weights(layered),
        exclude_outputs,
        load=(lambda: layered) if is_ours else (lambda: copy_of(layered)),
        source=layered.graph,
        resident_weights=weights_size(layered),
    )


def open_reducible(model: ModelProto, data_loader: Any = None) -> ReducibleOnnxModel:
    """Return a model prepared for reducing it to a failing part; see the port."""
    return ReducibleOnnxModel(model, data_loader)


def samples_of(model: ModelProto, data_loader: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the input data of each iteration; see the port."""
    return feeds_of(model, data_loader)


def save_to_file(
    model: ModelProto,
    path: str,
    *,
    external_data_path: str | None = None,
    size_threshold: int | None = None,
    all_tensors_to_one_file: bool | None = None,
) -> None:
    """Write a model; weights of a model of 2 GB or more go to a file next to it."""
    options = (external_data_path, size_threshold, all_tensors_to_one_file)
    if options != (None, None, None) or has_to_be_split(model):
        SaveOnnx(model, path, *options).call_impl()
        return
    with scratch_file(path) as stream:
        write_model(model, stream)


class OnnxOpenModel(OpenModel):
    """An opened ONNX model; see the port `OpenModel`."""

    def __init__(self, proto: ModelProto, model: ModelProto | None = None, **weights: Any) -> None:
        """Open a model; `model` is the original if `proto` was derived from it."""
        super().__init__(proto, **weights)
        self.given = proto if model is None else model
        self.loadable: Any = proto
        self.misplaced: MisplacedNode | None = None

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return descriptions of the nodes, in order."""
        return describe_nodes(self.proto)

    @cached_property
    def graph(self) -> Graph:
        """Return the graph, with the values of its weights."""
        return graph_with_weights(self.proto, self.nodes)

    @property
    def operators(self) -> list[str]:
        return [str(node.op_type) for node in self.protos]

    def facts(self) -> Facts:
        """Return facts about the outputs, such as the data types of their computation."""
        return find_facts(self.proto)

    def with_branches(self, conditions: Mapping[str, Any]) -> OnnxOpenModel:
        """Return the model with taken branches in place of If nodes; see the port."""
        nodes = zip(self.protos, self.reads)
        requested_names = {
            name for node, names in nodes if node.op_type == "If" for name in names[:1]
        }
        weights = graph_weights(self.proto.graph) if requested_names else {}
        known_values: dict[str, Any] = {
            name: elements(weights[name]) for name in requested_names & weights.keys()
        }
        known_values.update(conditions)
        decided = {name: bool(numpy.all(array)) for name, array in known_values.items()}
        model = with_branches(self.proto, decided)
        return self if model is self.proto else OnnxOpenModel(model, model=self.given)

    @cached_property
    def _recomputer(self) -> Recomputer:
        """Return the object that recomputes tensors of this model."""
        return Recomputer(self)

    def recompute(
        self, name: str, runs: Sequence[Mapping[str, np.ndarray[Any, Any]]], epsilon: float
    ) -> RecomputedTensors | None:
        """Return a tensor computed from the tensors before it; None if that is not possible."""
        return self._recomputer.recompute(name, runs, epsilon)


class LayeredOnnxModel(OnnxOpenModel):
    """The structure of an ONNX model whose tensors are compared; see the port."""

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
        """Set the structure of a model, and the function that loads its weights.

        Args:
            structure: the model without its large weights.
            exclude_outputs: the outputs to omit.
            load: loads the whole original model, which may be changed in place.
            load_weights: reads the weights of a model that refers to them in files.
            source: a graph of the same nodes that has the weights; else they are in files.
            resident_weights: bytes of weights in memory.
        """
        self._own_outputs: list[ValueInfoProto] = [copy_of(v) for v in structure.graph.output]
        super().__init__(
            _mark_outputs(structure, exclude_outputs), load_weights=load_weights, source=source
        )
        self._exclude = exclude_outputs
        self._load = load
        self._is_loaded_anew = source is None
        self.resident_weights = resident_weights

    def marked_model(self) -> ModelProto:
        """Return a new model with every compared tensor as an output."""
        return _mark_outputs(self._load(), self._exclude)

    def unmarked_model(self) -> ModelProto:
        """Return a new model with only the model's own outputs."""
        model = self._load()
        if not self._is_loaded_anew:
            model = copy_of(model)
        del model.graph.output[:]
        model.graph.output.extend(self._own_outputs)
        return model


def _mark_outputs(model: ModelProto, exclude_outputs: Sequence[str]) -> ModelProto:
    """Return the model with all tensors as outputs, except excluded ones."""
    marked: ModelProto = ModifyOutputs(
        model, outputs=constants.MARK_ALL, exclude_outputs=exclude_outputs
    ).call_impl()
    return marked


class ReducibleOnnxModel:
    """The computing nodes of an ONNX graph, for reducing it.

    Tensors that a subgraph reads count as inputs of its node.
    """

    def __init__(self, model: ModelProto, data_loader: Any) -> None:
        """Open a model, and set the data of its runs."""
        self._opened = opened = OpenModel(sort_model(model))
        self._nodes = [i for i, node in enumerate(opened.protos) if node.op_type != "Constant"]
        positions = {index: number for number, index in enumerate(self._nodes)}
        makers = opened.makers
        self.dependencies = [
            sorted(
                {positions[maker] for n in opened.reads[i] if (maker := makers.get(n)) in positions}
            )
            for i in self._nodes
        ]
        self._loader = data_loader
        self._feed: dict[str, Any] | None = None
        self._seen: dict[str, Any] = {}

    def name(self, node: int) -> str:
        """Return the name of a node, or else that of its first output."""
        proto = self._opened.protos[self._nodes[node]]
        return identity_of(proto) or str(proto.op_type)

    def op(self, node: int) -> str:
        return str(self._opened.protos[self._nodes[node]].op_type)

    def part(
        self,
        nodes: Collection[int],
        *,
        ends: Collection[int] | None = None,
        starts: Collection[int] | None = None,
    ) -> ModelProto:
        """Return a model of some of the nodes."""
        opened, chosen = self._opened, self._places(nodes)
        names = {name for index in chosen for name in opened.protos[index].output if name}
        reads = dict.fromkeys(name for index in chosen for name in opened.reads[index])
        cut = [name for name in reads if name not in names and name not in opened.constants]
        computed = [name for name in cut if name not in opened.inputs]
        frozen = self._frozen_tensors(computed, len(computed) < len(cut), starts)
        if frozen:
            self._observe_tensors(
                computed
            )  # Pass all names in one call, because new inputs may also be requested as outputs.
        outputs = opened.results_read_outside(chosen)
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
        """Return the positions of nodes in the model."""
        return [self._nodes[node] for node in sorted(nodes)]

    def feed(self, part: ModelProto) -> dict[str, Any]:
        """Return the input values of a part, from a run of the whole model."""
        names = list(input_metadata(part))
        self._observe_tensors(names)
        return {name: self._seen[name] for name in names}

    def inside(self, node: int) -> tuple[ModelProto, dict[str, Any]] | None:
        """Return the executed body of a node with its data; None if it has none."""

        def values(names: Sequence[str]) -> dict[str, Any]:
            """Return the values of tensors in a run of the whole model."""
            self._observe_tensors(names)
            return {name: self._seen[name] for name in names}

        return self._opened.inside(self._nodes[node], values)

    def _frozen_tensors(
        self, cut: Sequence[str], is_fed: bool, starts: Collection[int] | None
    ) -> set[str]:
        """Return the tensors that become constants: those of other branches and, if inputs change,
        integer ones, because they are mostly shapes and indices, which random data cannot
        replace."""
        frozen: set[str] = set()
        if starts is not None:
            positions = self._places(starts)
            begun = {name for index in positions for name in self._opened.reads[index]}
            frozen = {name for name in cut if name not in begun}
        entries = [name for name in cut if name not in frozen]
        floating = [name for name in entries if self._is_floating(name)]
        if is_fed or floating:
            frozen.update(name for name in entries if name not in floating)
        return frozen

    def _is_floating(self, name: str) -> bool:
        """Return whether a tensor has a floating-point type."""
        dtype = self._metadata(name).dtype
        return dtype is not None and dtype.is_floating

    def _constant(self, name: str) -> Any:
        """Return a tensor as a weight, with its value from a run of the whole model."""
        self._observe_tensors([name])
        return numpy_helper.from_array(numpy.asarray(self._seen[name], order="C"), name)

    def _as_input(self, name: str) -> ValueInfoProto:
        """Return the declaration of a tensor that becomes an input:
        unknown dimensions are those of the data.
        """
        meta = self._metadata(name)
        named = {
            dim for input_name in self._opened.inputs.values() for dim in input_name.shape or ()
        }
        dims = meta.shape
        if dims is None or any(not isinstance(dim, int) and dim not in named for dim in dims):
            self._observe_tensors([name])
            meta = MetadataTuple(meta.dtype, list(self._seen[name].shape))
        return value_info(name, meta)

    def _as_output(self, name: str) -> ValueInfoProto:
        """Return the declaration of a tensor that becomes an output."""
        value = self._opened.value(name)
        if not is_tensor(value):
            return value
        try:
            meta = self._metadata(name)
        # The model cannot be run; a backend that can run the part determines the values itself.
        except BackendError:
            return value_without_type(name)
        shape = meta.shape
        if shape is not None:
            shape = [None if is_made_up(dim) else dim for dim in shape]
        return value_info(name, MetadataTuple(meta.dtype, shape))

    def _metadata(self, name: str) -> MetadataTuple:
        """Return the data type and the shape of a tensor.
        The data type is observed if it is unknown.
        """
        value = self._opened.value(name)
        if not is_tensor(value):
            raise ModelError(f"{name!r} is not a tensor, so the model cannot be cut there.")
        meta = describe_value(value)
        if meta.dtype is None:
            self._observe_tensors([name])
            meta = TensorMetadata.from_feed_dict({name: self._seen[name]})[name]
        return meta

    def _observe_tensors(self, names: Iterable[str]) -> None:
        """Record the values of tensors in a run of the whole model."""
        missing = [name for name in names if name not in self._seen]
        if not missing:
            return
        if self._feed is None:
            self._feed = one_feed(self._opened.proto, self._loader, only_first=True)
        G_LOGGER.verbose(f"Running the model to determine the values of {missing}.")
        self._seen.update(observe_tensors(self._opened.proto, self._feed, missing))


_MOST_NODES = 64
_DRAWS = 3
_SCALES = {"Sigmoid": 1.0}
"""Operators that kernels compute as a sum with a constant, such as 1/2 + tanh(x/2) / 2, so that
small results have an error of an epsilon of the constant.
"""


class Recomputer:
    """Recomputes tensors of a model."""

    def __init__(self, opened: OpenModel) -> None:
        """Set the opened model."""
        self._opened = opened
        self._weights = {**opened.weights, **constants_of(opened.protos)}

    def recompute(
        self, name: str, runs: Sequence[Feed], epsilon: float
    ) -> RecomputedTensors | None:
        """Return a tensor computed from the tensors before it; None if that is not possible."""
        nodes = self._nodes_from_known(name, runs)
        if nodes is None:
            return None
        positions, known_names = nodes
        weights = self._elements(known_names)
        feeds = [{**weights, **_select_arrays(run, known_names)} for run in runs]
        # Wide numbers avoid another rounding, but not every operator accepts them.
        for are_wide in (True, False) if epsilon else (False,):
            try:
                evaluate = self._evaluator(positions, name)
                widen_feeds = [_widen_feed(feed) for feed in feeds] if are_wide else feeds
                values = [evaluate(feed) for feed in widen_feeds]
                operands = known_names - weights.keys()
                spread = _spread(evaluate, widen_feeds[-1], operands, values[-1], epsilon)
            except Exception as error:  # Operators are plain NumPy code, which can raise anything.
                G_LOGGER.verbose(f"{name!r} cannot be computed from its inputs: {error}")
                continue
            node = self._opened.protos[positions[-1]]
            least = epsilon * _SCALES.get(node.op_type, 0.0)
            return RecomputedTensors(values, numpy.maximum(spread, least))
        return None

    def _elements(self, names: Collection[str]) -> dict[str, Array]:
        """Return, by name, the elements of the tensors that are weights."""
        model: ModelProto = onnx.ModelProto()
        for name in names:
            if name in self._weights:
                model.graph.initializer.add().CopyFrom(self._weights[name])
                model.graph.initializer[-1].name = name
        if self._opened.load_weights is not None:
            self._opened.load_weights(model)
        return {tensor.name: elements(tensor) for tensor in model.graph.initializer}

    def _nodes_from_known(
        self, name: str, runs: Sequence[Feed]
    ) -> tuple[list[int], set[str]] | None:
        """Return the nodes that compute a tensor from known ones, and the names of these, or None.
        The known tensors have values in all runs. The result is None if there are none.
        """
        nodes: set[int] = set()
        known_names: set[str] = set()
        open_names = [name]
        while open_names:
            current = open_names.pop()
            position = None if current in self._weights else self._opened.makers.get(current)
            if position is None or (current != name and all(current in run for run in runs)):
                known_names.add(current)
            elif position not in nodes:
                nodes.add(position)
                open_names += self._opened.reads[position]
        return (sorted(nodes), known_names) if 0 < len(nodes) <= _MOST_NODES else None

    def _evaluator(self, positions: Sequence[int], name: str) -> Callable[[Feed], Array]:
        """Return a function that computes a tensor with some nodes."""
        from polygraphy.adapters.onnx_common.evaluator import evaluator_of

        nodes = [self._opened.protos[position] for position in positions]
        output = {name for node in nodes for name in node.output}
        read = dict.fromkeys(n for position in positions for n in self._opened.reads[position])
        inputs = [value_without_type(name) for name in read if name not in output]
        part = assemble(
            self._opened.proto, nodes, inputs=inputs, outputs=[value_without_type(name)]
        )
        evaluator = evaluator_of(part)

        def evaluate(feed: Feed) -> Array:
            """Return the tensor for a feed."""
            result: Any = evaluator.run([name], dict(feed))
            value: Array = numpy.asarray(result[0])
            return value

        return evaluate


def _select_arrays(run: Feed, names: set[str]) -> dict[str, Array]:
    """Return the values of named tensors in a run; missing ones are omitted."""
    return {name: numpy.asarray(run[name]) for name in names if name in run}


def _widen_feed(feed: Feed) -> dict[str, Array]:
    """Return the data with floating-point arrays in float64."""
    return {n: a.astype(float) if is_float(a) else a for n, a in feed.items()}


def _spread(
    evaluate: Callable[[Feed], Array],
    feed: Mapping[str, Array],
    operands: Collection[str],
    value: Array,
    epsilon: float,
) -> Array:
    """Return the change of the elements, as one row, when operands are rounded in random
    directions. Weights are not rounded, because the scales of a Resize, for instance, would
    change its shape."""
    total: Array = numpy.zeros(value.shape if epsilon else ())
    if not epsilon:
        return total
    random = numpy.random.default_rng(0)
    for _ in range(_DRAWS):
        moved = {
            name: (a * (1 + epsilon * random.choice((-1.0, 1.0), a.shape))).astype(a.dtype)
            for name, a in feed.items()
            if name in operands and is_float(a)
        }
        step = numpy.asarray(evaluate({**feed, **moved}), numpy.float64) - value
        total += numpy.where(numpy.isfinite(step), step, 0.0) ** 2
    if value.ndim and value.size:
        # With few draws, an element may be unchanged by chance, so use at least the mean of its
        # row.
        total = numpy.maximum(total, total.mean(axis=-1, keepdims=True))
    spread: Array = numpy.sqrt(total / _DRAWS)
    return spread
