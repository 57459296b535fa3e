"""How different two images look to people.

That takes a trained network, so it is asked of an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


class PerceptualDistance(Protocol):
    """Measures how different two images look."""

    def prepare(self) -> None:
        """Make sure that this can be measured, before anything is computed for it.

        Raises:
            BackendError: it cannot: a package, or a trained network, is missing.
        """

    def between(self, image0: np.ndarray[Any, Any], image1: np.ndarray[Any, Any]) -> float:
        """Return the distance of two arrays of images of one shape; 0 for the same image.

        It is NaN where one of them holds NaN or infinity.

        Raises:
            TypeError: they do not hold numbers.
            UsageError: they hold no images.
        """
