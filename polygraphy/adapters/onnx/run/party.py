"""The reference evaluator as a party of a diagnosis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from polygraphy import mod
from polygraphy.adapters.onnx.run.reference import OnnxReferenceRunner
from polygraphy.adapters.onnx.storage.model import OnnxFromPath


@mod.export()
class OnnxParty:
    """The reference evaluator of the onnx package; implements the port `SuspectedParty`."""

    name = "onnx"
    passes = ()
    rewrites = False
    levels: Sequence[str] = ()

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
