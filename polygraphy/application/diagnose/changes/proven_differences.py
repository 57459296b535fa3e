"""The differences of two models that explain their outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from polygraphy.domain.diagnosis.culprit import Culprit
from polygraphy.ports.editing import OpenModel


@frozen
class Differences:
    """Differences that are proven to change the outputs.

    Attributes:
        culprits: the nodes that differ.
        repaired: returns the model without these differences; None if that is not known.
        is_open: whether it is unknown which of its nodes a culprit is.
        is_mixed: whether copying the differences also copied more than they name.
    """

    culprits: Sequence[Culprit] = ()
    repaired: Callable[[], OpenModel | None] | None = None
    is_open: bool = False
    is_mixed: bool = False
