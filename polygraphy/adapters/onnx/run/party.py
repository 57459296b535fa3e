"""What evaluates ONNX models in NumPy as parties of a diagnosis."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from polygraphy import mod
from polygraphy.adapters.onnx.run.reference import OnnxReferenceRunner, translated
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.domain.errors import BackendError


@mod.export()
class OnnxParty:
    """The reference evaluator of the onnx package; implements the port `SuspectedParty`."""

    name = "onnx"
    passes = ()
    rewrites = False
    levels: Sequence[str] = ()
    settings: Mapping[str, Any] = MappingProxyType({"module": "onnx.reference"})

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Look up the implementations of a model's nodes; see the port."""
        runner = OnnxReferenceRunner(OnnxFromPath(model) if isinstance(model, str) else model)
        runner.activate()
        return partial(runner.infer, check_inputs=False)

    def executed(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the model itself: nothing is rewritten."""
        return model

    def remedy(self, path: str, *, plain: bool, without: Collection[str]) -> str:
        """Return the command line that runs a model here."""
        return f"polygraphy run {path} --onnx"


class FormulaParty(OnnxParty):
    """Formulas in float64, node by node: decides between two others."""

    name = "formulas"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        from polygraphy.adapters.onnx_common.evaluator import formula_evaluator

        with translated("load"):
            return partial(_evaluated, formula_evaluator(model))


class PackageParty(OnnxParty):
    """The reference evaluator as the onnx package has it, where `OnnxParty` computes with operators
    of its own: what both compute with the same code, it refuses.
    """

    name = "package"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        from onnx.reference import ReferenceEvaluator

        from polygraphy.adapters.onnx_common.evaluator import borrowed_operators

        if borrowed := borrowed_operators(model):
            said = ", ".join(borrowed)
            raise BackendError(f"The reference has {said} of the onnx package.", backend=self.name)
        with translated("load"):
            return partial(_evaluated, ReferenceEvaluator(model))


def _evaluated(evaluator: Any, feed: Mapping[str, Any]) -> dict[str, Any]:
    with translated("run"):
        return dict(zip(evaluator.output_names, evaluator.run(None, dict(feed))))
