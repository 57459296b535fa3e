"""Tensors as input data; implements the port `Tensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.torch.arrays import array_from, tensor_from
from polygraphy.domain.errors import MissingDependencyError

if TYPE_CHECKING:
    import numpy as np


torch = mod.lazy_import("torch>=2.2")


class TorchTensors:
    """Turns arrays into PyTorch's tensors on the CPU, and tensors on any device into arrays."""

    def prepare(self) -> None:
        """Make sure that PyTorch is there; MissingDependencyError when not."""
        if not torch.is_installed():
            install = torch.install_command()
            raise MissingDependencyError(
                "Data are generated as tensors with PyTorch, which is not installed."
                f" Install it with: {install}",
                module="torch",
                install=install,
            )

    def from_array(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        """Return a tensor; InputError when PyTorch has no such data type."""
        return tensor_from(name, array, "cpu")

    def to_array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return the elements of a tensor."""
        return array_from(tensor)
