"""Another address of `polygraphy.util`, with what older versions had."""

from polygraphy.domain.tensors.shapes import is_dynamic_dim as is_dimension_dynamic
from polygraphy.util import *  # noqa: F403
from polygraphy.util.misc import find_in_dict  # noqa: F401


def num_dynamic_dimensions(shape: object) -> int:
    """Return how many dimensions of a shape are dynamic."""
    return sum(map(is_dimension_dynamic, shape))  # type: ignore[call-overload]
