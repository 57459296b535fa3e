"""Pickles: the names of classes in them, and what NVIDIA's Polygraphy wrote into its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def pickled_as(module: str) -> Callable[[Class], Class]:
    """Return a decorator for a class that pickles name by a published module, which is still there
    when the class has moved. The names are those of NVIDIA's pickles.
    """

    def rename(cls: Class) -> Class:
        cls.__module__ = module
        return cls

    return rename


def their_items(state: dict[str, Any]) -> Any:
    """Return what a list or dictionary of NVIDIA's holds, taken out of its state, in which it is an
    attribute; None for a pickle of this package.
    """
    for word in ("key_type", "value_type", "elem_type"):
        state.pop(word, None)
    return state.pop("dct", state.pop("lst", None))
