"""Which output of one run is compared with which output of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

__all__ = ["FindOutput", "OutputPair", "find_by_name", "pair_outputs"]

FindOutput = Callable[[str, int, "dict[str, object]"], str | Sequence[str] | None]


@frozen
class OutputPair:
    """One output of the first run and its partner in the second; None where there is no partner."""

    name0: str | None
    name1: str | None

    @property
    def is_complete(self) -> bool:
        """Whether both sides exist."""
        return self.name0 is not None and self.name1 is not None

    @property
    def is_exact(self) -> bool:
        """Whether both sides have the same name."""
        return self.name0 == self.name1


def find_by_name(name: str, names: Sequence[str], index: int | None = None) -> str | None:
    """Find `name` among `names`: the same name, else the only name that contains it or that it
    contains, ignoring case, else the name at position `index`.
    """
    if name in names:
        return name
    lowered = name.lower()
    alike = [other for other in names if lowered in other.lower() or other.lower() in lowered]
    if len(alike) == 1:
        return alike[0]
    if index is not None and 0 <= index < len(names):
        return names[index]
    return None


def pair_outputs(names0: Iterable[str], names1: Iterable[str]) -> list[OutputPair]:
    """Pair the outputs of two runs: by exact name, then by the unique part of a name, then by
    position.

    No output is used twice. Outputs that find no partner come last, with None on the other side.
    """
    first, second = list(names0), list(names1)
    partner = {name: name for name in first if name in second}
    for match_position in (False, True):
        free = [name for name in second if name not in partner.values()]
        for index, name in enumerate(first):
            if name in partner or not free:
                continue
            at_position = second[index] if index < len(second) else None
            found = (
                (at_position if at_position in free else None)
                if match_position
                else find_by_name(name, free)
            )
            if found is not None:
                partner[name] = found
                free.remove(found)
    pairs = [OutputPair(name, partner.get(name)) for name in first if name in partner]
    pairs += [OutputPair(name, None) for name in first if name not in partner]
    pairs += [OutputPair(None, name) for name in second if name not in partner.values()]
    return pairs
