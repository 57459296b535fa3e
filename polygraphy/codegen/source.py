"""Values as Python source: the only way for external values into a program, including the command
line in its docstring.

`Source` from this module is written unchanged; numbers and containers are written as literals;
plain strings are rejected, because they could be code or data.

Expressions are calls of published names, with arguments that differ from their defaults, and other
values of such arguments besides literals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from shlex import join
from typing import Any

from attrs import evolve, field, frozen
from markupsafe import Markup

from polygraphy.codegen.signatures import SIGNATURES

Source = Markup
"""Text that is known to be Python source. Jinja2 never touches such text, and macros return it."""


class ByteCount(int):
    """A number of bytes, written in programs as ``2 << 30`` for 2 GiB."""


_ROUND = 1e6
"""Numbers from this one up are written with exponents, because their zeros are hard to count."""
_SAFE_EXPONENT = re.compile(r"^(-?\d+(?:\.\d+)?)e([+-])0*(\d+)$")


def literal(value: Any) -> Source:
    """Return the literal of a value, which evaluates to an equal value of the same type.

    Raises:
        TypeError: `value` is, or contains, an object without a literal.
    """
    return Source(_literal(value))


def _literal(value: Any) -> str:
    """Return the Python literal of a value; raise TypeError if it has none."""
    kind = type(value)
    if value is None or kind in (bool, int, bytes):
        return repr(value)
    if isinstance(value, Markup):
        raise TypeError("Source is not a value.")
    if isinstance(value, str):
        return repr(str(value))
    if kind is float:
        return _float(value)
    if kind is list:
        return f"[{', '.join(map(_literal, value))}]"
    if kind is tuple:
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return _mapping_literal(value)
    if kind is ByteCount:
        return _bytes(value)
    raise TypeError(f"A {kind.__name__} has no literal: {value!r}")


def _mapping_literal(values: Mapping[Any, Any]) -> str:
    """Return the literal of a dictionary, with small numbers in one spelling."""
    written = {key: _literal(item) for key, item in values.items()}
    if any("e-" in text for key, text in written.items() if type(values[key]) is float):
        written.update(
            (key, _scientific(item))
            for key, item in values.items()
            if type(item) is float and 0 < abs(item) < 1
        )
    if "" not in written or len(written) < 2:
        return "{" + ", ".join(f"{_literal(key)}: {text}" for key, text in written.items()) + "}"
    # The last comma keeps black from joining the lines, so that the comment stays where it belongs.
    lines = [
        f"{_literal(key)}: {text},{'' if key else '  # All others.'}"
        for key, text in written.items()
    ]
    return "\n".join(["{", *lines, "}"])


def _bytes(value: int) -> str:
    """Return a number of bytes as source, such as ``2 << 30`` for whole gibibytes."""
    for shift in (30, 20):
        count, remaining_index = divmod(value, 1 << shift)
        if count and not remaining_index:
            return f"{count} << {shift}"
    return repr(int(value))


def _scientific(value: float) -> str:
    """Return the shortest spelling with an exponent: ``1e-2``."""
    for digits in range(17):
        scientific = f"{value:.{digits}e}"
        if float(scientific) == value:
            break
    match = _SAFE_EXPONENT.match(scientific)
    if match is None:
        return repr(value)
    return f"{match[1]}e{'-' if match[2] == '-' else ''}{match[3]}"


def _float(value: float) -> str:
    """Return the shortest common spelling: ``1e-3`` and ``1e-5``, but ``0.05`` and ``40.0``."""
    if not math.isfinite(value):
        return f'float("{value}")'
    plain = repr(value)
    if 1 <= abs(value) < _ROUND:
        return plain
    short = _scientific(value)
    return short if len(short) < len(plain) else plain


_PLAIN = re.compile(r"[\w@%+:,./-][\w@%+=:,./-]*", re.ASCII)
"""Words that no shell expands; a word that starts with ``=`` is a command for zsh."""
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def quote_command(words: Sequence[str]) -> str:
    """Return a command line as one printable line for a shell."""
    return " ".join(map(quote_word, words))


def quote_word(word: str) -> str:
    """Return a word quoted for a shell, with unprintable characters as ``$'\n'``."""
    if _PLAIN.fullmatch(word):
        return word
    if all(character.isprintable() for character in word):
        return "'" + word.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_escape_character, word)) + "'"


def _escape_character(character: str) -> str:
    """Return a character as in a literal, escaped if it is not printable."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # A byte of a file name that is not valid UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return f"\\U{code:08x}"


def docstring(summary: str, command: str) -> Source:
    """Return the source of a docstring with `summary` and the command line in printable form."""
    lines = f"{summary}\n\n{command}\n"
    return Source('"""' + lines.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '"""')


Use = Callable[..., Source]
"""Returns a name that the program imports from a module, under a different name if that follows."""


class Expression:
    """Source code in a program, with the imports it needs."""

    def to_source(self, use: Use) -> Source:
        """Return the source code; imports are added by `use`."""
        raise NotImplementedError


@frozen
class Name(Expression):
    """A name that the program imports, such as a constant."""

    module: str
    name: str

    def to_source(self, use: Use) -> Source:
        """Return the name, and add its import."""
        return use(self.module, self.name)


@frozen
class Metadata(Expression):
    """Names of tensors, each with shape and data type; None for unknown parts."""

    tensors: Sequence[tuple[str, Sequence[int | str | None] | None, str | None]]

    def to_source(self, use: Use) -> Source:
        """Return the expression that adds one tensor after another."""
        source = use("polygraphy.common", "TensorMetadata") + Source("()")
        for name, shape, dtype in self.tensors:
            type_ = None if dtype is None else use("polygraphy.datatype", "DataType")
            written = "None" if type_ is None else f"{type_}[{literal(dtype)}]"
            axes = None if shape is None else list(shape)
            source += Source(f".add({literal(name)}, dtype={written}, shape={literal(axes)})")
        return source


