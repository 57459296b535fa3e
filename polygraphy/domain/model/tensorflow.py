"""What a TensorFlow graph consists of."""

from __future__ import annotations

from attrs import frozen

from polygraphy.domain.model.description import Graph


@frozen
class TensorFlowGraph:
    """A TensorFlow graph, its variables turned into constants.

    Attributes:
        path: the file or folder.
        kind: its type: ``frozen``, ``keras``, ``saved-model`` or ``ckpt``.
        graph: operations as nodes, constants as weights; tensors are called ``operation:number``.
    """

    path: str
    kind: str
    graph: Graph
