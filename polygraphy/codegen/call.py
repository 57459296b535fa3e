"""Expressions in a program: calls of published names, with the arguments that differ from their
defaults, and what stands in such arguments besides literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from shlex import join
from typing import Any

from attrs import evolve, field, frozen
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from polygraphy.codegen.signatures import SIGNATURES
from polygraphy.codegen.source import Source, finalize, literal

Use = Callable[..., Source]
"""Returns a name that the program imports from a module, under another name if that follows."""


class Expression:
    """What is written into a program together with what it imports."""

    def written(self, use: Use) -> Source:
        """Return the source."""
        raise NotImplementedError


@frozen
class Name(Expression):
    """A name that the program imports, such as a constant."""

    module: str
    name: str

    def written(self, use: Use) -> Source:
        return use(self.module, self.name)


@frozen
class Metadata(Expression):
    """Names of tensors, each with its shape and the name of its data type; None for open ones."""

    tensors: Sequence[tuple[str, Sequence[int | str | None] | None, str | None]]

    def written(self, use: Use) -> Source:
        """Return the expression that adds one tensor after the other."""
        made = use("polygraphy.common", "TensorMetadata") + Source("()")
        for name, shape, dtype in self.tensors:
            type_ = None if dtype is None else use("polygraphy.datatype", "DataType")
            written = "None" if type_ is None else f"{type_}[{literal(dtype)}]"
            axes = None if shape is None else list(shape)
            made += Source(f".add({literal(name)}, dtype={written}, shape={literal(axes)})")
        return made


def _without_none(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if value is not None}


@frozen
class Call(Expression):
    """A call of a published function, class or method, such as ``Comparator.run``.

    Attributes:
        name: a key of `SIGNATURES`.
        args: positional arguments: values, source, or other calls.
        kwargs: arguments by name, written in the order of the signature; None is left out, because
            None is what leaving out means.
        on: the call that makes what a method is called on; None for a name that is imported.

    Raises:
        TypeError: the signature has no such argument.
    """

    name: str
    args: Sequence[Any] = field(default=(), converter=tuple[Any, ...])
    kwargs: Mapping[str, Any] = field(factory=dict, converter=_without_none)
    on: Call | None = None

    def __attrs_post_init__(self) -> None:
        unknown = self.kwargs.keys() - SIGNATURES[self.name].arguments.keys()
        if unknown:
            raise TypeError(f"{self.name} takes no {', '.join(sorted(unknown))}.")

    def of(self, *args: Any, **kwargs: Any) -> Call:
        """Return the same call with these arguments in front of the others of their kind; one by
        name takes the place of the call's own, and None leaves that out.
        """
        others = {name: value for name, value in self.kwargs.items() if name not in kwargs}
        return evolve(self, args=(*args, *self.args), kwargs={**kwargs, **others})

    def written(self, use: Use) -> Source:
        signature = SIGNATURES[self.name]
        head, _, method = self.name.partition(".")
        if self.on is None:
            renamed = (signature.name, head) if signature.name else (head,)
            owner = use(signature.module, *renamed)
        else:
            owner = self.on.written(use)
        called = owner + Source(f".{method}" if method else "")
        named = {name: self.kwargs[name] for name in signature.arguments if name in self.kwargs}
        return Source(f"{called}({_arguments(self.args, named, use)})")


@frozen
class ForeignCall(Expression):
    """A call of a function or class of another package, whose signature is not known here."""

    module: str
    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(factory=dict)

    def written(self, use: Use) -> Source:
        return Source(f"{use(self.module, self.name)}({_arguments(self.args, self.kwargs, use)})")


@frozen
class Partial(Expression):
    """An expression that a template of another package writes: its macro `runner`, with what that
    takes.
    """

    template: str
    args: tuple[Any, ...]


@frozen
class FunctionOfModel(Expression):
    """A function that takes `model` and makes something of it: what it calls itself, where that
    is called with nothing else.
    """

    made: Expression

    def written(self, use: Use) -> Source:
        """Return the name, or a lambda."""
        called = self.made.written(use)
        name = called.removesuffix("(model)")
        return Source(name if name.isidentifier() else f"lambda model: {called}")


_FEW_WORDS = 3


@frozen
class Words(Expression):
    """A list of the words of a command; more than a few are written as a shell takes them."""

    words: Sequence[str]

    def written(self, use: Use) -> Source:
        """Return the list, or what makes it of one string."""
        if len(self.words) <= _FEW_WORDS:
            return literal(list(self.words))
        return Source(f"{use('shlex', '')}.split({literal(join(self.words))})")


@frozen
class Step(Expression):
    """A statement that gives a name to a value, or to what a call returns.

    Attributes:
        name: the name, which is never text of the user.
        value: the value: an expression, or what has a literal.
        note: a comment in front of it; empty for none.
    """

    name: str
    value: Any
    note: Source = Source("")

    def written(self, use: Use) -> Source:
        """Return the statement, without the comment."""
        return Source(f"{self.name} = {_argument(self.value, use)}")


def in_turn(first: Any, calls: Iterable[Call]) -> Any:
    """Return calls within each other: each takes what the one before gives, and the first one
    `first`.
    """
    for call in calls:
        first = call.of(first)
    return first


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any], use: Use) -> str:
    parts = [_argument(value, use) for value in args]
    return ", ".join([*parts, *(f"{name}={_argument(kwargs[name], use)}" for name in kwargs)])


def _argument(value: Any, use: Use) -> str:
    if isinstance(value, Expression):
        return value.written(use)
    if isinstance(value, list) and any(isinstance(item, Expression) for item in value):
        return f"[{', '.join(_argument(item, use) for item in value)}]"
    return value if isinstance(value, Markup) else literal(value)


@pass_context
def finalize_in(context: Context, value: Any) -> Source:
    """Let a value into a program: an expression with what it imports, anything else as `finalize`
    does.
    """
    return value.written(context["use"]) if isinstance(value, Expression) else finalize(value)
