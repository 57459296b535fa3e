"""The table of the adapters that are bound to ports.

A port is a protocol class, or a function that is declared with `port`. `resolve(port)` returns the
adapter of the innermost `bind` in this process, else the one that the registered resolver
(`polygraphy.wiring`) names, which is imported on first use and cached. A port that is a function is
called directly. Tests and embedding tools bind their own::

    with bind(ResultStore, MyStore()):
        results.save("anywhere")

This module is imported with the package itself, so it imports nothing at that moment, not even
`typing`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    P = TypeVar("P")
    F = TypeVar("F", bound=Callable[..., Any])
    Port = type | Callable[..., Any]


_bound: dict[tuple[Port, str | None], list[Any]] = {}
_resolved: dict[tuple[Port, str | None], Any] = {}
_resolver_module: str | None = None


class UnboundPortError(LookupError):
    """Raised if no adapter is bound to a port."""


class Binding:
    """An adapter that replaces the usual one of a port inside a `with` block."""

    def __init__(self, slot: tuple[Port, str | None], adapter: Any) -> None:
        """Set the port and its adapter."""
        self._slot = slot
        self._adapter = adapter

    def __enter__(self) -> Any:
        """Bind the adapter, and return it."""
        _bound.setdefault(self._slot, []).append(self._adapter)
        return self._adapter

    def __exit__(self, *exc_info: object) -> None:
        """Restore the earlier adapter."""
        _bound[self._slot].remove(self._adapter)


def port(declared: F) -> F:
    """Return a port for a function that only declares its signature:
    a call without a key calls the bound function."""

    def call_bound(*arguments: Any, **named: Any) -> Any:
        """Return the result of the bound function."""
        return resolve(call_bound)(*arguments, **named)  # type: ignore[arg-type]

    # Loaders that are sent to other processes pickle this function by its name.
    call_bound.__module__, call_bound.__qualname__ = declared.__module__, declared.__qualname__
    call_bound.__name__, call_bound.__doc__ = declared.__name__, declared.__doc__
    return call_bound  # type: ignore[return-value]


def bind(port: type[P] | Callable[..., Any], adapter: P, key: str | None = None) -> Binding:
    """Return a binding of `adapter` to `port` (and `key`, if a port has several adapters) that
    applies in a `with` block.
    """
    return Binding((port, key), adapter)


def register_resolver(module: str) -> None:
    """Register the module whose function ``resolve(port, key)`` returns adapters.
    It is imported at the first use.
    """
    global _resolver_module  # noqa: PLW0603 - the one place where the composition root is known
    _resolver_module = module
    _resolved.clear()


def function_for(port: F, key: str) -> F:
    """Return the function that is bound to a port under a key; see `resolve`."""
    bound: F = resolve(port, key)  # type: ignore[arg-type]
    return bound


def resolve(port: type[P], key: str | None = None) -> P:
    """Return the adapter that is bound to `port`.

    Raises:
        UnboundPortError: no adapter is bound, and the resolver has none.
    """
    slot = (port, key)
    stack = _bound.get(slot)
    if stack:
        adapter: P = stack[-1]
        return adapter
    if slot not in _resolved:
        if _resolver_module is None:
            raise UnboundPortError(
                f"Nothing is bound to {port.__name__}{f' for {key!r}' if key else ''}."
            )
        from importlib import import_module

        _resolved[slot] = import_module(_resolver_module).resolve(port, key)
    resolved: P = _resolved[slot]
    return resolved
