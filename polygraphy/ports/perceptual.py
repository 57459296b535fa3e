"""How different two images look to people.

That takes a trained network, so it is asked of an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PerceptualDistance"]


class PerceptualDistance(Protocol):
    """Measures how different two images look."""

    def between(self, image0: np.ndarray[Any, Any], image1: np.ndarray[Any, Any]) -> float:
        """Return the distance of two arrays of images of one shape; 0 for the same image.

        Raises:
            TypeError: they do not hold numbers.
        """
