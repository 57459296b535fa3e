"""Several adapters of one port, of which each is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Everyone:
    """Passes every call on to each of some listeners, in order."""

    def __init__(self, listeners: Sequence[Any]) -> None:
        """Name them; they answer nothing."""
        self._listeners = listeners

    def __getattr__(self, name: str) -> Callable[..., None]:
        methods = [getattr(listener, name) for listener in self._listeners]

        def pass_on(*args: Any, **kwargs: Any) -> None:
            for method in methods:
                method(*args, **kwargs)

        self.__dict__[name] = pass_on  # Found without asking, from now on.
        return pass_on
