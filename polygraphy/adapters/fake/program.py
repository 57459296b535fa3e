"""A program of which a test knows every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

from polygraphy.domain.diagnosis.regions import GraphNode
from polygraphy.domain.errors import InputError


@define
class FakeProgram:
    """Functions that run one after the other; implements the ports `SourceProgram` and
    `OpenedProgram`.

    Attributes:
        inputs: the names of its inputs.
        steps: by tensor the operation that makes it, what that reads, and a function of these.
        outputs: the tensors that it returns.
        weights: see the port.
        unsteady: see the port.
        notes: see the port.
        open_dimensions: see the port.
        others: what `exports` yields.
        branches: what `decided` returns, by tensor.
    """

    inputs: Sequence[str]
    steps: Mapping[str, tuple[str, Sequence[str], Callable[..., Any]]]
    outputs: Sequence[str]
    weights: Mapping[str, Any] = field(factory=dict)
    unsteady: str = ""
    notes: Sequence[str] = ()
    open_dimensions: Mapping[str, Mapping[int, str]] = field(factory=dict)
    others: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], Any]]] = ()
    branches: Mapping[str, str] = field(factory=dict)
    name: str = "program"

    @property
    def nodes(self) -> Sequence[GraphNode]:
        """Its operations."""
        return [
            GraphNode(tensor, op, list(reads), [tensor], origin=f"net.py:{line}")
            for line, (tensor, (op, reads, _)) in enumerate(self.steps.items(), 1)
        ]

    def open(self, feed: Mapping[str, Any]) -> FakeProgram:
        """Return itself, if there are as many data as inputs."""
        if len(feed) != len(self.inputs):
            raise InputError(f"The program takes {len(self.inputs)} inputs, not {len(feed)}.")
        return self

    def run(
        self, feed: Mapping[str, Any], keep: Callable[[str, Any], None] | None = None
    ) -> list[tuple[str, Any]]:
        """Call all functions; inputs are taken in order."""
        held = {**self.weights, **dict(zip(self.inputs, feed.values()))}
        for tensor, (_, reads, compute) in self.steps.items():
            held[tensor] = compute(*(held[name] for name in reads))
            if keep is not None:
                keep(tensor, held[tensor])
        return [(name, held[name]) for name in self.outputs]

    def alone(self, name: str, held: Mapping[str, Any], feed: Mapping[str, Any]) -> Any:
        """Call one function, in float64."""
        given = {**held, **self.weights, **dict(zip(self.inputs, feed.values()))}
        _, reads, compute = self.steps[name]
        wide = [given[one].astype("float64") for one in reads]
        return compute(*wide)

    def decided(self, name: str) -> str:
        """Return what it was given."""
        return self.branches.get(name, "")

    def exports(self) -> Iterator[tuple[str, str, Callable[[Mapping[str, Any]], Any]]]:
        """Yield what it was given."""
        yield from self.others
