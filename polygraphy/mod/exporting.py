"""Public names of a module, and the immediate function that belongs to a loader class."""

from __future__ import annotations

import sys

from polygraphy.mod.immediate import immediate_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, TypeVar

    T = TypeVar("T", bound=Callable[..., Any])

__all__ = ["add_to_all", "export"]


def export(funcify: bool = False, func_name: str | None = None) -> Callable[[T], T]:
    """Return a decorator that adds a function or a class to the `__all__` of its module.

    Args:
        funcify: Also export a function that makes an instance of the class and calls it at once.
            It takes the required parameters of `__init__`, those of `call_impl` (`__call__` of a
            class that has none), then the optional ones of both, then `*args` and `**kwargs` if one
            of them does.
        func_name: The function's name. By default that of the class in snake case: `GsFromOnnx`
            gives `gs_from_onnx`.

    The decorator raises a TypeError if both methods have a parameter of the same name.
    """

    def decorator(target: T) -> T:
        module = sys.modules[target.__module__]
        add_to_all(module, target.__name__)
        if funcify:
            name = func_name or _snake_case(target.__name__)
            vars(module)[name] = immediate_function(target, name, vars(module))
            add_to_all(module, name)
        return target

    return decorator


def add_to_all(module: ModuleType, name: str) -> None:
    """Add a name to the `__all__` of a module, which is created if there is none."""
    names = vars(module).setdefault("__all__", [])
    if name not in names:
        names.append(name)


def _snake_case(name: str) -> str:
    """Return `name` in lower case, with an underscore before each capital but the first."""
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    return words.removeprefix("_")
