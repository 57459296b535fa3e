"""Finding out what a model tells about itself without being run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.facts import Facts

__all__ = ["FactFinder"]


class FactFinder(Protocol):
    """Looks into models."""

    def find(self, model: Any) -> Facts:
        """Return what is known of a model: an ``onnx.ModelProto``, its bytes, or its path.

        Facts are an extra: of a model that cannot be read, or is too large to be read on the side,
        nothing is known.
        """

    def node_inputs(
        self, model: Any, op: str, name: str, shapes: Mapping[str, Sequence[int]]
    ) -> str:
        """Return what a node is given, for the message of a backend that fails at it: its opset,
        and its inputs with data types and shapes; empty where that is not known.

        Args:
            model: an ``onnx.ModelProto``, its bytes, or its path.
            op: the operator of the node.
            name: its name; may be empty.
            shapes: those of the data, by input of the model.
        """

    def ranked_inputs(self, model: Any) -> Collection[str]:
        """Return the inputs of a model whose rank it tells: an ``onnx.ModelProto``, its bytes, or
        its path; none of one that cannot be read.
        """

    def left_out(self, model: str | bytes) -> str:
        """Return which node of a model, given by its path or its bytes, leaves out a numbered
        result; empty where none does, or the model cannot be read.
        """
