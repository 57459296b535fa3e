"""Casts float32 ONNX models to float16 or bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.cast.cast_graph import (
    KEPT_OPERATORS,
    WIDE,
    CastSelection,
    CastSettings,
    Forms,
    Scope,
    names_of,
)
from polygraphy.adapters.onnx.graph.editing import translate_model_faults
from polygraphy.adapters.onnx.graph.element_types import TypeInference, domain_of, versions_of
from polygraphy.adapters.onnx.graph.graph import (
    graph_weights,
    is_in_order,
    names_in_use,
    sort,
    unique_name,
)
from polygraphy.adapters.onnx.graph.inlining import inline_functions
from polygraphy.adapters.onnx.storage.elements import elements, external_files, replace_elements
from polygraphy.adapters.onnx.storage.weights import (
    DATA_FIELDS,
    all_graphs,
    byte_size,
    copy_fields,
    is_external,
    is_stored,
    makes_new_model,
    skeleton,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import all_nodes, graphs_of
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.errors import ModelError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.naming import count_text, list_some
from polygraphy.domain.tensors.precision import NarrowingLoss, narrow_array
from polygraphy.logger import G_LOGGER, LogMode

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto


_NAMED = 3
"""Largest number of weights with the same kind of loss that a warning names."""


def is_placeholder(tensor: TensorProto) -> bool:
    """Return whether a tensor stands for a weight with data elsewhere."""
    return is_external(tensor) and not is_stored(tensor)


def original_weight(tensor: TensorProto, weights: Sequence[TensorProto]) -> TensorProto:
    """Return the weight that a placeholder stands for; its file name is the index in `weights`."""
    [location] = [entry.value for entry in tensor.external_data if entry.key == "location"]
    return weights[int(location)]


@frozen
class _NarrowWeight:
    """A narrowed weight: its name, its readers, and its loss."""

    name: str
    readers: Sequence[str]
    loss: NarrowingLoss

    def __str__(self) -> str:
        """Return the name of the weight and its loss as text."""
        if not self.readers:
            return _loss_clause(self.loss)
        readers = list_some([*dict.fromkeys(self.readers)], 1, str)
        return f"{_loss_clause(self.loss)}; read by {readers}"


class NarrowedWeights:
    """Converts weights one by one, and records the loss of each."""

    def __init__(self, dtype: DataTypeEntry, weights: Sequence[TensorProto]) -> None:
        """Set the type, and the weights that placeholders stand for."""
        self._dtype = dtype
        self._weights = weights
        self._narrowed: list[_NarrowWeight] = []

    def convert(
        self, tensor: TensorProto, new_tensor: TensorProto, name: str, readers: Sequence[str]
    ) -> None:
        """Write the converted elements of a weight to `new_tensor`, which may be the tensor itself.

        Args:
            tensor: the weight, or the placeholder of one.
            new_tensor: the tensor that receives the elements.
            name: its name in messages.
            readers: the nodes that read it in the narrow type.
        """
        source = original_weight(tensor, self._weights) if is_placeholder(tensor) else tensor
        in_file = is_stored(source)
        array, loss = narrow_array(elements(source), self._dtype)
        if new_tensor is not tensor:
            copy_fields(tensor, new_tensor, "name", *DATA_FIELDS)
        new_tensor.name, new_tensor.data_type = new_tensor.name or tensor.name, self._dtype.onnx()
        replace_elements(new_tensor, array, in_file=in_file)
        self._narrowed.append(_NarrowWeight(name, readers, loss))

    def report(self) -> None:
        """Log the total loss; warn of weights that overflow, then of those that become zero."""
        if not self._narrowed:
            return
        worst = max(self._narrowed, key=lambda narrowed: narrowed.loss.error)
        error = worst.loss.error
        cost = f"the largest error is {error:.5g}, in {worst.name!r}" if error else "all exact"
        G_LOGGER.info(
            f"Converted {count_text(len(self._narrowed), 'weight')} to {self._dtype}; {cost}."
        )
        clipped = [narrowed for narrowed in self._narrowed if narrowed.loss.clamped]
        flushed = [
            narrowed
            for narrowed in self._narrowed
            if narrowed.loss.flushed and not narrowed.loss.clamped
        ]
        self._warn("does not fit in", "do not fit in", clipped)
        self._warn("has values that become 0 in", "have values that become 0 in", flushed)
        for narrowed in self._narrowed:
            if narrowed.loss.is_harmless:
                G_LOGGER.verbose(f"Weight {narrowed.name!r} in {self._dtype}: {narrowed}.")

    def _warn(self, verb: str, plural: str, narroweds: Sequence[_NarrowWeight]) -> None:
        """Warn of weights with a loss: the worst by name, and the number of the others."""
        by_error = sorted(narroweds, key=lambda narrowed: narrowed.loss.error, reverse=True)
        for at, narrowed in enumerate(by_error):
            tell = G_LOGGER.warning if at < _NAMED else G_LOGGER.verbose
            tell(f"Weight {narrowed.name!r} {verb} {self._dtype}: {narrowed}.")
        if len(narroweds) > _NAMED:
            others = len(narroweds) - _NAMED
            text, verb = count_text(others, "more weight"), verb if others == 1 else plural
            G_LOGGER.warning(f"{text} {verb} {self._dtype}; -v lists all.")


def _loss_clause(loss: NarrowingLoss) -> str:
    """Return the loss of a weight as a phrase: how many elements changed how, and the largest
    error.
    """
    parts = [
        (loss.clamped, f"too large (up to {loss.largest:.5g}) and set to the largest value"),
        (loss.flushed, "too small and set to zero"),
        (loss.subnormal, "subnormal"),
    ]
    texts = [f"{count} {name}" for count, name in parts if count]
    return ", ".join([f"of {loss.elements} elements, largest error {loss.error:.5g}", *texts])


if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    FunctionKey = tuple[str, str, str]


# First opsets in which Cast supports the type.
_FIRST_OPSETS = {DataType.FLOAT16: 6, DataType.BFLOAT16: 13}


def check_castable(model: ModelProto, dtype: DataTypeEntry, selection: CastSelection) -> None:
    """Raise an error if a model cannot be cast.

    Raises:
        UsageError: `dtype` is neither float16 nor bfloat16.
        UnknownNameError: the selection has a name that no node has.
        ModelError: the opset of the model has no such type, or its weights are not loaded.
    """
    if dtype.name not in HALF:
        raise UsageError(
            f"A model cannot be cast to {dtype}.",
            hint=f"Available: {', '.join(HALF)}.",
        )
    opset = versions_of(model.opset_import).get("")
    if opset is not None and opset < _FIRST_OPSETS[dtype]:
        raise ModelError(
            f"The model has opset {opset}, which does not support {dtype}.",
            hint=f"Export it with opset {_FIRST_OPSETS[dtype]} or later, or convert it: --opset.",
        )
    if files := external_files(model):
        raise ModelError(
            f"The model cannot be cast to {dtype} without its weights, which are in {files[0]}.",
            hint="Load the external data.",
        )
    selection.warn_unknown_names(_all_nodes(model))


def _wide_normalizations(
    model: ModelProto, dtype: DataTypeEntry, weights: Sequence[TensorProto]
) -> set[str]:
    """Return the normalizations that divide by numbers outside the range of the data type, and so
    stay in float32.
    """
    wide_normalizations: set[str] = set()
    for graph in all_graphs(model.graph):
        known_tensors = graph_weights(graph)
        for node in graph.node:
            if node.op_type != "BatchNormalization" or domain_of(node.domain):
                continue
            tensors = [known_tensors[name] for name in node.input[1:] if name in known_tensors]
            tensors = [original_weight(t, weights) if is_placeholder(t) else t for t in tensors]
            if any(narrow_array(elements(tensor), dtype)[1].clamped for tensor in tensors):
                wide_normalizations.update(names_of(node))
    if wide_normalizations:
        G_LOGGER.info(
            f"These nodes stay in fp32, because their statistics do not fit in {dtype}:"
            f" {', '.join(sorted(map(repr, wide_normalizations)))}.",
            mode=LogMode.ONCE,
        )
    return wide_normalizations


def cast_in_place(
    model: ModelProto,
    dtype: DataTypeEntry,
    selection: CastSelection,
    weights: Sequence[TensorProto] = (),
    *,
    casts_io: bool = False,
    is_trial: bool = False,
) -> dict[str, Forms]:
    """Cast a model in place; return which inputs and outputs of each node are narrow.

    Args:
        model: the model, which `check_castable` accepts.
        dtype: the type to compute in.
        selection: the tensors and nodes to cast.
        weights: the weights for the placeholders among the model's initializers; see
            `original_weight`.
        casts_io: whether its float32 inputs and outputs also become narrow.
        is_trial: whether the loss of weights is not logged.

    Returns:
        Which operands and results of the nodes that were lowered are narrow, by their first
        results.
    """
    if not is_in_order(model.graph):
        sort(model.graph)
    inference = TypeInference(model)
    types = inference.infer_graph(model.graph)
    converted = NarrowedWeights(dtype, weights)
    versions = versions_of(model.opset_import)
    selection = evolve(
        selection,
        keep_ops=selection.keep_ops | KEPT_OPERATORS,
        keep_nodes=selection.keep_nodes | _wide_normalizations(model, dtype, weights),
    )
    functions = _cast_functions(model, inference, selection)
    if "" not in versions:
        # A model without nodes in the standard domain may not import its opset, which the Casts
        # need.
        return {}
    settings = CastSettings(
        elem_type=dtype.onnx(),
        kind=f"tensor({dtype.name})",
        suffix=HALF[dtype.name],
        selection=selection,
        functions=functions,
        convert=converted.convert,
        fixed_inputs=model.ir_version < 4,
    )
    used_names = names_in_use(model.graph)
    scope = Scope(settings, types, versions, used_names=used_names)
    outputs = [value.name for value in model.graph.output]
    scope.rewrite_graph(model.graph, narrow_border=casts_io, is_kept=False)
    _restore_outputs(model.graph, outputs, used_names)
    for function in model.functions:
        key = _key(function)
        if key in functions:
            [given_names] = inference.calls[key]
            inner = Scope(
                settings,
                inference.infer_function(function, given_names),
                versions_of(function.opset_import),
                used_names={name for node in function.node for name in (*node.output, node.name)}
                | set(function.input),
            )
            inner.rewrite_function(function)
            if not any(domain_of(entry.domain) == "" for entry in function.opset_import):
                function.opset_import.add(domain="", version=versions.get("", 1))
    if not is_trial:
        converted.report()
        _warn_of_other_domains(model, functions, dtype)
    return settings.forms


def _warn_of_other_domains(
    model: ModelProto, functions: Collection[FunctionKey], dtype: DataTypeEntry
) -> None:
    """Log the operators that are never cast, because only the standard's types are known."""
    operators = {
        f"{domain}.{node.op_type}"
        for node in _all_nodes(model)
        for domain in [domain_of(node.domain)]
        if domain and (domain, node.op_type, node.overload) not in functions
    }
    if operators:
        G_LOGGER.warning(
            "These operators stay in fp32, because they are not ONNX standard operators, so their"
            f" {dtype} support is unknown: {list_some(sorted(operators), 5, str)}.",
            mode=LogMode.ONCE,
        )


