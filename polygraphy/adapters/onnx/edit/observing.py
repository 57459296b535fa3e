"""Finds out by running a model once what its tensors hold, and of which types and shapes they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.describe.facts import find_facts
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.element_types import TypeInference
from polygraphy.adapters.onnx.graph.graph import clean, delete_where
from polygraphy.adapters.onnx.graph.shapes import value_infos
from polygraphy.adapters.onnx.graph.value_infos import input_metadata, restate, value_info
from polygraphy.adapters.onnx.storage.stored import load_stored
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.binding import resolve
from polygraphy.domain.data.loading import ONLY_FIRST, describe_model, has_more
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import BackendError, InputError, UnknownNameError
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import ConstantEvaluator

if TYPE_CHECKING:
    from onnx import ModelProto


observe_shapes: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")


def output_names(model: ModelProto) -> list[str]:
    """Return the names of what a model gives."""
    return [value.name for value in model.graph.output]


def observe_tensors(
    model: ModelProto, feed_dict: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    """Return the values of some tensors, among them inputs."""
    known = {name for node in model.graph.node for name in node.output if name}
    known |= {tensor.name for tensor in model.graph.initializer} | set(feed_dict)
    for name in names:
        if name not in known:
            raise UnknownNameError("Tensor", name, sorted(known))
    given = {name: numpy.asarray(feed_dict[name]) for name in names if name in feed_dict}
    wanted = [name for name in names if name not in given]
    if not wanted:
        return given
    fixed: ModelProto = copy_of(model)
    graph = fixed.graph
    fixed.ir_version = max(fixed.ir_version, 4)  # Before, weights have to be inputs, too.
    del graph.input[:]
    delete_where(graph.initializer, lambda tensor: tensor.name in feed_dict)
    graph.initializer.extend(
        numpy_helper.from_array(numpy.asarray(array, order="C"), name)
        for name, array in feed_dict.items()
    )
    types = value_infos(model)
    del graph.output[:]
    graph.output.extend(types.get(name, onnx.ValueInfoProto(name=name)) for name in wanted)
    for value in graph.output:  # What is stated about shapes may hold for other data.
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    clean(graph)
    for inner in all_graphs(graph):
        for tensor in inner.initializer:
            load_stored(tensor)
    values = _evaluated(fixed, wanted)
    return {name: given[name] if name in given else values[name] for name in names}


def _evaluated(model: ModelProto, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the values of some tensors, from the reference evaluator where the usual one has no
    implementation of an operator for a data type, as ONNX Runtime has few for bfloat16.

    Raises:
        BackendError: neither can compute them.
    """
    try:
        return resolve(ConstantEvaluator).evaluate(model, names)
    except BackendError as error:
        G_LOGGER.verbose(f"The reference evaluator is tried next: {error}")
        try:
            return resolve(ConstantEvaluator, "onnx").evaluate(model, names)
        except BackendError:
            raise error from None


def one_feed(
    model: ModelProto, data_loader: Any = None, *, only_first: bool = False
) -> dict[str, Any]:
    """Return the data of one iteration for a model.

    Args:
        model: the model.
        data_loader: where they come from: an iterable of feed dictionaries, or one that gets in
            `input_metadata` what is asked for (default: generated).
        only_first: whether no other iteration is used elsewhere, which is said where there is one.

    Raises:
        InputError: there is none, or it lacks an input.
    """
    loader, feeds = _prepared(model, data_loader)
    feed_dict = next(feeds)
    for note in getattr(loader, "notes", ()):
        G_LOGGER.warning(note)
    if only_first and has_more(loader, feeds):
        G_LOGGER.warning(ONLY_FIRST)
    return feed_dict


def feeds_of(model: ModelProto, data_loader: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the data of each iteration for a model; see `one_feed`."""
    loader, feeds = _prepared(model, data_loader)
    yield next(feeds)
    for note in getattr(loader, "notes", ()):
        G_LOGGER.warning(note)
    yield from feeds


def _prepared(model: ModelProto, data_loader: Any) -> tuple[Any, Iterator[dict[str, Any]]]:
    """Return where data come from, and those of each iteration; there is at least one."""
    loader = DataLoader() if data_loader is None else evaluate(data_loader)
    asked = input_metadata(model)
    describe_model(loader, asked, partial(find_facts, model))
    return loader, _checked_feeds(loader, asked)


def _checked_feeds(loader: Any, asked: TensorMetadata) -> Iterator[dict[str, Any]]:
    is_empty = True
    for feed_dict in loader:
        is_empty = False
        missing = [name for name in asked if name not in feed_dict]
        if missing:
            raise InputError(f"The input data hold nothing for {', '.join(map(repr, missing))}.")
        yield {name: feed_dict[name] for name in asked}
    if is_empty:
        raise InputError("There are no input data to run the model with.")


def observed(model: ModelProto, names: Iterable[str], data_loader: Any = None) -> TensorMetadata:
    """Return the types and shapes that some tensors have with the data of one iteration."""
    feed_dict = one_feed(model, data_loader)
    values = observe_tensors(model, feed_dict, list(names))
    return TensorMetadata.from_feed_dict(values)


@mod.export(funcify=True)
class ObserveShapes(BaseLoader):
    """Runs an ONNX model once, and writes down the shapes that its tensors have: what cannot be
    inferred is known then, and every dimension is a number.
    """

    def __init__(self, model: Deferred[ModelProto], data_loader: Any = None) -> None:
        """Set with which data.

        Args:
            model: the model, which is changed in place, or a loader that makes it.
            data_loader: where the input data come from (default: generated).
        """
        self._model = model
        self._data_loader = data_loader

    def call_impl(self) -> ModelProto:
        """Return the model; its inputs have the shapes of the data.

        Raises:
            BackendError: the model cannot be run.
            InputError: the data do not fit it.
        """
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        graph = model.graph
        feed_dict = one_feed(model, self._data_loader)
        types = TypeInference(model).of_graph(graph)
        made = [name for node in graph.node for name in node.output if name]
        tensors = [name for name in made if str(types[name]).startswith("tensor(")]
        values = observe_tensors(model, feed_dict, tensors)
        metadata = TensorMetadata.from_feed_dict({**feed_dict, **values})
        described = {value.name for value in graph.output}
        for value in (*graph.input, *graph.output, *graph.value_info):
            described.add(value.name)
            if value.name in metadata:
                restate(value, metadata[value.name])
        graph.value_info.extend(
            value_info(name, metadata[name]) for name in tensors if name not in described
        )
        G_LOGGER.info(f"Found out the shapes of {len(metadata)} tensors by running the model.")
        return model
