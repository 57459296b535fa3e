"""Which implementation a builder chose for each layer, so that a later build can choose the same.

The values are plain: data types and tactics are kept as the builder printed them, so a replay is
read and compared without the backend that recorded it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Union

from attrs import field, frozen

from polygraphy.ports.binding import resolve
from polygraphy.ports.store import ResultStore

__all__ = ["Algorithm", "TacticReplay", "TensorInfo"]

PathOrFile = Union[str, "Path", IO[Any]]


def _as_integers(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


@frozen
class TensorInfo:
    """How a tactic wants one of its tensors laid out in memory; strides in elements."""

    dtype: str = field(converter=str)
    strides: tuple[int, ...] = field(converter=_as_integers)
    vectorized_dim: int | None = None
    components_per_element: int | None = None

    def __str__(self) -> str:
        return (
            f"TensorInfo({self.dtype}, {self.strides}, {self.vectorized_dim}, "
            f"{self.components_per_element})"
        )


def _as_tuple(infos: Iterable[TensorInfo]) -> tuple[TensorInfo, ...]:
    return tuple(infos)


@frozen
class Algorithm:
    """One implementation of a layer: two identifiers of the builder, and the layout of inputs and
    outputs.
    """

    implementation: int
    tactic: int
    inputs: tuple[TensorInfo, ...] = field(converter=_as_tuple)
    outputs: tuple[TensorInfo, ...] = field(converter=_as_tuple)

    def __str__(self) -> str:
        def listed(infos: Sequence[TensorInfo]) -> str:
            return "(" + ", ".join(map(str, infos)) + ("," if len(infos) == 1 else "") + ")"

        return (
            f"(Implementation: {self.implementation}, Tactic: {self.tactic})"
            f" | Inputs: {listed(self.inputs)} | Outputs: {listed(self.outputs)}"
        )


class TacticReplay(dict[str, Algorithm]):
    """Maps layers to the tactic that was chosen for each."""

    def add(self, name: str, algorithm: Algorithm) -> TacticReplay:
        """Add or replace the choice for one layer and return this object, so that calls can be
        chained.
        """
        self[name] = algorithm
        return self

    def difference(
        self, other: TacticReplay
    ) -> dict[str, tuple[Algorithm | None, Algorithm | None]]:
        """Return the layers whose choice differs, with this replay's choice and the other's (None:
        not there).
        """
        names = [*self, *(name for name in other if name not in self)]
        return {
            name: (self.get(name), other.get(name))
            for name in names
            if self.get(name) != other.get(name)
        }

    def save(self, dest: PathOrFile) -> None:
        """Write the replay as JSON."""
        resolve(ResultStore).save(self, dest)

    @classmethod
    def load(cls, source: PathOrFile) -> TacticReplay:
        """Read a replay; FileError when the file holds something else."""
        return resolve(ResultStore).load(source, TacticReplay)

    def __str__(self) -> str:
        return "\n".join(
            f"Layer: {name}\n    Algorithm: {algorithm}" for name, algorithm in self.items()
        )
