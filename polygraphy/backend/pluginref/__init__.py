"""Plugin references: operators in NumPy, which stand for plugins that run elsewhere."""

from polygraphy.adapters.pluginref.references import OP_REGISTRY, register
from polygraphy.adapters.pluginref.runner import PluginRefRunner

__all__ = ["OP_REGISTRY", "PluginRefRunner", "register"]
