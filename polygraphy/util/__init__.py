"""Small helpers that scripts use; `polygraphy.util.array` has those about arrays."""

from polygraphy.legacy import helpers
from polygraphy.legacy.helpers import *  # noqa: F403
from polygraphy.mod.deferred import defer_names

__all__ = []
__all__ += helpers.__all__
__getattr__ = defer_names(globals(), submodules=("array", "misc", "util"))
