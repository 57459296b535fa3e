"""How a program loads and runs a TensorFlow graph, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen


@frozen
class TfGraph:
    """How the graph comes to be, and how it is run; None and empty values leave defaults alone.

    Attributes:
        kind: ``frozen``, ``keras``, ``saved-model`` or ``ckpt``.
        checkpoint: name of the checkpoint in its folder.
        optimize: whether the graph is frozen and optimised.
        tensorrt: arguments of `UseTfTrt`; None where TensorRT takes no part.
        mark_all: whether every tensor becomes an output, whatever `outputs` says.
        outputs: names of tensors that become outputs.
        save: where the frozen graph is saved.
        tensorboard_dir: where it is saved for TensorBoard.
        session: arguments of the configuration of a session.
        timeline_dir: where traces are saved.
    """

    kind: str = "frozen"
    checkpoint: str | None = None
    optimize: bool = False
    tensorrt: Mapping[str, Any] | None = None
    mark_all: bool = False
    outputs: Sequence[str] = ()
    save: str | None = None
    tensorboard_dir: str | None = None
    session: Mapping[str, Any] = Factory(dict)
    timeline_dir: str | None = None

    @property
    def changes_outputs(self) -> bool:
        """Whether the graph gets other outputs."""
        return self.mark_all or bool(self.outputs)