def _restore_outputs(graph: GraphProto, names: Sequence[str], used_names: set[str]) -> None:
    """Give the outputs of a graph their original names, after Casts were appended."""
    renamed: dict[str, str] = {}
    for value, name in zip(graph.output, names):
        if value.name != name and value.name not in renamed:
            renamed.update({value.name: name, name: unique_name(f"{name}_fp32", used_names)})
            value.name = name
    if renamed:
        _rename_tensors(graph, renamed)


def _rename_tensors(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename the tensors of a graph and its subgraphs."""
    weights = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in weights:  # Old versions of the format also list weights as inputs.
            value.name = names.get(value.name, value.name)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        for listed in (node.input, node.output):
            for position, name in enumerate(listed):
                if name in names:
                    listed[position] = names[name]
        for inner in graphs_of(node):
            _rename_tensors(inner, names)
            for value in inner.output:
                value.name = names.get(value.name, value.name)
    for value in graph.value_info:
        value.name = names.get(value.name, value.name)


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yield the nodes of the graph, its subgraphs and the functions."""
    for owner in (model.graph, *model.functions):
        yield from all_nodes(owner)


def _key(function: Any) -> FunctionKey:
    """Return the key of a function: domain, name and overload."""
    return domain_of(function.domain), function.name, function.overload


def _cast_functions(
    model: ModelProto, inference: TypeInference, selection: CastSelection
) -> frozenset[FunctionKey]:
    """Return the keys of functions that can be cast:
    all calls have the same types, and none is excluded.
    """
    bodies = {_key(function): function for function in model.functions}
    lowered = {
        key
        for key, function in bodies.items()
        if _is_called_alike(inference.calls.get(key, set()), inference, function)
    }
    changed = True
    while changed:
        callers: list[tuple[bool, Any]] = [(False, model.graph.node)]
        callers += [(key not in lowered, function.node) for key, function in bodies.items()]
        refused = lowered.intersection(
            key
            for is_kept, nodes in callers
            for key in _operators_to_exclude(nodes, selection, is_kept=is_kept)
        )
        lowered -= refused
        changed = bool(refused)
    return frozenset(lowered)


def _operators_to_exclude(
    nodes: Any, selection: CastSelection, *, is_kept: bool
) -> Iterator[FunctionKey]:
    """Yield the operators that excluded nodes use, including their subgraphs."""
    for node in nodes:
        is_excluded = is_kept or selection.keeps(node)
        if is_excluded or not selection.chooses(node):
            yield domain_of(node.domain), node.op_type, node.overload
        for graph in graphs_of(node):
            yield from _operators_to_exclude(graph.node, selection, is_kept=is_excluded)


def _is_called_alike(
    calls: Collection[tuple[str | None, ...]], inference: TypeInference, function: Any
) -> bool:
    """Return whether all calls of a function have the same types, all of them known and some
    float32.
    """
    if len(calls) != 1:
        return False
    [given_names] = calls
    types = inference.infer_function(function, given_names)
    is_known = None not in given_names and all(types[name] is not None for name in function.output)
    return is_known and (
        WIDE in given_names or any(types[name] == WIDE for name in function.output)
    )


convert_to_bf16: Callable[..., ModelProto]
convert_to_fp16: Callable[..., ModelProto]


def cast_precision(
    model: ModelProto,
    dtype: DataTypeEntry,
    *,
    keep_ops: Collection[str] = (),
    keep_nodes: Collection[str] = (),
) -> ModelProto:
    """Return a model in which operators compute in `dtype` if they support it,
    with Casts at its inputs and outputs.

    Nodes of other domains, nodes whose tensors have an unknown type, and `KEPT_OPERATORS` are
    unchanged. Weights beyond the range of `dtype` become its largest value, which is logged.

    Raises:
        UsageError: `dtype` is neither float16 nor bfloat16.
        UnknownNameError: `keep_nodes` has a name that no node has.
        ModelError: the opset of the model has no such type, or its weights are not loaded.
    """
    selection = CastSelection(frozenset(keep_ops), frozenset(keep_nodes))
    return cast_copy(model, dtype, selection)[0]


class _Convert(BaseLoader):
    """Base class of loaders that cast a model to one type."""

    makes_new_model = True

    dtype: DataTypeEntry

    def __init__(
        self,
        model: Deferred[ModelProto],
        copy: bool | None = None,
        keep_ops: Collection[str] = (),
        keep_nodes: Collection[str] = (),
        only_ops: Collection[str] = (),
        only_nodes: Collection[str] = (),
        cast_io: bool | None = None,
    ) -> None:
        """Set the model, and the operators and nodes to cast.

        Args:
            model: the model, or a loader that returns it.
            copy: False to change a given model in place (default: it is not changed).
            keep_ops: operator types that stay in float32, in addition to those whose results depend
                on the order or the exact value of their operands.
            keep_nodes: names of nodes that stay in float32; for a node without a name, use a name
                of its outputs. ``CALL/NODE`` is a node in the body of a function, which is then
                inlined.
            only_ops: operator types that are cast; together with `only_nodes`, the only nodes that
                are cast. A call of a function of the model is one operator.
            only_nodes: names of nodes that are cast, as in `keep_nodes`.
            cast_io: whether inputs and outputs in float32 also become narrow.
        """
        self._model = model
        self._copy = copy
        self._selection = CastSelection(
            keep_ops=frozenset(keep_ops),
            keep_nodes=frozenset(keep_nodes),
            only_ops=frozenset(only_ops),
            only_nodes=frozenset(only_nodes),
        )
        self._casts_io = bool(cast_io)

    def call_impl(self) -> ModelProto:
        """Return the model.
        Its inputs and outputs keep their data types unless requested otherwise.

        Raises:
            UnknownNameError: a name or an operator type does not occur in the model.
            ModelError: the opset of the model has no such type, or its weights are not loaded.
        """
        model = self._inline_functions(evaluate_model(self._model))
        if self._copy is not False and not makes_new_model(self._model):
            return cast_copy(model, self.dtype, self._selection, casts_io=self._casts_io)[0]
        with translate_model_faults(model):
            check_castable(model, self.dtype, self._selection)
            cast_in_place(model, self.dtype, self._selection, casts_io=self._casts_io)
        return model

    def _inline_functions(self, model: ModelProto) -> ModelProto:
        """Return a model with its functions inlined, if options name nodes inside a function."""
        bodies = (model.graph, *model.functions) if model.functions else ()
        names = {name for body in bodies for node in all_nodes(body) for name in names_of(node)}
        requested_names = self._selection.keep_nodes | self._selection.only_nodes
        return inline_functions(model) if bodies and requested_names - names else model


@mod.export(funcify=True)
class ConvertToFp16(_Convert):
    """Casts a float32 ONNX model to float16; its inputs and outputs keep their data types unless
    `cast_io` is set.
    """

    dtype = DataType.FLOAT16


@mod.export(funcify=True)
class ConvertToBf16(_Convert):
    """Casts a float32 ONNX model to bfloat16; its inputs and outputs keep their data types unless
    `cast_io` is set.
    """

    dtype = DataType.BFLOAT16


def cast_copy(
    model: ModelProto,
    dtype: DataTypeEntry,
    selection: CastSelection,
    *,
    casts_io: bool = False,
    is_trial: bool = False,
) -> tuple[ModelProto, dict[str, Forms]]:
    """Return a cast copy of a model, and which operands and results are narrow, by node.
    The copy shares the model's weights.
    """
    with translate_model_faults(model):
        check_castable(model, dtype, selection)
        weights: list[TensorProto] = []

        def external_location(tensor: TensorProto) -> tuple[str, int, int] | None:
            """Return file name, offset and length (both 0) of a weight kept outside, or None.
            The result is None if it is empty.
            """
            if byte_size(tensor) == 0:
                return None
            weights.append(tensor)
            return str(len(weights) - 1), 0, 0

        new_model = skeleton(model, external_location)
        forms = cast_in_place(
            new_model, dtype, selection, weights, casts_io=casts_io, is_trial=is_trial
        )
        for graph in all_graphs(new_model.graph):
            for tensor in graph.initializer:
                if is_external(tensor) and not is_stored(tensor):
                    tensor.CopyFrom(original_weight(tensor, weights))
        return new_model, forms
