"""Arrays of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Tensors"]


class Tensors(Protocol):
    """Turns NumPy arrays into those of another library, and back. The adapters are bound under the
    name of the library's top-level module.
    """

    def prepare(self) -> None:
        """Make sure that the library is there; MissingDependencyError when not."""

    def from_array(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        """Return the data for an input in the library's own form; InputError when there is none."""

    def to_array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return a tensor as a NumPy array, copied from its device."""
