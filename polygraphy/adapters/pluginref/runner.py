"""Runs ONNX models with references for some operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from polygraphy import mod
from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.onnx_common.evaluated import EvaluatedRunner, translate_errors
from polygraphy.adapters.onnx_common.messages import all_nodes
from polygraphy.domain.data.loading import check_has_outputs, own_copy
from polygraphy.domain.errors import BackendError, PolygraphyException, UsageError
from polygraphy.mod.scripts import run_script, user_frame

if TYPE_CHECKING:
    import numpy as np
    import onnx_graphsurgeon
    from onnx import ModelProto, NodeProto
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    Array = np.ndarray[Any, Any]


Reference = Callable[..., Sequence[Any]]
R = TypeVar("R", bound=Reference)

OP_REGISTRY: dict[str, Reference] = {}
"""The references by type of operator, for any domain."""


def register(op: str) -> Callable[[R], R]:
    """Return a decorator that registers a function as the reference of an operator.

    The function receives the attributes of a node as a dictionary of numbers, strings, arrays and
    lists of these, then its inputs as NumPy arrays, with None for an omitted input. It returns the
    list of outputs. Attributes with a default in the ONNX specification have that default.

    Args:
        op: the type of the operator.
    """

    def register_function(function: R) -> R:
        """Register a function as the reference of the operator, and return it."""
        OP_REGISTRY[op] = function
        return function

    return register_function


@register("Identity")
def identity(attrs: Mapping[str, Any], x: Array) -> list[Array]:
    """Return the input."""
    return [x]


@register("InstanceNormalization")
def instance_normalization(
    attrs: Mapping[str, Any], x: Array, scale: Array, bias: Array
) -> list[Array]:
    """Return x, [batch, channels, ...], with each channel of each instance normalized.
    Scale and bias are [channels].
    """
    from polygraphy.adapters.onnx_common import normalization

    return [normalization.instance_normalization(x, scale, bias, **attrs)]


@register("MeanVarianceNormalization")
def mean_variance_normalization(attrs: Mapping[str, Any], x: Array) -> list[Array]:
    """Return x with mean 0 and variance 1 along some axes."""
    from polygraphy.adapters.onnx_common import normalization

    return [normalization.mean_variance_normalization(x, **attrs)]


numpy = mod.lazy_import("numpy")
op_run = mod.lazy_import("onnx.reference.op_run")

# Arguments that the evaluator passes to nodes with subgraphs, in addition to attributes.
_NOT_ATTRIBUTES = ("attributes", "bindings", "context")


def evaluator_of(model: ModelProto, references: Mapping[str, Reference]) -> ReferenceEvaluator:
    """Return an evaluator of a model in which references compute the nodes of their types,
    including in subgraphs and functions."""
    from polygraphy.adapters.onnx_common.evaluator import evaluator_of as evaluator_with

    types = {
        (node.domain, node.op_type)
        for owner in (model.graph, *model.functions)
        for node in all_nodes(owner)
    }
    operators = [
        _operator(domain, op, references[op]) for domain, op in sorted(types) if op in references
    ]
    return evaluator_with(model, operators)


def _operator(domain: str, op: str, reference: Reference) -> type[OpRun]:
    """Return an evaluator class that calls a reference; its name must be the operator."""

    def run(self: OpRun, *inputs: Any, **options: Any) -> tuple[Any, ...]:
        # Pass copies: other nodes and the next inference would read inputs that the reference
        # changed.
        """Return the outputs that the reference of the operator computes."""
        attrs = {
            name: own_copy(value)
            for name, value in options.items()
            if value is not None and name not in _NOT_ATTRIBUTES
        }
        operands = [own_copy(input_name) for input_name in inputs]
        return _as_outputs(
            _call_reference(reference, attrs, operands, self.onnx_node), self.onnx_node
        )

    operator: type[OpRun] = type(op, (op_run.OpRun,), {"op_domain": domain, "_run": run})
    return operator


def _call_reference(
    reference: Reference, attrs: Mapping[str, Any], inputs: Sequence[Any], node: NodeProto
) -> Any:
    """Return the result of a reference; raise BackendError for any exception of it.

    Raises:
        BackendError: it raised an exception, which the evaluator would hide.
    """
    try:
        return reference(attrs, *inputs)
    except (PolygraphyException, MemoryError):
        raise
    except Exception as error:
        text = " ".join(str(error).split()).rstrip(".")
        name = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise BackendError(
            f"The reference of {node.op_type} failed at node {node.name!r}:"
            f" {name}{user_frame(error)}.",
            backend="pluginref",
        ) from error


def _as_outputs(returned: Any, node: NodeProto) -> tuple[Any, ...]:
    """Return the outputs of a reference as arrays; raise BackendError if they are not a list."""
    if not isinstance(returned, (list, tuple)):
        raise BackendError(
            f"The reference of {node.op_type} must return a list of its outputs, not a"
            f" {type(returned).__name__}.",
            backend="pluginref",
        )
    if len(returned) < len(node.output):
        raise BackendError(
            f"The reference of {node.op_type} returned {len(returned)} outputs, but node"
            f" {node.name!r} has {len(node.output)}.",
            backend="pluginref",
        )
    return tuple(numpy.array(output) for output in returned[: len(node.output)])


graphsurgeon = mod.lazy_import("onnx_graphsurgeon")
onnx = mod.lazy_import("onnx")

_translated_errors = partial(
    translate_errors,
    who="Plugin references",
    backend="pluginref",
    remedy="Register a reference with polygraphy.backend.pluginref.register.",
)


@mod.export()
class PluginRefRunner(EvaluatedRunner):
    """Runs an ONNX model in NumPy. Operators with a reference use it, and the others run in the
    reference evaluator of the onnx package, so a model with plugins can run completely.
    """

    outputs_are_fresh = True
    leaves_inputs_alone = True
    rewrites_nothing = True

    def __init__(
        self,
        graph: Deferred[onnx_graphsurgeon.Graph | ModelProto],
        name: str | None = None,
        references: Mapping[str, Reference] | str | None = None,
    ) -> None:
        """Create a runner of a model with references for plugin operators.

        Args:
            graph: an ONNX-GraphSurgeon graph, an ONNX model, or a loader that returns one of them
                when the runner is activated.
            name: see `BaseRunner`.
            references: functions by type of operator, which take precedence over `OP_REGISTRY`; or
                the path of a script that registers them with
                `polygraphy.backend.pluginref.register`, which is run when the runner is activated.
        """
        super().__init__(name=name, prefix="pluginref-runner")
        self._graph = graph
        self._references = references

    def activate_impl(self) -> None:
        """Load the model, and look up the implementation of every node.

        Raises:
            BackendError: an operator has neither a reference nor an implementation.
        """
        references = self._references
        if isinstance(references, str):
            run_script(references)
            references = None
        model = _onnx_model(evaluate(self._graph))
        check_has_outputs(model.graph.output)
        with _translated_errors("load"):
            self._evaluator = evaluator_of(model, {**OP_REGISTRY, **(references or {})})

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the outputs of one evaluation."""
        with _translated_errors("run"):
            return super().infer_impl(feed_dict)


def _onnx_model(graph: Any) -> ModelProto:
    """Return the ONNX model of a graph or a model."""
    if isinstance(graph, onnx.ModelProto):
        return graph  # type: ignore[no-any-return]
    if type(graph).__module__.partition(".")[0] == "onnx_graphsurgeon":
        return graphsurgeon.export_onnx(graph)  # type: ignore[no-any-return]
    raise UsageError(
        "Plugin references run an ONNX model or an ONNX-GraphSurgeon graph, not a"
        f" {type(graph).__name__}."
    )
