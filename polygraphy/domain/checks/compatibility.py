"""Whether a backend can run a model."""

from __future__ import annotations

from attrs import frozen


@frozen
class UnsupportedNode:
    """A node that a backend cannot run: its name, its operator, and why."""

    name: str
    op: str
    reason: str


@frozen
class Compatibility:
    """What came of trying a model in a backend.

    Attributes:
        backend: name of the backend.
        reason: why it cannot run the model; None where it can.
        unsupported: the nodes that it cannot run by themselves, as far as that is known.
    """

    backend: str
    reason: str | None
    unsupported: tuple[UnsupportedNode, ...] = ()

    @property
    def is_compatible(self) -> bool:
        """Whether the backend can run the model."""
        return self.reason is None