def _without_none(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in kwargs.items() if value is not None}


@frozen
class Call(Expression):
    """A call of a published function, class or method, such as ``Comparator.run``.

    Attributes:
        name: a key of `SIGNATURES`.
        args: positional arguments: values, source, or other calls.
        kwargs: arguments by name, written in the order of the signature; None is omitted, because
            it means the default.
        on: the object of a method call: a call, or the name of a step; None for a name that is
            imported.

    Raises:
        TypeError: the signature has no such argument.
    """

    name: str
    args: Sequence[Any] = field(default=(), converter=tuple[Any, ...])
    kwargs: Mapping[str, Any] = field(factory=dict, converter=_without_none)
    on: Call | Source | None = None

    def __attrs_post_init__(self) -> None:
        """Raise an error for arguments that the signature does not have."""
        unknown = self.kwargs.keys() - SIGNATURES[self.name].arguments.keys()
        if unknown:
            raise TypeError(f"{self.name} takes no {', '.join(sorted(unknown))}.")

    def of(self, *args: Any, **kwargs: Any) -> Call:
        """Return the same call with additional arguments in front; a named one replaces the call's
        own, and None removes it.
        """
        values = {name: value for name, value in self.kwargs.items() if name not in kwargs}
        return evolve(self, args=(*args, *self.args), kwargs={**kwargs, **values})

    def to_source(self, use: Use) -> Source:
        """Return the source of the call."""
        signature = SIGNATURES[self.name]
        head, _, method = self.name.partition(".")
        if self.on is None:
            renamed = (signature.name, head) if signature.name else (head,)
            owner = use(signature.module, *renamed)
        else:
            owner = self.on.to_source(use) if isinstance(self.on, Call) else self.on
        called = owner + Source(f".{method}" if method else "")
        named = {name: self.kwargs[name] for name in signature.arguments if name in self.kwargs}
        return Source(f"{called}({_arguments_text(self.args, named, use)})")


@frozen
class ForeignCall(Expression):
    """A call of a function or class of another package with an unknown signature."""

    module: str
    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(factory=dict)

    def to_source(self, use: Use) -> Source:
        """Return the source of the call, and add its import."""
        return Source(
            f"{use(self.module, self.name)}({_arguments_text(self.args, self.kwargs, use)})"
        )


@frozen
class TemplateExpression(Expression):
    """An expression that a template of another package writes: its macro `runner` with its
    arguments."""

    template: str
    args: tuple[Any, ...]


@frozen
class FunctionOfModel(Expression):
    """A function with the parameter `model`: the called name itself, if it has no other arguments,
    else a lambda."""

    made: Expression

    def to_source(self, use: Use) -> Source:
        """Return the name, or a lambda."""
        called = self.made.to_source(use)
        name = called.removesuffix("(model)")
        return Source(name if name.isidentifier() else f"lambda model: {called}")


_FEW_WORDS = 3


@frozen
class Words(Expression):
    """The words of a command as a list; longer ones are written as a shell line."""

    words: Sequence[str]

    def to_source(self, use: Use) -> Source:
        """Return the list, or the expression that splits one string into it."""
        if len(self.words) <= _FEW_WORDS:
            return literal(list(self.words))
        return Source(f"{use('shlex', '')}.split({literal(join(self.words))})")


@frozen
class Step(Expression):
    """A statement that assigns a value, or the result of a call, to a name.

    Attributes:
        name: the name, which is never text of the user.
        value: an expression, or a value with a literal.
        note: a comment before it; empty for none.
    """

    name: str
    value: Any
    note: Source = Source("")

    def to_source(self, use: Use) -> Source:
        """Return the statement, without the comment."""
        return Source(f"{self.name} = {_argument_text(self.value, use)}")


def rename_steps(value: Any, names: Mapping[str, str]) -> Any:
    """Return a statement or expression in which steps are renamed."""
    if isinstance(value, Markup):
        return Source(names.get(str(value), value))
    if isinstance(value, (list, tuple)):
        return type(value)(rename_steps(item, names) for item in value)
    if isinstance(value, Mapping):
        return {key: rename_steps(value, names) for key, value in value.items()}
    if isinstance(value, Step):
        name = names.get(value.name, value.name)
        return evolve(value, name=name, value=rename_steps(value.value, names))
    if isinstance(value, Call):
        args, kwargs = rename_steps(value.args, names), rename_steps(value.kwargs, names)
        return evolve(value, args=args, kwargs=kwargs, on=rename_steps(value.on, names))
    return value


def nest_calls(first: Any, calls: Iterable[Call]) -> Any:
    """Return nested calls: each gets the result of the one before, and the innermost gets
    `first`."""
    for call in calls:
        first = call.of(first)
    return first


def _arguments_text(args: Sequence[Any], kwargs: Mapping[str, Any], use: Use) -> str:
    """Return the source of the arguments of a call."""
    parts = [_argument_text(value, use) for value in args]
    return ", ".join([*parts, *(f"{name}={_argument_text(kwargs[name], use)}" for name in kwargs)])


def _argument_text(value: Any, use: Use) -> str:
    """Return the source of one argument."""
    if isinstance(value, Expression):
        return value.to_source(use)
    if isinstance(value, list) and any(isinstance(item, Expression) for item in value):
        return f"[{', '.join(_argument_text(item, use) for item in value)}]"
    return value if isinstance(value, Markup) else literal(value)
