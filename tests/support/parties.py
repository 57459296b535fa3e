"""Backends for tests of diagnosis: one rewrites graphs wrongly, one crashes, one counts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Mapping
from typing import Any

import onnx
from onnx import TensorProto

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.domain.errors import BackendError


class CountingParty(OnnxrtParty):
    """ONNX Runtime, which counts what it loads in this process."""

    def __init__(self) -> None:
        """Start with no loaded models."""
        super().__init__()
        self.loads = 0

    def load(self, *given: Any, **options: Any) -> Any:
        """Load a model, count it, and return a function from inputs to outputs."""
        self.loads += 1
        return super().load(*given, **options)


class DeviceParty(OnnxrtParty):
    """ONNX Runtime as it would be on a device: it refuses to work in the process of the tests, and
    in one that was forked of it; and it crashes at an operator.
    """

    survives_fork = False
    uses_device = True
    crashes_at = "Sinh"

    def load(self, model: Any, **options: Any) -> Any:
        """Load a model in a process that is not pytest's; return a function for it."""
        assert "pytest" not in sys.modules, "not a new process"
        if any(node.op_type == self.crashes_at for node in model.graph.node):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().load(model, **options)


def command_of_fakes(command: str, *values: Mapping[str, Any]) -> str:
    """Return a command with all its values, for backends that the command line does not have."""
    pairs = (f"{name}={value}" for each in values for name, value in each.items() if value)
    return f"polygraphy {command} {' '.join(pairs)}"


class WrongRewriter:
    """Computes as the reference evaluator does, but makes Abs of Exp and Log that follow each other,
    unless one of its passes is switched off; or refuses such a model.
    """

    name = backend = "wrong"
    passes = ("Harmless", "ExpLogFusion", "Other", "LogExpCleanup")
    rewrites = True
    levels = ()
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}

    def __init__(self, guilty: Collection[str] = ("ExpLogFusion",), refuses: bool = False) -> None:
        """Store the passes that cause the fault together, and whether models are rejected."""
        self._guilty, self._refuses = set(guilty), refuses
        self.loads = 0

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function from inputs to outputs of the rewritten model."""
        self.loads += 1
        made = model if plain else self.runtime_graph(model, without=without)
        return OnnxParty().load(made)

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        """Return the rewritten model; the original without the guilty passes."""
        if self._guilty <= set(without):
            return model
        made = onnx.ModelProto()
        made.CopyFrom(model)
        outputs = {value.name for value in made.graph.output}
        for exp in list(made.graph.node):
            for log in list(made.graph.node):
                follows = exp.op_type == "Exp" and log.op_type == "Log"
                if follows and log.input[0] == exp.output[0] and exp.output[0] not in outputs:
                    if self._refuses:
                        raise BackendError("Node input 'exp' is not a graph input", backend="wrong")
                    made.graph.node.remove(exp)
                    log.op_type, log.name = "Abs", f"{log.name}/fused"
                    log.input[0] = exp.input[0]
        return made

    def remedy(self, *, plain: bool, without: Collection[str]) -> dict[str, Any]:
        """Return the options that switch passes off."""
        return {"plain": True} if plain else {"without": tuple(sorted(without))}


class CrashingParty(WrongRewriter):
    """Crashes at models with weights in half precision unless its pass is switched off, and never
    where that would end the tests.
    """

    name = backend = "crashing"
    passes = ("WidenFusion",)

    def __init__(self) -> None:
        """Store the process that must not end."""
        super().__init__(self.passes)
        self._tests = os.getpid()

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        """Return the model, or crash in a process that may end."""
        kinds = {weight.data_type for weight in model.graph.initializer}
        if TensorProto.FLOAT16 in kinds and not set(self.passes) <= set(without):
            assert os.getpid() != self._tests, "the crash would have ended the diagnosis"
            os.kill(os.getpid(), signal.SIGKILL)
        return model
