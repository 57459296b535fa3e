"""Computes ONNX models as hardware that rounds after every operator, and converts float16 and
bfloat16 models to float32: implements `polygraphy.ports.diagnosing.NarrowModels`.

Each node is computed in float32 on the narrow values of its operands, and its results are rounded.
So sums within a convolution or a matrix product are in float32, as on all hardware; sums of a
reduction must fit the narrow type, as in the reference evaluator. If ONNX Runtime is installed, it
computes slow nodes: large convolutions, in a hundredth of the time, and its own operators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from polygraphy import mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx.cast.cast_graph import CastSelection, names_of
from polygraphy.adapters.onnx.cast.precision import cast_copy
from polygraphy.adapters.onnx.describe.facts import find_facts
from polygraphy.adapters.onnx.graph.element_types import (
    TYPE_ATTRIBUTES,
    GraphTypes,
    TypeInference,
    domain_of,
    signature_of,
)
from polygraphy.adapters.onnx.graph.graph import rename_uses, sort_model
from polygraphy.adapters.onnx.graph.inlining import inline_functions
from polygraphy.adapters.onnx.graph.shapes import input_metadata
from polygraphy.adapters.onnx.run.node_kernels import NodeKernels
from polygraphy.adapters.onnx.run.perturbed import (
    SEEDS,
    PerturbedOutputs,
    function_with_noise,
    is_whole,
)
from polygraphy.adapters.onnx.run.reference import translated
from polygraphy.adapters.onnx.run.tf32_products import compute_in_tf32
from polygraphy.adapters.onnx.storage.elements import elements, replace_elements
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx.storage.weights import (
    all_graphs,
    all_tensors,
    is_stored,
    load_weights,
)
from polygraphy.adapters.onnx_common.messages import all_nodes, copy_of, graphs_of
from polygraphy.domain.catalog.compute import TF32, TF32_OPERATORS
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.headroom import NodeLoss, Range, node_loss
from polygraphy.domain.errors import BackendError
from polygraphy.domain.rounding import move_by_epsilons
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.precision import (
    is_float,
    limits_of,
    narrow_array,
    widen_array,
    with_digits,
)
from polygraphy.ports.diagnosing import Compute

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    Array = np.ndarray[Any, Any]
    Watched = Callable[..., Callable[..., Any]]


numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_SUMS: Mapping[str, Callable[[Any, int], Any]] = {
    "ReduceL2": lambda result, count: result.astype(numpy.float64) ** 2,
    "ReduceMean": lambda result, count: result.astype(numpy.float64) * count,
}
"""The sum that a reduction computes internally, from its result and the number of elements."""

_WEIGHT_STEP = 0.2
"""Root mean square of a weight's rounding error, in steps of its type."""
_CONVERTS = frozenset({"Cast", "CastLike"})
_NARROW = tuple(DataType[name] for name in HALF)
_FLOAT = 1


