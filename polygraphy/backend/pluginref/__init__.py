"""Plugin references: NumPy implementations of plugin operators."""

from polygraphy.adapters.pluginref.runner import OP_REGISTRY, PluginRefRunner, register
from polygraphy.mod.deferred import defer_names

__all__ = ["OP_REGISTRY", "PluginRefRunner", "register"]

__getattr__ = defer_names(globals(), submodules=("references", "runner"))
