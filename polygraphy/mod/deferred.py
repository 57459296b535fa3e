"""Names of a module that are imported when they are first asked for.

A program that uses one function of a published module does not pay for what the others import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["deferred_names"]


def deferred_names(namespace: dict[str, Any], names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module, and have `dir` list the names, too.

    Args:
        namespace: the module's `globals()`, in which a name is kept once it was asked for.
        names: which module has each of the names.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        from importlib import import_module

        value = namespace[name] = getattr(import_module(names[name]), name)
        return value

    namespace["__dir__"] = lambda: sorted({*namespace, *names})
    return __getattr__