class OnnxNarrowModels:
    """Opens ONNX models for half precision."""

    def open(
        self, model: Any, dtype: DataTypeEntry, only: Collection[str] | None = None
    ) -> OnnxNarrowModel:
        """Return the model, prepared for running in a narrower type.
        Nodes outside `only` stay in float32.
        """
        if dtype == DataType.BFLOAT16:
            _check_evaluator(dtype)
        return OnnxNarrowModel(inline_functions(evaluate(model)), dtype, only)

    def narrow_nodes(self, model: Any) -> tuple[DataTypeEntry, list[str]] | None:
        """Return the narrow type of most nodes, and the names of its nodes; None without one."""
        return narrow_nodes(model)

    def rounding_emulator(self, model: Any) -> Compute | None:
        """Return a function that runs a model with rounding after every operator, or None.
        The result is None if no node is narrow. See the port.
        """
        nodes = narrow_nodes(model)
        if nodes is None:
            return None
        if nodes[0] == DataType.BFLOAT16:
            _check_evaluator(nodes[0])
        watched = partial(_function_with_rounding, narrow=nodes[0].numpy())
        return _WrappedEvaluator(inline_functions(model)).with_nodes(watched)

    def tf32_emulator(self, model: Any, *, drops: bool = False) -> Compute:
        """Return a function that runs a model with the factors of products rounded to TF32.
        See the port.
        """
        watched = partial(compute_in_tf32, drops=drops)
        return _WrappedEvaluator(inline_functions(model)).with_nodes(watched)

    def perturbed_function(
        self, model: Any, dtype: str = "float32"
    ) -> Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
        """Return a function that runs perturbed versions of a model; see the port."""
        if isinstance(model, (str, Path)):
            model = OnnxFromPath(str(model)).call_impl()
        elif isinstance(model, bytes):
            model = onnx.load_model_from_string(model)
        if dtype in HALF:
            nodes = narrow_nodes(model)
            wide = model if nodes is None else widen_model(model)
            return self.open(wide, *(nodes or (DataType[dtype],))).run_perturbed
        opened = _WrappedEvaluator(inline_functions(model))
        # In TF32, results of products have this precision; everything else is float32.
        coarse = dict.fromkeys(TF32_OPERATORS, dtype) if dtype == TF32 else {}
        computing = cache(
            lambda seed: opened.with_nodes(partial(function_with_noise, seed=seed, coarse=coarse))
        )
        return lambda feed: PerturbedOutputs(computing, feed)

    def widen_model(
        self,
        model: Any,
        like: Any = None,
        *,
        drops_casts: bool = False,
        keeps_range: bool = True,
    ) -> Any:
        """Return the model converted to float32."""
        new_model = widen_model(model)
        if drops_casts:
            _drop_casts(new_model)
        nodes = None if like is None else narrow_nodes(like)
        if nodes is None:
            return new_model
        return _with_rounded_weights(new_model, like, *nodes, keeps_range=keeps_range)


def _check_evaluator(dtype: DataTypeEntry) -> None:
    """Raise an error if the evaluator would compute with the bits of a type as integers."""
    value = onnx.helper.make_tensor("one", dtype.onnx(), [1], [1.0])
    if onnx.numpy_helper.to_array(value).dtype != dtype.numpy():
        raise BackendError(
            f"The reference evaluator of onnx {onnx.__version__} does not compute in {dtype}.",
            backend="onnx",
            hint="Install onnx 1.19 or later: pip install -U onnx",
        )


