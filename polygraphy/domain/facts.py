"""What is known of a model without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from attrs import Factory, frozen

__all__ = ["DeferredFacts", "Facts", "InputHint", "ModelFacts"]


@frozen
class InputHint:
    """Which whole numbers an input may take, whatever its data type.

    Attributes:
        low: the smallest legal value.
        high: the largest legal value.
        reason: what the model does with them, in words, such as "indexes 30522 rows of 'table'".
    """

    low: int
    high: int
    reason: str


class Facts(Protocol):
    """What is known of a model."""

    @property
    def compute_dtypes(self) -> Mapping[str, str]:
        """By output the coarsest data type in which it is computed, such as ``float16`` or
        ``tf32``; the key ``""`` stands for the outputs that are not named.
        """

    @property
    def input_hints(self) -> Mapping[str, InputHint]:
        """By input which values it may take, where the model limits them."""


@frozen
class ModelFacts:
    """What is known of a model; see `Facts`. Empty where nothing is."""

    compute_dtypes: Mapping[str, str] = Factory(dict)
    input_hints: Mapping[str, InputHint] = Factory(dict)


class DeferredFacts:
    """Facts that are found out when they are first asked for, and kept."""

    def __init__(self, find: Callable[[], ModelFacts]) -> None:
        self._find = find
        self._found: ModelFacts | None = None

    def _facts(self) -> ModelFacts:
        if self._found is None:
            self._found = self._find()
        return self._found

    @property
    def compute_dtypes(self) -> Mapping[str, str]:
        """See `Facts`."""
        return self._facts().compute_dtypes

    @property
    def input_hints(self) -> Mapping[str, InputHint]:
        """See `Facts`."""
        return self._facts().input_hints
