"""Short names of types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    """An array of any shape and data type."""
else:
    Array = Any  # Not imported, because only annotations use it, and importing NumPy takes 0.1 s.

IN_DOCUMENT = "in_document"
"""The key of the metadata of a field that is False if documents leave the field out."""