class _WrappedEvaluator:
    """Evaluates a model, with the function of each node wrapped."""

    def __init__(self, model: ModelProto) -> None:
        """Set the model to evaluate."""
        model = sort_model(model)
        self._names = [value.name for value in model.graph.output]
        self.nodes = [node for node in all_nodes(model.graph) if node.output]
        self.weights = _weight_names(model, self.nodes)
        self._kernels = NodeKernels(self.weights)
        self._model = model

    def with_nodes(self, watched: Watched, model: ModelProto | None = None) -> Compute:
        """Return a function that computes the outputs; `watched` wraps the function of each node.

        Args:
            watched: called with a node, the version of its operator, and the function that computes
                it.
            model: a model with the same outputs to evaluate instead.
        """
        from polygraphy.adapters.onnx_common.evaluator import evaluator_of

        def fast(node: NodeProto, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
            """Return the function that computes a node, with fast kernels where possible."""
            return watched(node, version, self._kernels.function_for(node, version, run))

        with translated("load"):
            evaluator = evaluator_of(
                load_weights(self._model if model is None else sort_model(model)),
                watched=fast,
                missing=self._kernels.fallback_function,
            )

        def compute(feed: Mapping[str, Any]) -> dict[str, Any]:
            """Return the outputs of the model for a feed."""
            arrays = {name: numpy.asarray(value) for name, value in feed.items()}
            with translated("run"), numpy.errstate(all="ignore"):
                results = evaluator.run(None, arrays)
            return {
                name: value if isinstance(value, (list, dict)) else numpy.asarray(value)
                for name, value in zip(self._names, results)
            }

        return compute


class OnnxNarrowModel:
    """An ONNX model that can be computed in a narrower type; see the port `NarrowModel`."""

    def __init__(
        self, model: ModelProto, dtype: DataTypeEntry, only: Collection[str] | None = None
    ) -> None:
        """Set the model, the narrow type, and the nodes that may be cast."""
        self._only = frozenset(only or ())
        self.inputs = input_metadata(model)
        self._model = model
        self._evaluated = _WrappedEvaluator(model)
        self._dtype = dtype
        self._range = Range.of(dtype)
        _, self._forms = cast_copy(model, dtype, self._cast_selection(), is_trial=True)
        self._nodes, self._weights = self._evaluated.nodes, self._evaluated.weights
        forms = ((node.output, self._forms.get(node.output[0])) for node in self._nodes)
        pairs = (pair for names, form in forms if form for pair in zip(names, form[1]))
        self._narrow_tensors = {name for name, is_narrow in pairs if is_narrow}
        self.passes = list(
            dict.fromkeys(
                name for node in self._nodes if self._is_cast(node) for name in _node_name(node)
            )
        )
        self.users = _users(self._nodes)

    def _cast_selection(self, kept_names: frozenset[str] = frozenset()) -> CastSelection:
        """Return which nodes to cast, without those in `kept_names`."""
        return CastSelection(keep_nodes=kept_names, only_nodes=self._only)

    def facts(self) -> Facts:
        """Return facts about the outputs, such as the data types of their computation."""
        return find_facts(self._model)

    def load(self, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return a function that computes the outputs in the narrow type; see the port."""
        if plain:
            return self._evaluated.with_nodes(_plain_function)
        float32_nodes = frozenset(without)
        model, _ = cast_copy(
            self._model, self._dtype, self._cast_selection(float32_nodes), is_trial=True
        )
        watched = partial(_function_with_rounding, narrow=self._dtype.numpy())
        return self._evaluated.with_nodes(watched, model)

    def measure(self, feed: Mapping[str, Any]) -> tuple[dict[str, Array], list[NodeLoss]]:
        """Return the exact outputs, and the loss of each node by itself; see the port."""
        losses: list[NodeLoss] = []

        def measure_node(
            node: NodeProto, version: int, run: Callable[..., Any]
        ) -> Callable[..., Any]:
            """Return a function that computes a node, and records its loss if it is cast."""
            if not self._is_cast(node):
                return run
            return self._function_with_loss(node, run, losses.append)

        return self._evaluated.with_nodes(measure_node)(feed), losses

    def run_perturbed(self, feed: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the exact outputs, and several that are rounded to the narrow type's digits.
        The result is empty if unstable."""
        wide = {name: widen_array(numpy.asarray(value)) for name, value in feed.items()}
        exact, losses = self.measure(wide)
        if any(loss.rounds(self._range) for loss in losses):
            return []

        def computing(seed: int) -> Compute:
            """Return the function for a seed; the first one computes exactly."""
            if seed == SEEDS[0]:
                return lambda _: exact
            return partial(self.run_rounded, step=_WEIGHT_STEP, seed=seed)

        return PerturbedOutputs(computing, wide)

    def run_rounded(
        self, feed: Mapping[str, Any], step: float = 0.0, seed: int = 0
    ) -> dict[str, Array]:
        """Return the outputs with the digits of the narrow type, but without its range limits.
        See the port.

        Args:
            feed: the data.
            step: the distance, in steps of the type, by which weights that the type represents
                exactly are moved.
            seed: selects the directions of these moves.
        """
        spacing = self._range.spacing
        arrays: dict[str, Array] = {}

        def round_value(name: str, value: Any) -> Array:
            """Return a tensor in narrow digits; weights are moved randomly.
            Whole numbers, such as the exponent of a square, remain exact."""
            if not step or name not in self._weights or is_whole(numpy.asarray(value)):
                return with_digits(value, spacing)
            if name not in arrays:
                ratio = step * spacing / float(numpy.finfo(numpy.float32).eps)
                number = seed + crc32(name.encode())
                arrays[name] = move_by_epsilons(numpy.asarray(value), number, ratio)
            return arrays[name]

        def round_node(
            node: NodeProto, version: int, run: Callable[..., Any]
        ) -> Callable[..., Any]:
            """Return a function that computes a node with rounded inputs and outputs."""
            if not self._is_cast(node):
                return run
            takes, gives = self._forms[node.output[0]]

            def call(*inputs: Any, **options: Any) -> Any:
                """Return the rounded outputs of the node for rounded inputs."""
                operands = list(inputs)
                for position, is_narrow in enumerate(takes[: len(inputs)]):
                    if is_narrow and inputs[position] is not None:
                        operands[position] = round_value(node.input[position], inputs[position])
                return tuple(
                    with_digits(value, spacing) if is_narrow else value
                    for value, is_narrow in zip(run(*operands, **options), gives)
                )

            return call

        return self._evaluated.with_nodes(round_node)(feed)

    def _is_cast(self, node: NodeProto) -> bool:
        # Nodes with subgraphs do not count: nodes inside them are computed one by one.
        """Return whether a node is computed in the narrow type."""
        return bool(node.output) and node.output[0] in self._forms and not graphs_of(node)

    def _function_with_loss(
        self, node: NodeProto, run: Callable[..., Any], note: Callable[[NodeLoss], None]
    ) -> Callable[..., Any]:
        """Return a function that computes a node, and passes its loss to `note`."""
        takes, gives = self._forms[node.output[0]]
        narrow = self._dtype.numpy()

        def call(*inputs: Any, **options: Any) -> Any:
            """Return the exact outputs of the node, and record its loss in low precision."""
            exact = run(*inputs, **options)
            operands = list(inputs)
            weights = {}
            for position, (name, is_narrow) in enumerate(zip(node.input, takes)):
                value = inputs[position] if position < len(inputs) else None
                # Also an operator without the narrow type reads rounded results.
                if value is None or not (is_narrow or name in self._narrow_tensors):
                    continue
                if name in self._weights:
                    rounded, weights[name] = narrow_array(numpy.asarray(value), self._dtype)
                else:
                    rounded = numpy.asarray(value).astype(narrow)
                operands[position] = rounded.astype(numpy.float32)
            result = run(*operands, **options)
            result = [
                _round_result(value, narrow, node, operands) if gives_narrow else value
                for value, gives_narrow in zip(result, gives)
            ]
            tensors = {
                name: (numpy.asarray(value), operands[position])
                for position, (name, value) in enumerate(zip(node.input, inputs))
                if name and value is not None and name not in self._weights
            }
            results = {
                name: (numpy.asarray(exact_value), numpy.asarray(computed))
                for name, exact_value, computed in zip(node.output, exact, result)
                if name and isinstance(exact_value, numpy.ndarray | numpy.generic)
            }
            names = [
                input_name for name, input_name in zip(node.input, inputs) if name in self._weights
            ]
            is_filled = any(map(_is_infinite, names)) and not any(
                is_float(value) and numpy.isnan(value).any() for value, _ in results.values()
            )
            label = _node_name(node)[0], node.op_type
            loss = node_loss(*label, tensors, results, weights, self._range, is_filled=is_filled)
            note(loss)
            return exact

        return call


def _plain_function(node: NodeProto, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that computes a node, unchanged."""
    return run


def _function_with_rounding(
    node: NodeProto, version: int, run: Callable[..., Any], narrow: Any
) -> Callable[..., Any]:
    """Return a function that computes a node in float32, then rounds."""
    signature = signature_of(node.op_type, domain_of(node.domain), version)
    parameters = signature.parameters_for(len(node.input), len(node.output)) if signature else None
    if parameters is None or graphs_of(node) or node.op_type in _CONVERTS:
        return run
    takes, gives = parameters
    sources = [
        next((at for at, take in enumerate(takes) if take.variable == give.variable), None)
        for give in gives
    ]

    def call(*inputs: Any, **options: Any) -> Any:
        """Return the outputs of the node, computed in float32 and rounded to the narrow type."""
        are_narrow = [getattr(value, "dtype", None) == narrow for value in inputs]
        if not any(are_narrow):
            return run(*inputs, **options)
        wide = [
            value.astype(numpy.float32) if is_narrow else value
            for value, is_narrow in zip(inputs, are_narrow)
        ]
        return tuple(
            (
                _round_result(value, narrow, node, wide)
                if source is not None and source < len(inputs) and are_narrow[source]
                else value
            )
            for value, source in zip(run(*wide, **options), sources)
        )

    return call


def _round_result(value: Any, narrow: Any, node: NodeProto, operands: Sequence[Any]) -> Any:
    """Return a result in the narrow type; infinite for a reduction whose sum overflows."""
    wide = numpy.asarray(value)
    if not is_float(wide):
        return value
    array = wide.astype(narrow)
    adds_up = _SUMS.get(node.op_type)
    if adds_up is not None and wide.size:
        sums = adds_up(wide, numpy.asarray(operands[0]).size // wide.size)
        fits = numpy.isfinite(sums.astype(narrow)) | ~numpy.isfinite(wide)
        array = numpy.where(fits, array, numpy.copysign(numpy.inf, wide).astype(narrow))
    return array


def _node_name(node: NodeProto) -> list[str]:
    """Return the first name of a node in a list; empty if it has none."""
    return names_of(node)[:1]


def _weight_names(model: ModelProto, nodes: Sequence[NodeProto]) -> set[str]:
    """Return the names of initializers and outputs of Constant nodes."""
    names = {tensor.name for graph in all_graphs(model.graph) for tensor in graph.initializer}
    return names | {name for node in nodes if node.op_type == "Constant" for name in node.output}


def _users(nodes: Sequence[NodeProto]) -> dict[str, list[str]]:
    """Return the nodes that read the results of each node, by name."""
    makers = {name: _node_name(node)[0] for node in nodes for name in node.output if name}
    users: dict[str, list[str]] = {}
    for node in nodes:
        for read in node.input:
            if read in makers:
                users.setdefault(makers[read], []).extend(_node_name(node))
    return users


def narrow_nodes(model: ModelProto) -> tuple[DataTypeEntry, list[str]] | None:
    """Return the narrow type of most nodes, and the names of its nodes; None without one."""
    kinds = {f"tensor({dtype.name})": dtype for dtype in _NARROW}
    narrow_outputs: dict[str, list[str]] = {}
    for node, types in _nodes(model.graph, TypeInference(model).infer_graph(model.graph)):
        new_name = next((kind for name in node.output if (kind := types[name]) in kinds), None)
        if new_name is not None and not graphs_of(node):
            narrow_outputs.setdefault(new_name, []).extend(names_of(node)[:1])
    if not narrow_outputs:
        return None
    kind = max(narrow_outputs, key=lambda name: len(narrow_outputs[name]))
    return kinds[kind], list(dict.fromkeys(narrow_outputs[kind]))


def _nodes(graph: GraphProto, types: GraphTypes) -> Iterator[tuple[NodeProto, GraphTypes]]:
    """Yield all nodes, with the types in their graph."""
    for inner, graph_types in _graphs(graph, types):
        for node in inner.node:
            yield node, graph_types


def _graphs(graph: GraphProto, types: GraphTypes) -> Iterator[tuple[GraphProto, GraphTypes]]:
    """Yield a graph and all its subgraphs, with their types."""
    yield graph, types
    for index, node in enumerate(graph.node):
        for inner, graph_types in zip(graphs_of(node), types.inner(index)):
            yield from _graphs(inner, graph_types)


def widen_model(model: ModelProto) -> ModelProto:
    """Return a copy of a model in which every tensor of a narrow type is a float32 one, inputs and
    outputs included; nodes and tensors keep their names.
    """
    new_model: ModelProto = copy_of(model)
    narrow = {dtype.onnx() for dtype in _NARROW}
    for tensor in all_tensors(new_model):
        if tensor.data_type in narrow:
            _widen_tensor(tensor)
    for graph in all_graphs(new_model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            _widen_type(value.type, narrow)
        for node in graph.node:
            _widen_attributes(node, narrow)
    for function in new_model.functions:
        for node in function.node:
            _widen_attributes(node, narrow)
    return new_model


def _is_infinite(weight: Any) -> bool:
    """Return whether a weight has an infinite element."""
    return (
        isinstance(weight, numpy.ndarray | numpy.generic)
        and is_float(weight)
        and bool(numpy.isinf(weight).any())
    )


def _drop_casts(model: ModelProto) -> None:
    """Remove the Cast nodes that no longer change the type of their input, also in subgraphs."""
    types = TypeInference(model).infer_graph(model.graph)
    for graph, graph_types in [*_graphs(model.graph, types)]:
        _drop_casts_in(graph, graph_types)


def _drop_casts_in(graph: GraphProto, types: GraphTypes) -> None:
    """Remove the Cast nodes of one graph that do not change the type of their input."""
    outputs = {value_info.name for value_info in graph.output}
    producers = {name: node for node in graph.node for name in node.output}
    for node in [*graph.node]:
        if node.op_type != "Cast" or domain_of(node.domain):
            continue
        source, result = node.input[0], node.output[0]
        if types[source] != "tensor(float)" or _casts_to(node) != _FLOAT:
            continue
        if result not in outputs:
            rename_uses(graph, {result: source})
        elif source in producers and source not in outputs:
            producer = producers[source]
            producer.output[:] = [result if name == source else name for name in producer.output]
            producers[result] = producer
            rename_uses(graph, {source: result})
        else:
            continue
        graph.node.remove(node)


def _casts_to(node: NodeProto) -> int:
    """Return the type that a Cast converts to."""
    return next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)


def _widen_tensor(tensor: TensorProto) -> None:
    """Change a tensor to float32."""
    wide = onnx.numpy_helper.from_array(elements(tensor).astype(numpy.float32), tensor.name)
    tensor.CopyFrom(wide)


def _widen_type(kind: Any, narrow: set[int]) -> None:
    """Change a type to float32, if it is narrow."""
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = getattr(kind, kind.WhichOneof("value")).elem_type
    if kind.tensor_type.elem_type in narrow:
        kind.tensor_type.elem_type = _FLOAT


def _widen_attributes(node: NodeProto, narrow: set[int]) -> None:
    """Change the data type attribute of a node to float32, if it is narrow."""
    name, _ = TYPE_ATTRIBUTES.get(node.op_type, ("", None))
    for attribute in node.attribute:
        if attribute.name == name and attribute.i in narrow:
            attribute.i = _FLOAT


def _with_rounded_weights(
    model: ModelProto,
    narrow: ModelProto,
    dtype: DataTypeEntry,
    lowered: Collection[str],
    *,
    keeps_range: bool,
) -> ModelProto:
    """Return a float32 model whose weights are rounded like those of a narrow model derived from
    it. Weights of nodes that are float32 in both are unchanged, and so are numbers that the narrow
    model does not store, because an operator such as Gelu contains them."""
    kept_names = _node_names(narrow) - set(lowered)
    _, _, spacing = limits_of(dtype.numpy())
    tensors = [weight for weight in _named_weights(narrow) if weight[1].data_type == dtype.onnx()]
    stored = {name for name, _ in tensors}
    numbers = {elements(weight).item() for _, weight in tensors if elements(weight).size == 1}
    for tensor in _weights(model, kept_names, stored):
        weights = elements(tensor)
        if keeps_range:
            rounded = with_digits(weights, spacing)
        else:
            rounded = narrow_array(weights, dtype)[0].astype(weights.dtype)
        if rounded.size == 1 and narrow_array(weights, dtype)[0].item() not in numbers:
            continue
        replace_elements(tensor, rounded, in_file=is_stored(tensor))
    return model


def _node_names(model: ModelProto) -> set[str]:
    """Return the names of all nodes, including subgraphs."""
    nodes = (node for graph in all_graphs(model.graph) for node in graph.node)
    return {name for node in nodes for name in names_of(node)[:1]}


def _weights(
    model: ModelProto, kept_names: set[str], stored: Collection[str]
) -> Iterator[TensorProto]:
    """Yield the float32 weights of a model, except those that certain nodes read and the narrow
    model does not store in its type."""
    wide = set()
    for graph in all_graphs(model.graph):
        for node in graph.node:
            if not kept_names.isdisjoint(names_of(node)[:1]):
                wide.update(node.input)
    for name, tensor in _named_weights(model):
        if tensor.data_type == _FLOAT and (name not in wide or name in stored):
            yield tensor


def _named_weights(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Yield the weights of a model with their names, including those in Constant nodes."""
    for graph in all_graphs(model.graph):
        yield from ((tensor.name, tensor) for tensor in graph.initializer)
        for node in graph.node:
            if node.op_type == "Constant":
                tensors = (attr.t for attr in node.attribute if attr.HasField("t"))
                yield from ((node.output[0], tensor) for tensor in tensors)
