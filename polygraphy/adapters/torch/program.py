"""What the runner asks of a model, whatever kind of model it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from polygraphy import mod
from polygraphy.adapters.torch.exported import Exported
from polygraphy.adapters.torch.module import Module
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.metadata import TensorMetadata

torch = mod.lazy_import("torch>=2.2")


class Program(Protocol):
    """A model that can be run."""

    def inputs(self) -> TensorMetadata | None:
        """Describe the inputs in the order of the model; None where it does not tell them."""

    def output_names(self) -> Sequence[str] | None:
        """Return the names of the outputs; None where the model does not tell them."""

    def start(self, device: str | None, compiled: bool) -> Any:
        """Get ready to run, and return the `torch.device` on which the inputs have to be.

        Args:
            device: where to run; None for where the model is.
            compiled: whether the model is compiled first.
        """

    def run(self, tensors: Sequence[Any]) -> Any:
        """Run the model on its inputs in order, and return what it returns."""

    def run_all(self, tensors: Sequence[Any]) -> Mapping[str, Any]:
        """Run the model, and return every tensor that it computes, by name.

        Raises:
            UsageError: the model does not name them.
        """

    def stop(self) -> None:
        """Leave the model as it was."""


def is_model(value: Any) -> bool:
    """Return whether something is a model; it may be callable, as what loads one is."""
    return isinstance(value, (torch.nn.Module, torch.export.ExportedProgram))


def program_of(model: Any) -> Program:
    """Return how a model is run; UsageError when it is none."""
    if isinstance(model, torch.export.ExportedProgram):
        return Exported(model)
    if isinstance(model, torch.nn.Module):  # So is TorchScript.
        return Module(model)
    raise UsageError(
        "A PyTorch model must be a torch.nn.Module, TorchScript or a torch.export.ExportedProgram,"
        f" not a {type(model).__name__}."
    )
