"""Fakes of ports of a diagnosis: a model in half precision with known losses, and a program with
known operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import define, field

from polygraphy.domain.diagnosis.headroom import NodeLoss, Range, node_loss
from polygraphy.domain.errors import InputError
from polygraphy.domain.model.graph import Node, Origin
from polygraphy.domain.rounding import GROWTH, move_by_epsilons
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.facts import Facts, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.precision import with_digits
from polygraphy.ports.diagnosing import Compute, Decision, Exporter


class FakeNarrowModel:
    """A chain of nodes that pass ``x`` on, which becomes ``y``; implements the port `NarrowModel`.

    Some of them lose everything in the narrower type. Each reads ``x`` or the result of the node
    before it, and computes ``NAME_out``; the last one computes ``y``.
    """

    def __init__(self, nodes: Sequence[str], losing: Collection[str], dtype: DataTypeEntry) -> None:
        """Create a model of named nodes, some of which lose everything in the narrower type."""
        self.inputs = TensorMetadata().add("x", np.float32, [None])
        self.passes = list(nodes)
        self.users = {name: [other_name] for name, other_name in pairwise(nodes)}
        self.kept: list[frozenset[str]] = []
        self._losing = frozenset(losing)
        self._range = Range.of(dtype)

    def facts(self) -> Facts:
        """Return empty facts."""
        return ModelFacts()

    def load(self, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return a function that returns its input, or infinities if a node that loses everything
        runs in the narrower type.
        """
        self.kept.append(frozenset(self.passes if plain else without))
        holds = plain or self._losing <= set(without)

        def compute(feed: Mapping[str, Any]) -> dict[str, Any]:
            """Return the input as the output, or infinity if half precision is too narrow."""
            value = np.array(feed["x"], np.float32)
            return {"y": value if holds else np.full_like(value, np.inf)}

        return compute

    def run_rounded(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the input."""
        return {"y": np.array(feed["x"], np.float32)}

    def measure(self, feed: Mapping[str, Any]) -> tuple[dict[str, Any], list[NodeLoss]]:
        """Return the input, and the loss of each node: everything or nothing."""
        value = np.array(feed["x"], np.float32)
        losses = []
        read = "x"
        for name in self.passes:
            text = "y" if name == self.passes[-1] else f"{name}_out"
            narrow = np.full_like(value, np.inf) if name in self._losing else value
            pairs = {read: (value, value)}, {text: (value, narrow)}
            losses.append(node_loss(name, "Identity", *pairs, {}, self._range))
            read = text
        return {"y": value}, losses


class FakeNarrowModels:
    """Opens a fake model for any argument; implements the port `NarrowModels`."""

    def __init__(
        self, nodes: Sequence[str], losing: Collection[str] = (), dtype: DataTypeEntry | None = None
    ) -> None:
        """Set the nodes, those that lose everything, and the narrow type that the model already
        uses, if any.
        """
        self._nodes, self._losing, self._dtype = list(nodes), frozenset(losing), dtype
        self.opened: list[FakeNarrowModel] = []

    def open(
        self, model: Any, dtype: DataTypeEntry, only: Collection[str] | None = None
    ) -> FakeNarrowModel:
        """Return the model; nodes outside `only` stay in float32."""
        chosen = [name for name in self._nodes if only is None or name in only]
        narrow_model = FakeNarrowModel(chosen, self._losing & set(chosen), dtype)
        self.opened.append(narrow_model)
        return narrow_model

    def narrow_nodes(self, model: Any) -> tuple[DataTypeEntry, list[str]] | None:
        """Return the narrow type that the model already uses, and its nodes; None without one."""
        return None if self._dtype is None else (self._dtype, list(self._nodes))

    def rounding_emulator(self, model: Any) -> Compute | None:
        """Return a function that returns its input, or infinities if a node loses everything.
        The result is None if no node is narrow.
        """
        if self._dtype is None:
            return None
        return FakeNarrowModel(self._nodes, self._losing, self._dtype).load()

    def tf32_emulator(self, model: Any, *, drops: bool = False) -> Compute:
        """Return a function that returns its input with the digits of TF32."""
        return lambda feed: {"y": with_digits(np.float32(feed["x"]), 2.0**-10, drops=drops)}

    def perturbed_function(
        self, model: Any, dtype: str = "float32"
    ) -> Callable[[Mapping[str, Any]], list[dict[str, Any]]]:
        """Return a function that returns its input twice, perturbed."""
        return lambda feed: [
            {"y": move_by_epsilons(np.float32(feed["x"]), seed, GROWTH)} for seed in (1, 2)
        ]

    def widen_model(
        self,
        model: Any,
        like: Any = None,
        *,
        drops_casts: bool = False,
        keeps_range: bool = True,
    ) -> Any:
        """Return the model itself: it has no weights."""
        return model


@define
class FakeProgram:
    """A sequence of functions; implements the ports `SourceProgram` and `OpenedProgram`.

    Attributes:
        inputs: the names of its inputs.
        steps: by tensor, the operation that computes it, its operands, and its function.
        outputs: the tensors that it returns.
        weights: see the port.
        unsteady: see the port.
        notes: see the port.
        open_dimensions: see the port.
        others: the programs that `exports` yields.
        branches: the return values of `condition_of`, by tensor.
        again: the return value of `export_again` for the data; without it, `export_again` raises
            ValueError.
        decided: the return value of `decisions` for the data.
        otherwise: the return values of `export_again` by outcome, if a statement decides
            differently.
        release: the version of its exporter.
        host: the return value of `on_host`: the program on the CPU.
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
    again: Callable[[Mapping[str, Any]], Any] | None = None
    decided: Callable[[Mapping[str, Any]], Sequence[Decision]] = field(default=lambda feed: [])
    otherwise: Mapping[int, Any] = field(factory=dict)
    release: str = ""
    host: FakeProgram | None = None
    name: str = "program"

    def on_host(self) -> FakeProgram | None:
        """Return the configured program on the CPU; None if none was configured."""
        return self.host

    @property
    def nodes(self) -> Sequence[Node]:
        """Return the operations of the program."""
        return [
            Node(tensor, op, "", tuple(reads), (tensor,), origin=Origin("net.py", line))
            for line, (tensor, (op, reads, _)) in enumerate(self.steps.items(), 1)
        ]

    def lost_inputs(self, feed: Mapping[str, Any]) -> list[str]:
        """Return the inputs without data of that name; none if there are as many data as inputs."""
        lost_names = [name for name in self.inputs if name not in feed]
        return lost_names if len(self.inputs) > len(feed) else []

    def open(self, feed: Mapping[str, Any]) -> FakeProgram:
        """Return this program; raise InputError unless there are as many data as inputs."""
        if len(feed) != len(self.inputs):
            raise InputError(f"The program accepts {len(self.inputs)} inputs, not {len(feed)}.")
        return self

    def run(
        self, feed: Mapping[str, Any], keep: Callable[[str, Any], None] | None = None
    ) -> list[tuple[str, Any]]:
        """Return the name and result of each function; inputs are used in order."""
        values = {**self.weights, **dict(zip(self.inputs, feed.values()))}
        for tensor, (_, reads, compute) in self.steps.items():
            values[tensor] = compute(*(values[name] for name in reads))
            if keep is not None:
                keep(tensor, values[tensor])
        return [(name, values[name]) for name in self.outputs]

    def run_operation(self, name: str, values: Mapping[str, Any], feed: Mapping[str, Any]) -> Any:
        """Return the result of one function, in float64."""
        given_values = {**values, **self.weights, **dict(zip(self.inputs, feed.values()))}
        _, reads, compute = self.steps[name]
        wide = [given_values[name].astype("float64") for name in reads]
        return compute(*wide)

    def condition_of(self, name: str) -> str:
        """Return the configured condition."""
        return self.branches.get(name, "")

    def line_of_number(self, name: str) -> str:
        """Return an empty text: the operations read no numbers of Python."""
        return ""

    def decisions(self, feed: Mapping[str, Any]) -> Sequence[Decision]:
        """Return the configured decisions."""
        return self.decided(feed)

    def exports(self) -> Iterator[tuple[str, str, Callable[[Mapping[str, Any]], Any]]]:
        """Yield the configured exports."""
        yield from self.others

    def export_again(self, feed: Mapping[str, Any], exporter: Exporter) -> tuple[Any, str]:
        """Return the configured export and the name of its exporter."""
        if exporter.decides is not None:
            return self.otherwise[exporter.decides[1]], ""
        if self.again is None:
            raise ValueError("This program cannot be exported.")
        return self.again(feed), ""
