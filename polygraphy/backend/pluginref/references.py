"""The registry of references, by the name under which scripts import it."""

from polygraphy.adapters.pluginref.runner import OP_REGISTRY, register

__all__ = ["OP_REGISTRY", "register"]
