"""Base classes for your own loaders and runners."""

from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.mod.deferred import defer_names

__all__ = ["BaseLoader", "BaseRunner"]

__getattr__ = defer_names(globals(), submodules=("loader", "runner", "util"))
