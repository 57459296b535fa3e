"""Runs ONNX models with references for some operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.onnx_common.evaluated import EvaluatedRunner, translated_errors
from polygraphy.adapters.pluginref.operators import evaluator_of
from polygraphy.adapters.pluginref.references import OP_REGISTRY, Reference
from polygraphy.domain.data.model_io import check_has_outputs
from polygraphy.domain.errors import UsageError
from polygraphy.mod.scripts import run_script

if TYPE_CHECKING:
    import onnx_graphsurgeon
    from onnx import ModelProto


graphsurgeon = mod.lazy_import("onnx_graphsurgeon")
onnx = mod.lazy_import("onnx")

_translated_errors = partial(
    translated_errors,
    who="Plugin references",
    backend="pluginref",
    remedy="give it a reference with polygraphy.backend.pluginref.register.",
)


@mod.export()
class PluginRefRunner(EvaluatedRunner):
    """Runs an ONNX model in NumPy: operators that have a reference by that, the others in the
    reference evaluator of the onnx package, so that a model with a single plugin runs whole.
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
        """Wrap a model.

        Args:
            graph: an ONNX-GraphSurgeon graph, an ONNX model, or a loader that makes one of them
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
        own = self._references
        if isinstance(own, str):
            run_script(own)
            own = None
        model = _model(evaluate(self._graph))
        check_has_outputs(model.graph.output)
        with _translated_errors("load"):
            self._evaluator = evaluator_of(model, {**OP_REGISTRY, **(own or {})})

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Evaluate the graph once; see `EvaluatedRunner`."""
        with _translated_errors("run"):
            return super().infer_impl(feed_dict)


def _model(graph: Any) -> ModelProto:
    """Return an ONNX model of whatever was given."""
    if isinstance(graph, onnx.ModelProto):
        return graph  # type: ignore[no-any-return]
    if type(graph).__module__.partition(".")[0] == "onnx_graphsurgeon":
        return graphsurgeon.export_onnx(graph)  # type: ignore[no-any-return]
    raise UsageError(
        "Plugin references run an ONNX model or an ONNX-GraphSurgeon graph, not a"
        f" {type(graph).__name__}."
    )
