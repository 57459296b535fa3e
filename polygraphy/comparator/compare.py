"""Comparison functions and what they answer, under the name by which pickles know the answers."""

from polygraphy.comparator import *  # noqa: F403
from polygraphy.domain.arithmetic.difference import Element, Mismatches  # noqa: F401
from polygraphy.domain.compare import *  # noqa: F403
from polygraphy.domain.compare.indices import Misplaced  # noqa: F401
from polygraphy.domain.rounding import Rounding  # noqa: F401
