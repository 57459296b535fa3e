"""The implementations that a builder chose for layers, and those that may cause failures.

The values are plain: data types and tactics are kept as the builder printed them, so a replay is
read and compared without the backend that recorded it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import field, frozen

from polygraphy.domain.tensors.pickling import PublishedDict, Storable


def _as_integers(values: Iterable[int]) -> tuple[int, ...]:
    """Return values as a tuple."""
    return tuple(values)


@frozen
class TensorInfo:
    """The memory layout of a tensor in a tactic; strides in elements."""

    dtype: str = field(converter=str)
    strides: tuple[int, ...] = field(converter=_as_integers)
    vectorized_dim: int | None = None
    components_per_element: int | None = None

    @classmethod
    def from_trt(cls, io_info: Any) -> TensorInfo:
        """Return the layout of a tensor reported by a builder.

        Args:
            io_info: an ``IAlgorithmIOInfo``, or anything with a `dtype` and `strides`; the two
                other facts are None if a version does not report them.
        """
        return cls(
            io_info.dtype,
            io_info.strides,
            getattr(io_info, "vectorized_dim", None),
            getattr(io_info, "components_per_element", None),
        )

    def __str__(self) -> str:
        """Return the layout in one line."""
        return (
            f"TensorInfo({self.dtype}, {self.strides}, {self.vectorized_dim}, "
            f"{self.components_per_element})"
        )


def _as_tuple(infos: Iterable[TensorInfo]) -> tuple[TensorInfo, ...]:
    """Return tensor infos as a tuple."""
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

    @classmethod
    def from_trt(cls, context: Any, algorithm: Any) -> Algorithm:
        """Return a choice reported by a builder.

        Args:
            context: an ``IAlgorithmContext``, with the number of inputs and outputs of the layer.
            algorithm: an ``IAlgorithm``, whose tensors are numbered inputs first.
        """
        variant, inputs = algorithm.algorithm_variant, context.num_inputs
        tensors = [
            TensorInfo.from_trt(algorithm.get_algorithm_io_info(index))
            for index in range(inputs + context.num_outputs)
        ]
        return cls(variant.implementation, variant.tactic, tensors[:inputs], tensors[inputs:])

    def __str__(self) -> str:
        """Return the tactic in one line."""

        def list_infos(infos: Sequence[TensorInfo]) -> str:
            """Return tensor infos as the text of a tuple."""
            return "(" + ", ".join(map(str, infos)) + ("," if len(infos) == 1 else "") + ")"

        return (
            f"(Implementation: {self.implementation}, Tactic: {self.tactic})"
            f" | Inputs: {list_infos(self.inputs)} | Outputs: {list_infos(self.outputs)}"
        )


class TacticReplay(PublishedDict[Algorithm], Storable):
    """Maps each layer to its chosen tactic."""

    def add(self, name: str, algorithm: Algorithm) -> TacticReplay:
        """Add or replace the choice for one layer and return this object,
        so that calls can be chained.
        """
        self[name] = algorithm
        return self

    def difference(
        self, tactic_replay: TacticReplay
    ) -> dict[str, tuple[Algorithm | None, Algorithm | None]]:
        """Return the layers with different choices: this replay's and the other's, or None.
        The result is None for a missing one."""
        names = [*self, *(name for name in tactic_replay if name not in self)]
        return {
            name: (self.get(name), tactic_replay.get(name))
            for name in names
            if self.get(name) != tactic_replay.get(name)
        }

    def __str__(self) -> str:
        """Return a line for each layer."""
        return "\n".join(
            f"Layer: {name}\n    Algorithm: {algorithm}" for name, algorithm in self.items()
        )


def suspicious_tactics(
    good: Iterable[TacticReplay], bad: Iterable[TacticReplay]
) -> dict[str, tuple[Algorithm, ...]]:
    """Return, by layer, the tactics that failed builds chose and no passing build did.

    Layers and tactics are in the order of the replays of failed builds; each tactic is listed once.
    """
    harmless: dict[str, set[Algorithm]] = {}
    for replay in good:
        for name, algorithm in replay.items():
            harmless.setdefault(name, set()).add(algorithm)
    tactics_by_layer: dict[str, dict[Algorithm, None]] = {}
    for replay in bad:
        for name, algorithm in replay.items():
            if algorithm not in harmless.get(name, ()):
                tactics_by_layer.setdefault(name, {})[algorithm] = None
    return {name: tuple(algorithms) for name, algorithms in tactics_by_layer.items()}
