"""The bases of loaders and runners of your own."""

from polygraphy.adapters.common.loader import BaseLoader
from polygraphy.adapters.common.runner import BaseRunner

__all__ = ["BaseLoader", "BaseRunner"]
