"""Modules of PyTorch, and TorchScript: the inputs are the parameters of `forward`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from polygraphy import mod
from polygraphy.adapters.torch.errors import check_compiler, translated_errors
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

torch = mod.lazy_import("torch>=2.2")


class Module:
    """A `torch.nn.Module` or a `torch.jit.ScriptModule`; implements `Program`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._call: Any = None
        self._in_training: list[Any] = []

    def inputs(self) -> TensorMetadata | None:
        """Describe the parameters of `forward` that have no default, as float32 of any shape; there
        is nothing to describe where their number is open.
        """
        names = self._parameters()
        if names is None:
            return None
        metadata = TensorMetadata()
        for name in names:
            metadata.add(name, DataType.FLOAT32, None)
        return metadata

    def _parameters(self) -> list[str] | None:
        if isinstance(self._model, torch.jit.ScriptModule):
            arguments = self._model.forward.schema.arguments[1:]
            return [argument.name for argument in arguments if not argument.has_default_value()]
        parameters = inspect.signature(self._model.forward).parameters.values()
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            return None
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [
            parameter.name
            for parameter in parameters
            if parameter.kind in kinds and parameter.default is parameter.empty
        ]

    def output_names(self) -> Sequence[str] | None:
        """Return None: what a module returns has no names, unless it is a dictionary."""
        return None

    def start(self, device: str | None, compiled: bool) -> Any:
        """Move the model, and switch it to inference."""
        if compiled:
            check_compiler()
        if device is not None:
            self._model.to(device)
        self._in_training = [part for part in self._model.modules() if part.training]
        self._model.eval()
        self._call = self._model
        if compiled:
            with translated_errors("compile"):
                self._call = torch.compile(self._model)
        tensors = chain(self._model.parameters(), self._model.buffers())
        place = next((tensor.device for tensor in tensors), device or "cpu")
        return torch.device(place)

    def run(self, tensors: Sequence[Any]) -> Any:
        """Call the model."""
        return self._call(*tensors)

    def run_all(self, tensors: Sequence[Any]) -> Mapping[str, Any]:
        """Raise a UsageError: modules do not name what they compute on the way."""
        raise UsageError(
            "A torch.nn.Module does not name the tensors inside it, so they cannot be outputs.",
            hint="Export it with torch.export.export.",
        )

    def stop(self) -> None:
        """Switch the parts of the model back to training that were in it."""
        for part in self._in_training:
            part.training = True
        self._call = None
