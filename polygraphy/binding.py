"""The table that says which adapter is bound to which port.

A port is a protocol class. `resolve(port)` answers with what the innermost `bind` of this process
bound to it, else with what the registered resolver (`polygraphy.wiring`) names, which is imported
at that moment and kept. Tests and embedding
tools bind their own::

    with bind(ResultStore, MyStore()):
        results.save("anywhere")

This module is imported with the package itself, so it imports nothing at that moment, not even
`typing`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    P = TypeVar("P")


_bound: dict[tuple[type, str | None], list[Any]] = {}
_resolved: dict[tuple[type, str | None], Any] = {}
_resolver_module: str | None = None


class Unbound(LookupError):
    """Nothing is bound to a port."""


class Binding:
    """An adapter that takes the place of a port's usual one for the length of a `with` block."""

    def __init__(self, slot: tuple[type, str | None], adapter: Any) -> None:
        self._slot = slot
        self._adapter = adapter

    def __enter__(self) -> Any:
        _bound.setdefault(self._slot, []).append(self._adapter)
        return self._adapter

    def __exit__(self, *exc_info: object) -> None:
        _bound[self._slot].remove(self._adapter)


def bind(port: type[P], adapter: P, key: str | None = None) -> Binding:
    """Bind `adapter` to `port` (and `key`, where a port has several adapters) for the length of a
    `with` block.
    """
    return Binding((port, key), adapter)


def register_resolver(module: str) -> None:
    """Name the module whose function ``resolve(port, key)`` finds adapters; it is imported when
    first needed.
    """
    global _resolver_module  # noqa: PLW0603 - the one place where the composition root is known
    _resolver_module = module
    _resolved.clear()


def resolve(port: type[P], key: str | None = None) -> P:
    """Return the adapter that is bound to `port`.

    Raises:
        Unbound: nothing is bound, and the resolver knows nothing either.
    """
    slot = (port, key)
    stack = _bound.get(slot)
    if stack:
        adapter: P = stack[-1]
        return adapter
    if slot not in _resolved:
        if _resolver_module is None:
            raise Unbound(f"Nothing is bound to {port.__name__}{f' for {key!r}' if key else ''}.")
        from importlib import import_module

        _resolved[slot] = import_module(_resolver_module).resolve(port, key)
    resolved: P = _resolved[slot]
    return resolved
