"""Selects the outputs of an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.describe.facts import find_facts
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.graph.element_types import TypeInference
from polygraphy.adapters.onnx.graph.graph import clean, delete_where
from polygraphy.adapters.onnx.graph.open_model import OpenModel, value_without_type
from polygraphy.adapters.onnx.graph.shapes import input_metadata, set_known, value_info, value_infos
from polygraphy.adapters.onnx.storage.weights import (
    all_graphs,
    load_stored,
    makes_new_model,
    own_model,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import (
    copy_of,
    graphs_of,
    refuse_inner_name,
    weight_names,
)
from polygraphy.binding import function_for
from polygraphy.domain.data.loading import ONLY_FIRST, describe_model, has_more
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import BackendError, InputError, UnknownNameError, UsageError
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import count_text, is_pattern, select_names
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import evaluate_constants

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, ValueInfoProto


modify_outputs: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")


@mod.export(funcify=True)
class ModifyOutputs(BaseLoader):
    """Sets the outputs of an ONNX model."""

    @property
    def makes_new_model(self) -> bool:
        """Return whether the result is a new model that only the caller has; see `ownership`."""
        return self._copy or makes_new_model(self._model)

    def __init__(
        self,
        model: Deferred[ModelProto],
        outputs: Sequence[str] | None = None,
        exclude_outputs: Sequence[str] | None = None,
        copy: bool | None = None,
        mark_types: Sequence[str] | None = None,
    ) -> None:
        """Set the tensors that become outputs; names may be patterns of `fnmatch`.

        Args:
            model: the model, or a loader that returns it.
            outputs: the tensors that replace the present outputs, or `constants.MARK_ALL` for every
                tensor that the graph computes, without constants.
            exclude_outputs: tensors that never become outputs.
            copy: whether a copy is changed instead of the model itself.
            mark_types: types of operators, in upper or lower case; the results of such nodes become
                outputs, in place of the present ones, or in addition to `outputs`.
        """
        self._model = model
        self._outputs = outputs
        self._exclude = exclude_outputs or ()
        self._types = mark_types
        self._copy = bool(copy)

    def call_impl(self) -> ModelProto:
        """Return the model; its outputs are in the order in which the graph computes them.

        Raises:
            UnknownNameError: a name, pattern or type matches nothing in the model.
            UsageError: a name is that of a constant or of a tensor in a subgraph, or no output
                remains.
        """
        model = own_model(self._model) if self._copy else evaluate_model(self._model)
        tensors = GraphTensors(model.graph, model.functions)
        chosen = self._select_outputs(tensors)
        types = _types_of(model, chosen)
        if self._marks_all:
            maps = {value.name for value in model.graph.output if _are_maps(value)}
            chosen = {name for name in chosen if name in maps or _is_tensor(name, types.get(name))}
        chosen -= tensors.match_names(self._exclude)
        if not chosen:
            raise UsageError("No output of the model remains.", hint="Exclude fewer of them.")
        _set_outputs(model.graph, [name for name in tensors.order if name in chosen], types)
        G_LOGGER.verbose(f"Outputs of the ONNX model: {[out.name for out in model.graph.output]}")
        return model

    @property
    def _marks_all(self) -> bool:
        """Return whether all tensors become outputs."""
        return self._outputs == constants.MARK_ALL

    def _select_outputs(self, tensors: GraphTensors) -> set[str]:
        """Return the names of the tensors that become outputs."""
        if self._outputs is None and self._types is None:
            return set(tensors.outputs)
        by_type = tensors.outputs_by_type(self._types or ())
        if self._outputs is None:
            return by_type
        if self._marks_all:
            return by_type | set(tensors.outputs) | (set(tensors.computed) - tensors.constants)
        return by_type | tensors.match_names(self._outputs)


class GraphTensors:
    """The tensors of a graph by name, in the order of their computation."""

    def __init__(self, graph: GraphProto, functions: Iterable[FunctionProto] = ()) -> None:
        """Collect the tensors of a graph."""
        self._functions = functions
        self.outputs = [value.name for value in graph.output]
        self.computed = [name for node in graph.node for name in node.output if name]
        self.order = list(dict.fromkeys([*(v.name for v in graph.input), *self.computed]))
        self.weights = weight_names(graph)
        # Outputs that are weights are rare, but allowed. They remain unchanged.
        self.order = [
            name for name in self.order if name not in self.weights or name in self.outputs
        ]
        self.order = list(dict.fromkeys([*self.order, *self.outputs]))
        self.constants = {
            name for node in graph.node if node.op_type == "Constant" for name in node.output
        }
        self._inputs = {value.name for value in graph.input}
        self._graph = graph

    def match_names(self, words: Iterable[str]) -> set[str]:
        """Return the tensors that names and patterns match; patterns match computed tensors
        only."""
        words = [words] if isinstance(words, str) else list(words)
        for word in words:
            if word not in self.order and not is_pattern(word):
                self._reject_unmarkable(word)
        return select_names(words, self.order, unless=self.constants | self._inputs)

    def _reject_unmarkable(self, name: str) -> None:
        """Raise if a name is that of a weight, or of a tensor in a subgraph."""
        if name in self.weights:
            raise UsageError(
                f"Tensor {name!r} is a weight of the model: it is the same in every backend, and"
                " cannot be an output."
            )
        for node in self._graph.node:
            for graph in (graph for outer in graphs_of(node) for graph in all_graphs(outer)):
                if any(name in part.output for part in graph.node):
                    raise UsageError(
                        f"Tensor {name!r} is in a subgraph of the {node.op_type} node"
                        f" {node.name!r}, so it cannot be an output of the model.",
                        hint=f"Use outputs of that node: {', '.join(map(repr, node.output))}.",
                    )
        refuse_inner_name(self._graph, name, self._functions)

    def outputs_by_type(self, types: Iterable[str]) -> set[str]:
        """Return the outputs of nodes of some types.
        Raise UnknownNameError for a type without nodes."""
        makers: dict[str, list[str]] = {}
        for node in self._graph.node:
            makers.setdefault(node.op_type.lower(), []).extend(filter(None, node.output))
        by_type: set[str] = set()
        for wanted in [types] if isinstance(types, str) else types:
            if wanted.lower() not in makers:
                op_types = sorted({node.op_type for node in self._graph.node})
                raise UnknownNameError("Operator type", wanted, op_types)
            by_type.update(makers[wanted.lower()])
        return by_type


def set_outputs(model: ModelProto, names: Sequence[str]) -> None:
    """Set the outputs of a model, in this order."""
    _set_outputs(model.graph, names, _types_of(model, names))


def _types_of(model: ModelProto, names: Iterable[str]) -> dict[str, ValueInfoProto]:
    """Return the declarations of tensors, inferred if the model does not state them."""
    opened = OpenModel(model)
    return opened.declared_types if opened.declared_types.keys() >= set(names) else opened.types


def _is_tensor(name: str, value: ValueInfoProto | None) -> bool:
    """Return whether a value is a tensor, as far as is known.
    Sequences, maps and optionals are not.
    """
    if value is None or value.type.WhichOneof("value") == "tensor_type":
        return True
    G_LOGGER.verbose(f"{name!r} is not a tensor, so it cannot become an output.")
    return False


def _are_maps(value: ValueInfoProto) -> bool:
    """Return whether a value is a sequence of maps, as ZipMap computes it for classifiers."""
    return bool(value.type.sequence_type.elem_type.WhichOneof("value") == "map_type")


def _set_outputs(graph: GraphProto, names: Sequence[str], types: dict[str, ValueInfoProto]) -> None:
    """Set the outputs of a graph, and keep the declarations of former ones."""
    described = {value.name for value in (*graph.value_info, *graph.input)}
    former = [copy_of(value) for value in graph.output]
    untyped_values = [
        copy_of(types[name]) if name in types else value_without_type(name) for name in names
    ]
    del graph.output[:]
    graph.output.extend(untyped_values)
    chosen = set(names)
    known_names = chosen | described
    values = [copy_of(value) for value in graph.value_info if value.name not in chosen]
    values += [value for value in former if value.name not in known_names]
    del graph.value_info[:]
    graph.value_info.extend(values)


observe_shapes: Callable[..., ModelProto]


numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")


def output_names(model: ModelProto) -> list[str]:
    """Return the names of the outputs of a model."""
    return [value.name for value in model.graph.output]


def observe_tensors(
    model: ModelProto, feed_dict: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    """Return the values of some tensors, which may be inputs, from one run."""
    known_names = {name for node in model.graph.node for name in node.output if name}
    known_names |= {tensor.name for tensor in model.graph.initializer} | set(feed_dict)
    for name in names:
        if name not in known_names:
            raise UnknownNameError("Tensor", name, sorted(known_names))
    arrays = {name: numpy.asarray(feed_dict[name]) for name in names if name in feed_dict}
    wanted = [name for name in names if name not in arrays]
    if not wanted:
        return arrays
    fixed: ModelProto = copy_of(model)
    graph = fixed.graph
    # Earlier versions require weights to be inputs as well.
    fixed.ir_version = max(fixed.ir_version, 4)
    del graph.input[:]
    delete_where(graph.initializer, lambda tensor: tensor.name in feed_dict)
    graph.initializer.extend(
        numpy_helper.from_array(numpy.asarray(array, order="C"), name)
        for name, array in feed_dict.items()
    )
    types = value_infos(model)
    del graph.output[:]
    graph.output.extend(types.get(name, onnx.ValueInfoProto(name=name)) for name in wanted)
    for value in graph.output:  # Declared shapes may be those of other data.
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    clean(graph)
    for inner in all_graphs(graph):
        for tensor in inner.initializer:
            load_stored(tensor)
    values = _evaluate_tensors(fixed, wanted)
    return {name: arrays[name] if name in arrays else values[name] for name in names}


def _evaluate_tensors(model: ModelProto, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the values of some tensors from the reference evaluator,
    if the usual backend lacks an operator for a data type.

    Raises:
        BackendError: no available backend can compute them.
    """
    try:
        return evaluate_constants(model, names)
    except BackendError as error:
        G_LOGGER.verbose(f"Trying the reference evaluator next: {error}")
        try:
            return function_for(evaluate_constants, "onnx")(model, names)
        except BackendError:
            raise error from None


