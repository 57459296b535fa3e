"""Facts of a diagnosis: data that documents keep, and that `words` turns into English.

A function of `words` that is decorated with `fact` takes what is known as arguments, and returns a
`Fact`: its kind is the name of the function, and its text is written only when it is read.
Reasons and notes are texts that are put together from several; one that is decorated with
`statement` returns a `Statement`, a text that keeps its facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        kind: its kind: the name of the function in `words` that writes its text.
        values: the numbers and names in it, by the arguments of that function.
    """

    kind: str
    values: Mapping[str, Any] = field(hash=False)
    _write: Callable[..., str] = field(eq=False, repr=False, metadata={IN_DOCUMENT: False})

    def __str__(self) -> str:
        """Return the fact in English."""
        return self._write(**self.values)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return what pickle stores: module, kind and values."""
        if isinstance(self._write, _Constant):
            return Fact, (self.kind, self.values, self._write)
        return _restore_fact, (self._write.__module__, self.kind, self.values)

    def data(self) -> dict[str, Any]:
        """Return the fact as JSON values."""
        return {"kind": self.kind, **{name: _as_json(value) for name, value in self.values.items()}}


def fact(write: Callable[P, str]) -> Callable[P, Fact]:
    """Return a function that stores the arguments of a sentence function as a fact."""
    kind, parameters = write.__name__, signature(write)

    @wraps(write)
    def make_fact(*args: P.args, **kwargs: P.kwargs) -> Fact:
        """Return the fact with its arguments."""
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        return Fact(kind, dict(bound.arguments), write)

    return make_fact


class Statement(str):
    """A text with the facts that it states."""

    facts: tuple[Fact, ...]

    def __new__(cls, text: str, facts: Iterable[Fact] = ()) -> Statement:
        """Return the text with its facts."""
        new = super().__new__(cls, text)
        new.facts = tuple(facts)
        return new


def statement(write: Callable[P, str]) -> Callable[P, Statement]:
    """Return a function that returns the sentence together with its fact."""
    state_fact = fact(write)

    @wraps(write)
    def make_statement(*args: P.args, **kwargs: P.kwargs) -> Statement:
        """Return the sentence with its fact."""
        known_fact = state_fact(*args, **kwargs)
        return Statement(str(known_fact), [known_fact])

    return make_statement


def constant(kind: str, text: str) -> Statement:
    """Return a fixed sentence with the fact it stands for."""
    return Statement(text, [Fact(kind, {}, _Constant(text))])


def join_statements(*parts: str) -> Statement:
    """Return one statement that joins several texts and all their facts."""
    stated = [part for part in parts if part]
    text = " ".join(part.strip() for part in stated)
    return Statement(text, [part_fact for part in stated for part_fact in facts_of(part)])


def facts_of(text: str) -> Sequence[Fact]:
    """Return the facts that a text states; empty if it is not a statement."""
    return text.facts if isinstance(text, Statement) else ()


def texts_of_facts(facts: Iterable[Fact]) -> list[str]:
    """Return facts as English sentences."""
    return [str(single_fact) for single_fact in facts]


@frozen
class _Constant:
    """The sentence function of a fact without values."""

    text: str

    def __call__(self) -> str:
        """Return the sentence of the fact."""
        return self.text


def _restore_fact(module: str, kind: str, values: Mapping[str, Any]) -> Fact:
    """Return a fact from the state of a pickle."""
    restored: Fact | Statement = getattr(import_module(module), kind)(**values)
    return restored.facts[0] if isinstance(restored, Statement) else restored


def _as_json(value: Any) -> Any:
    """Return a value as JSON types."""
    if isinstance(value, Fact):
        return value.data()
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    return str(value) if isinstance(value, Exception) else value
