"""The immediate variant of a loader class: a function that makes a loader and calls it.

It is written as source text and compiled, as `collections.namedtuple` does, because that gives a
plain function with a signature of its own, without importing `inspect`: every start of the program
pays for what happens here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["immediate_function"]

# `inspect.CO_VARARGS` and `inspect.CO_VARKEYWORDS`.
_HAS_ARGS = 0x04
_HAS_KWARGS = 0x08


def immediate_function(loader: Any, name: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that makes a `loader` and returns what calling it returns.

    Its parameters are the required ones of `__init__`, the required ones of `call_impl` (or of
    `__call__` for a class that has none), then the optional ones in the same order, then `*args`
    and `**kwargs` if one of the two takes them (`__init__` gets them if both do).

    Args:
        loader: The class.
        name: The name of the function.
        namespace: The globals of the function.

    Raises:
        TypeError: A parameter of one method has the name of a parameter of the other.
    """
    init = _Parameters(loader.__init__)
    call = _Parameters(getattr(loader, "call_impl", loader.__call__))
    _check_names(loader, init, call)
    init_call = init.forwarded(args=True, kwargs=True)
    call_call = call.forwarded(args=not init.args, kwargs=not init.kwargs)
    source = (
        f"def _make_(_loader_, _defaults_):\n"
        f"    def {name}({_signature(init, call)}):\n"
        f"        return _loader_({init_call})({call_call})\n"
        f"    return {name}\n"
    )
    made: dict[str, Any] = {}
    exec(compile(source, f"<immediate function {name}>", "exec"), namespace, made)
    function: Any = made["_make_"](loader, init.defaults | call.defaults)
    function.__module__ = loader.__module__
    function.__qualname__ = name
    function.__doc__ = _doc(loader)
    function.__annotations__ = {**call.annotations, **init.annotations}
    function.__annotations__.pop("return", None)
    if "return" in call.annotations:
        function.__annotations__["return"] = call.annotations["return"]
    immediate: Callable[..., Any] = function
    return immediate


def _check_names(loader: Any, init: _Parameters, call: _Parameters) -> None:
    seen: set[str] = set()
    rest = [init.args or call.args, init.kwargs or call.kwargs]
    for name in filter(None, [*init.named, *call.named, *rest]):
        if name in seen:
            raise TypeError(
                f"{loader.__name__} cannot have an immediate function: "
                f"its constructor and its call both have a parameter {name!r}"
            )
        seen.add(name)


def _signature(init: _Parameters, call: _Parameters) -> str:
    parts = [*init.required, *call.required]
    parts += [f"{name}=_defaults_[{name!r}]" for name in init.optional + call.optional]
    if init.args or call.args:
        parts.append(f"*{init.args or call.args}")
    if init.kwargs or call.kwargs:
        parts.append(f"**{init.kwargs or call.kwargs}")
    return ", ".join(parts)


class _Parameters:
    """What a method takes besides `self`, read from its code.

    Attributes:
        positional: Names of the parameters that may be given by position, in order.
        keyword_only: Names of those that may not.
        args: Name of the parameter for further positional arguments, empty for none.
        kwargs: Name of the parameter for further keyword arguments, empty for none.
        defaults: The defaults of the optional ones, by name.
        annotations: As of the method.
    """

    def __init__(self, method: Any) -> None:
        while hasattr(method, "__wrapped__"):
            method = method.__wrapped__
        if not hasattr(method, "__code__"):
            method = _takes_nothing  # `object.__init__`: the class has no constructor of its own.
        code = method.__code__
        names = iter(code.co_varnames)
        self.positional = [next(names) for _ in range(code.co_argcount)][1:]
        self.keyword_only = [next(names) for _ in range(code.co_kwonlyargcount)]
        self.args = next(names) if code.co_flags & _HAS_ARGS else ""
        self.kwargs = next(names) if code.co_flags & _HAS_KWARGS else ""
        values = method.__defaults__ or ()
        self.defaults: dict[str, Any] = {
            **dict(zip(self.positional[len(self.positional) - len(values) :], values, strict=True)),
            **(method.__kwdefaults__ or {}),
        }
        self.annotations: dict[str, Any] = method.__annotations__

    @property
    def named(self) -> list[str]:
        """Names of all the parameters that stand for one argument."""
        return self.positional + self.keyword_only

    @property
    def required(self) -> list[str]:
        """Names of those without a default."""
        return [name for name in self.named if name not in self.defaults]

    @property
    def optional(self) -> list[str]:
        """Names of those with a default."""
        return [name for name in self.named if name in self.defaults]

    def forwarded(self, *, args: bool, kwargs: bool) -> str:
        """Return the arguments of a call that passes variables of the same names on.

        Args:
            args: Whether it passes on further positional arguments, if the method takes them.
            kwargs: Whether it passes on further keyword arguments, if the method takes them.
        """
        parts = list(self.positional)
        if args and self.args:
            parts.append(f"*{self.args}")
        parts += [f"{name}={name}" for name in self.keyword_only]
        if kwargs and self.kwargs:
            parts.append(f"**{self.kwargs}")
        return ", ".join(parts)


def _takes_nothing(self: object) -> None:
    """Stand for a constructor that does nothing."""


def _doc(loader: Any) -> str:
    """Return the function's documentation: that of the class, its constructor and its call."""
    call = getattr(loader, "call_impl", loader.__call__)
    docs = [loader.__doc__, vars(loader).get("__init__", loader).__doc__, call.__doc__]
    unique = dict.fromkeys(_dedented(doc) for doc in docs if doc)
    headline = f"Immediately evaluated functional variant of :class:`{loader.__name__}`."
    return "\n\n".join([headline, *unique])


def _dedented(doc: str) -> str:
    """Return a docstring without the indentation that it has in the source."""
    first, *rest = doc.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return "\n".join([first.strip(), *(line[margin:].rstrip() for line in rest)]).strip("\n")
