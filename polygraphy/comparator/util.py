"""Statistics of outputs, as numbers, as text and as pictures, at the address that scripts use."""

from polygraphy.legacy import statistics
from polygraphy.legacy.statistics import *  # noqa: F403
from polygraphy.mod.deferred import defer_names

__all__ = []
__all__ += statistics.__all__
__getattr__ = defer_names(
    globals(), removed_names={"use_higher_precision": "comparator.util.cast_up"}
)
