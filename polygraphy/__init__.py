"""Run a model in several inference backends, compare the outputs, and find out why they differ."""

import sys

from polygraphy.binding import register_resolver

__version__ = "1.0.0rc1"

register_resolver("polygraphy.wiring")

_PARTS = (
    "backend",
    "common",
    "comparator",
    "config",
    "constants",
    "cuda",
    "datatype",
    "exception",
    "func",
    "json",
    "logger",
    "mod",
    "util",
)


class _Addresses:
    """Finds published modules that have no file at their address."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        """Return the spec of a module at a published address; None if there is none."""
        if not name.startswith("polygraphy."):
            return None
        from importlib import import_module

        return import_module("polygraphy.addresses").spec_of(name)


sys.meta_path.append(_Addresses)  # type: ignore[arg-type]  # Asked last: nothing else gets slower.


def __getattr__(name: str) -> object:
    """Return a part of the package, imported on first use."""
    if name in _PARTS:
        from importlib import import_module

        return import_module(f"polygraphy.{name}")
    raise AttributeError(f"module 'polygraphy' has no attribute {name!r}")
