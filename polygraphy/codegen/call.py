"""Calls in a program: of a published name, with the arguments that differ from its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import Factory, frozen
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from polygraphy.codegen.signatures import SIGNATURES
from polygraphy.codegen.source import Source, finalize, literal


@frozen
class Name:
    """A published name that is an argument itself, such as ``MARK_ALL``, and its module."""

    module: str
    name: str


@frozen
class Call:
    """A call of a published function, class or method, such as ``Comparator.run``.

    Attributes:
        name: a key of `SIGNATURES`.
        args: positional arguments: values, source, or other calls.
        kwargs: arguments by name; None is left out, because None is what leaving out means. They
            are written in the order of the signature.

    Raises:
        TypeError: the signature has no such argument.
    """

    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        unknown = self.kwargs.keys() - SIGNATURES[self.name].arguments.keys()
        if unknown:
            raise TypeError(f"{self.name} takes no {', '.join(sorted(unknown))}.")

    def written(self, use: Callable[[str, str], Source]) -> Source:
        """Return the call as source.

        Args:
            use: returns a name that the program imports from a module.
        """
        signature = SIGNATURES[self.name]
        head, _, method = self.name.partition(".")
        called = use(signature.module, head) + Source(f".{method}" if method else "")
        parts = [_argument(value, use) for value in self.args]
        parts += [
            f"{name}={_argument(self.kwargs[name], use)}"
            for name in signature.arguments
            if self.kwargs.get(name) is not None
        ]
        return Source(f"{called}({', '.join(parts)})")


def _argument(value: Any, use: Callable[[str, str], Source]) -> str:
    if isinstance(value, Call):
        return value.written(use)
    if isinstance(value, Name):
        return use(value.module, value.name)
    if isinstance(value, list) and any(isinstance(item, Call) for item in value):
        return f"[{', '.join(_argument(item, use) for item in value)}]"
    return value if isinstance(value, Markup) else literal(value)


@pass_context
def finalize_in(context: Context, value: Any) -> Source:
    """Let a value into a program: a call with what it imports, anything else as `finalize` does."""
    return value.written(context["use"]) if isinstance(value, Call) else finalize(value)
