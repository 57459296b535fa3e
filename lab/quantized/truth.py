"""Which sets of nodes are enough, by trying all of them, and what other rules of search find."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
import onnx

from polygraphy.adapters.onnx.edit.quantized_model import open_quantized
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.domain.quantization.metrics import Outputs, RmsRatio
from polygraphy.domain.quantization.rules import rules_of

from .hosts import Host


def outputs(model: onnx.ModelProto, samples: Sequence[Any]) -> Outputs:
    """Return the outputs of a model in ONNX Runtime for each sample."""
    compute = OnnxrtParty().load(model)
    return Outputs([compute(sample) for sample in samples])


class Found(NamedTuple):
    """What a rule of search comes to: how many nodes, with how many sets, in how long."""

    nodes: tuple[str, ...] | None
    sets: int
    seconds: float


class Switches:
    """The model with a switch at each site, and what is quantized without some nodes."""

    def __init__(self, host: Host, model: onnx.ModelProto) -> None:
        """Open a model whose quantized tensors can be switched one by one."""
        self.host, self.opened = host, open_quantized(model, [host.model])
        self.rules = rules_of(self.opened.nodes, self.opened.sites, self.opened.producer)
        self.expected = outputs(host.model, host.samples)
        self.backend: dict[tuple[int, ...], float] = {}
        self.metric = RmsRatio()
        self.party = OnnxrtParty()
        proto = self.opened.add_switches(
            requantizes=bool(self.opened.requantizable_weights), is_lazy=True
        )
        self.name = proto.graph.input[-1].name
        self.compute = self.party.load(proto)
        self.known: dict[frozenset[int], float] = {}
        self.sets = 0

    def sites(self, on: Collection[int]) -> float:
        """Return the error of the outputs with these quantized tensors alone."""
        key = frozenset(on)
        if key not in self.known:
            flags = np.zeros(len(self.opened.sites), bool)
            flags[list(on)] = True
            self.sets += 1
            values = [self.compute({**feed, self.name: flags}) for feed in self.host.samples]
            self.known[key] = self.metric(Outputs(values), self.expected)
        return self.known[key]

    def right(self, nodes: Collection[str]) -> float:
        """Return the error of the backend's own model with these nodes in float."""
        off = tuple(self.rules.float_sites(nodes))
        if off not in self.backend:
            values = outputs(self.opened.float_at_sites(off), self.host.samples)
            self.backend[off] = self.metric(values, self.expected)
        return self.backend[off]

    def without(self, nodes: Collection[str]) -> float:
        """Return the error of the outputs with these nodes in float."""
        return self.sites(self.rules.quantized_sites(nodes))

    @property
    def candidates(self) -> list[str]:
        """Return the nodes that a search may restore to float."""
        return list(self.rules.candidates)


def fewest(
    switches: Switches, target: float, most: int = 700
) -> tuple[int | None, list[tuple[str, ...]]]:
    """Return the size of the smallest sufficient sets, and these sets; None if unknown."""
    names, tried = switches.candidates, 0
    for size in range(len(names) + 1):
        tried += comb(len(names), size)
        if tried > most:
            return None, []
        good = [
            combination
            for combination in combinations(names, size)
            if switches.right(combination) <= target
        ]
        if good:
            return size, good
    return None, []


def _time_search(search: Callable[[Switches, float], tuple[str, ...] | None]) -> Any:
    """Return a search that also counts its runs and seconds."""

    def run(switches: Switches, target: float) -> Found:
        """Return the nodes found, the number of runs, and the seconds."""
        switches.known, switches.sets = {}, 0
        start = time.perf_counter()
        nodes = search(switches, target)
        return Found(nodes, switches.sets, time.perf_counter() - start)

    return run


def _prefix(switches: Switches, target: float, order: Sequence[str]) -> tuple[str, ...] | None:
    """Return the shortest start of an order that reaches the target, or None."""
    for size in range(len(order) + 1):
        if switches.without(order[:size]) <= target and switches.right(order[:size]) <= target:
            return tuple(order[:size])
    return None


@_time_search
def debugger(switches: Switches, target: float) -> tuple[str, ...] | None:
    """Return the nodes found by ranking tensor errors, as ONNX Runtime's debugger does.

    Each error includes everything that is quantized before the node.
    """
    compute = OnnxrtParty().load(switches.opened.with_activations())
    every = switches.opened.float_at_sites(())
    tensor_names = {name for node in every.graph.node for name in node.output}
    there = {value.name for value in every.graph.output}
    names = {
        switches.opened.source(site) for site in switches.opened.sites if site.kind == "activation"
    }
    every.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names & tensor_names - there
    )
    quantized = OnnxrtParty().load(every)
    errors: dict[str, float] = {}
    for feed in switches.host.samples:
        expected, values = compute(feed), quantized(feed)
        for name in expected.keys() & values.keys():
            size = float(np.sqrt(np.mean(np.square(expected[name])))) or 1.0
            off = float(np.sqrt(np.mean(np.square(values[name] - expected[name]))))
            errors[name] = max(errors.get(name, 0), off / size)
    makers = {name: node.name for node in switches.opened.nodes for name in node.makes}
    scores = {
        node: max(
            (errors.get(name, 0.0) for name, maker in makers.items() if maker == node), default=0.0
        )
        for node in switches.candidates
    }
    return _prefix(switches, target, sorted(switches.candidates, key=lambda node: -scores[node]))


@_time_search
def leave_one_out(switches: Switches, target: float) -> tuple[str, ...] | None:
    """Return the nodes found by ranking the error that remains without each."""
    values = {node: switches.without([node]) for node in switches.candidates}
    return _prefix(switches, target, sorted(values, key=lambda node: values[node]))


@_time_search
def one_at_a_time(switches: Switches, target: float) -> tuple[str, ...] | None:
    """Return the nodes found by ranking the error of each quantized alone."""
    names = switches.candidates
    values = {node: switches.without([name for name in names if name != node]) for node in names}
    return _prefix(switches, target, sorted(values, key=lambda node: -values[node]))


@_time_search
def greedy(switches: Switches, target: float) -> tuple[str, ...] | None:
    """Return the nodes found by always adding the one that helps most."""
    names: list[str] = []
    while switches.without(names) > target or switches.right(names) > target:
        remaining = [node for node in switches.candidates if node not in names]
        if not remaining:
            return None
        names.append(min(remaining, key=lambda node: switches.without([*names, node])))
    return tuple(names)


RIVALS: dict[str, Callable[[Switches, float], Found]] = {
    "debugger ranking": debugger,
    "remove one": leave_one_out,
    "one at a time": one_at_a_time,
    "greedy": greedy,
}
