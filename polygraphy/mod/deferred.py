"""Names of a module that are imported when they are first asked for.

A program that uses one function of a published module does not pay for what the others import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

__all__ = ["defer_names"]


def defer_names(
    namespace: dict[str, Any],
    names: Mapping[str, str] | None = None,
    submodules: Collection[str] = (),
    removed_names: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module with names that are imported at the first use;
    `dir` lists them too.

    Args:
        namespace: the module's `globals()`, in which a name is kept once it was asked for.
        names: the module of each name; ``module:Name`` if its name there differs.
        submodules: modules of a package that are attributes of it without an import of their own.
        removed_names: the removed names, each with its replacement.
    """

    homes = names or {}

    def __getattr__(name: str) -> Any:
        """Return a name of the module, imported on first use."""
        from importlib import import_module

        if name in homes:
            home, _, remote_name = homes[name].partition(":")
            value = namespace[name] = getattr(import_module(home), remote_name or name)
            return value
        if name in submodules:
            return import_module(f"{namespace['__name__']}.{name}")
        missing = f"module {namespace['__name__']!r} has no attribute {name!r}"
        if removed_names and name in removed_names:
            raise AttributeError(f"{missing} any more. Instead: {removed_names[name]}")
        raise AttributeError(missing)

    namespace["__dir__"] = lambda: sorted({*namespace, *homes, *submodules})
    return __getattr__
