"""Taking models apart to find the part that fails."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy import ndarray

__all__ = ["ModelReducer", "ReducibleModel"]


class ReducibleModel(Protocol):
    """A model as a graph of nodes, which depend on nodes before them.

    Attributes:
        dependencies: the nodes that each node depends on directly.
    """

    dependencies: Sequence[Sequence[int]]

    def name(self, node: int) -> str:
        """Return what a node is called in messages."""

    def part(
        self,
        nodes: Collection[int],
        *,
        ends: Collection[int] | None = None,
        starts: Collection[int] | None = None,
    ) -> Any:
        """Return a model of some of the nodes.

        Args:
            nodes: these are kept, with the constants that they need.
            ends: the nodes whose results become the outputs; what others need unless given.
            starts: the nodes whose operands become inputs, where no node that is kept makes them;
                all nodes unless given. The other operands keep the values that they have when the
                whole model is run.

        Raises:
            ModelError: there is no such model: what would have to be kept is no tensor.
            BackendError: the whole model would have to be run, and cannot be.
        """

    def feed(self, part: Any) -> dict[str, ndarray[Any, Any]]:
        """Return the values that the inputs of a part have when the whole model is run."""


class ModelReducer(Protocol):
    """Takes models of one kind apart."""

    def open(self, model: Any, data_loader: Any = None) -> ReducibleModel:
        """Look into a model.

        Args:
            model: it stays as it is.
            data_loader: where the data come from with which it is run, if it has to be; generated
                unless given.
        """

    def save(self, model: Any, path: str) -> None:
        """Write a model to a file, whole or not at all."""
