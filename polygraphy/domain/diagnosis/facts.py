"""Facts of a diagnosis: data that documents keep, and that `words` turns into English.

A function of `words` that is decorated with `fact` takes what is known as arguments, and returns a
`Fact`: its kind is the name of the function, and its text is written only if somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, ParamSpec

from attrs import field, frozen

from polygraphy.domain.tensors.aliases import IN_DOCUMENT

P = ParamSpec("P")


@frozen
class Fact:
    """Something that was measured, changed, proved, refused or lost.

    Attributes:
        kind: what it is: the name of the function in `words` that writes its text.
        values: the numbers and names in it, by the arguments of that function.
    """

    kind: str
    values: Mapping[str, Any] = field(hash=False)
    _write: Callable[..., str] = field(eq=False, repr=False, metadata={IN_DOCUMENT: False})

    def __str__(self) -> str:
        """Return the fact in English."""
        return self._write(**self.values)

    def __reduce__(self) -> tuple[Callable[..., Fact], tuple[str, str, Mapping[str, Any]]]:
        return _restored, (self._write.__module__, self.kind, self.values)

    def data(self) -> dict[str, Any]:
        """Return the fact as documents keep it."""
        return {"kind": self.kind, **{name: _data(value) for name, value in self.values.items()}}


def fact(write: Callable[P, str]) -> Callable[P, Fact]:
    """Turn a function that writes a sentence into one that returns the fact behind it."""
    kind, parameters = write.__name__, signature(write)

    @wraps(write)
    def state(*args: P.args, **kwargs: P.kwargs) -> Fact:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        return Fact(kind, dict(bound.arguments), write)

    return state


def texts(facts: Iterable[Fact]) -> list[str]:
    """Return facts in English."""
    return [str(each) for each in facts]


def _restored(module: str, kind: str, values: Mapping[str, Any]) -> Fact:
    """Return a fact that came from another process."""
    restored: Fact = getattr(import_module(module), kind)(**values)
    return restored


def _data(value: Any) -> Any:
    if isinstance(value, Fact):
        return value.data()
    return [_data(each) for each in value] if isinstance(value, (list, tuple)) else value
