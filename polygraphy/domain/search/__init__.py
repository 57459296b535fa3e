"""Searches for what is to blame, as pure functions over a test with three answers.

A test answers `Outcome.GOOD`, `Outcome.BAD`, or `Outcome.UNRESOLVED` where it cannot say. No search
asks the same question twice.
"""

from polygraphy.domain.search.graph import BadPart, first_bad_part, first_bad_part_in_order
from polygraphy.domain.search.numbers import first_good, first_good_in_order
from polygraphy.domain.search.subsets import Outcome, ddmin, next_questions, smallest_good_set

__all__ = [
    "BadPart",
    "Outcome",
    "ddmin",
    "first_bad_part",
    "first_bad_part_in_order",
    "first_good",
    "first_good_in_order",
    "next_questions",
    "smallest_good_set",
]
