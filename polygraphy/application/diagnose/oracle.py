"""What is right by another backend, by a model that is right, or by saved results, and how
what a party makes differs from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.domain.rounding import Deviation

Found = Mapping[str, Deviation]


@frozen
class Oracle:
    """What is right of each set of data, by the names of the model.

    Attributes:
        name: who says so, in words.
        sets: by tensor what it should be, for each set of data; it may be silent about the last.
        left_out: what was asked of it, and is not there, in words.
    """

    name: str
    sets: Sequence[Values]
    left_out: Sequence[str] = ()

    def beside(self, case: Case, values: Sequence[Values]) -> Compared:
        """Compare the outputs that a party makes of the data."""
        return Compared([case.differing(*pair) for pair in zip(values, self.sets)])


@frozen
class Compared:
    """Which tensors differ by more than rounding, for each set of data. True where some do."""

    sets: Sequence[Found] = field(factory=list)

    def __bool__(self) -> bool:
        return any(self.sets)

    @property
    def number(self) -> int:
        """The set of data on which they differ most."""
        return max(range(len(self.sets)), key=lambda number: _size(self.sets[number]), default=0)

    @property
    def found(self) -> Found:
        """What differs on these data."""
        return self.sets[self.number] if self.sets else {}

    @property
    def most(self) -> float:
        """How far off these data are, relative to the size of a tensor."""
        return _size(self.found)

    @property
    def names(self) -> set[str]:
        """What differs on any data."""
        return {name for found in self.sets for name in found}

    def worse(self, other: Compared) -> Compared:
        """Return of two comparisons on the same data what differs more, set by set."""
        pairs = zip(self.sets, other.sets)
        return Compared([max(pair, key=_size) for pair in pairs])


def _size(found: Found) -> float:
    return max((each.relative for each in found.values()), default=-1.0)
