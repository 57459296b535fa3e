"""The registry of references, by the name under which scripts import it."""

from polygraphy.adapters.pluginref.references import OP_REGISTRY, register

__all__ = ["OP_REGISTRY", "register"]