def one_feed(
    model: ModelProto, data_loader: Any = None, *, only_first: bool = False
) -> dict[str, Any]:
    """Return the input data of one iteration for a model.

    Args:
        model: the model.
        data_loader: the source of the input data: an iterable of feed dictionaries, or a loader
            that reads its attribute `input_metadata` (default: generated).
        only_first: whether the command uses no other iteration; if there is one, a warning says so.

    Raises:
        InputError: there is none, or it lacks an input.
    """
    loader, feeds = _prepare_feeds(model, data_loader)
    feed_dict = next(feeds)
    for note in getattr(loader, "notes", ()):
        G_LOGGER.warning(note)
    if only_first and has_more(loader, feeds):
        G_LOGGER.warning(ONLY_FIRST)
    return feed_dict


def feeds_of(model: ModelProto, data_loader: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the input data of each iteration for a model; see `one_feed`."""
    loader, feeds = _prepare_feeds(model, data_loader)
    yield next(feeds)
    for note in getattr(loader, "notes", ()):
        G_LOGGER.warning(note)
    yield from feeds


def _prepare_feeds(model: ModelProto, data_loader: Any) -> tuple[Any, Iterator[dict[str, Any]]]:
    """Return the data loader and its iterations; raise if there are none."""
    loader = DataLoader() if data_loader is None else evaluate(data_loader)
    metadata = input_metadata(model)
    describe_model(loader, metadata, partial(find_facts, model))
    return loader, _check_feeds(loader, metadata)


def _check_feeds(loader: Any, metadata: TensorMetadata) -> Iterator[dict[str, Any]]:
    """Yield the iterations of a data loader, restricted to the inputs.
    Raise InputError if one lacks an input."""
    is_empty = True
    for feed_dict in loader:
        is_empty = False
        missing = [name for name in metadata if name not in feed_dict]
        if missing:
            raise InputError(f"The input data lacks {', '.join(map(repr, missing))}.")
        yield {name: feed_dict[name] for name in metadata}
    if is_empty:
        raise InputError("There is no input data to run the model.")


def observe_metadata(
    model: ModelProto, names: Iterable[str], data_loader: Any = None
) -> TensorMetadata:
    """Return data types and shapes of some tensors from one run."""
    feed_dict = one_feed(model, data_loader)
    values = observe_tensors(model, feed_dict, list(names))
    return TensorMetadata.from_feed_dict(values)


@mod.export(funcify=True)
class ObserveShapes(BaseLoader):
    """Runs an ONNX model once and records the shapes of its tensors, including those that cannot be
    inferred; every dimension is a number."""

    def __init__(self, model: Deferred[ModelProto], data_loader: Any = None) -> None:
        """Set the model and the data.

        Args:
            model: the model, which is changed in place, or a loader that returns it.
            data_loader: source of the input data (default: generated).
        """
        self._model = model
        self._data_loader = data_loader

    def call_impl(self) -> ModelProto:
        """Return the model with the shapes of one run; its inputs have the shapes of the data.

        Raises:
            BackendError: the model cannot be run.
            InputError: the data does not fit it.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Set the shapes that a run of the model shows, and return the model."""
        graph = model.graph
        feed_dict = one_feed(model, self._data_loader)
        types = TypeInference(model).infer_graph(graph)
        names = [name for node in graph.node for name in node.output if name]
        tensors = [name for name in names if str(types[name]).startswith("tensor(")]
        values = observe_tensors(model, feed_dict, tensors)
        metadata = TensorMetadata.from_feed_dict({**feed_dict, **values})
        described = {value.name for value in graph.output}
        for value in (*graph.input, *graph.output, *graph.value_info):
            described.add(value.name)
            if value.name in metadata:
                set_known(value, metadata[value.name])
        graph.value_info.extend(
            value_info(name, metadata[name]) for name in tensors if name not in described
        )
        G_LOGGER.info(
            f"Determined the shapes of {count_text(len(metadata), 'tensor')} by running the model."
        )
        return model
