"""Which tensors a quantizer leaves in floating point if it leaves out some nodes.

A quantizer works on tensors: as long as one node asks for a tensor in integers, all nodes read it
so. What each operator asks for is a table by quantizer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from attrs import frozen

from polygraphy.domain.quantization.sites import RAW, FloatNode, Site

Asks = Literal["all", "inputs", "follows", "output", "nothing"]

_FOLLOWS = frozenset(
    {
        "AveragePool", "Clip", "Flatten", "Gather", "GatherElements", "MaxPool", "Relu", "Reshape",
        "Resize", "Slice", "Squeeze", "TopK", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose output ONNX Runtime quantizes only if their input is."""


@frozen
class Rules:
    """What nodes ask for.

    Attributes:
        nodes: the nodes, in order.
        sites: what is quantized.
        asks: by the name of a node what it asks for: ``all`` its inputs and outputs, its
            ``inputs``, its output if it ``follows`` an input that is quantized, or ``nothing``.
    """

    nodes: Sequence[FloatNode]
    sites: Sequence[Site]
    asks: dict[str, Asks]

    def quantized(self, without: Collection[str]) -> set[int]:
        """Return the sites that remain if nodes are left out."""
        marked: set[str] = set()
        for node in self.nodes:
            asked = self.asks.get(node.name, "nothing")
            if node.name in without or asked == "nothing":
                continue
            if asked == "follows":
                if node.reads and node.reads[0] in marked:
                    marked.update((node.reads[0], *node.makes))
                continue
            if asked == "output":
                marked.update(node.makes)
                continue
            marked.update(node.reads)
            if asked == "all":
                marked.update(node.makes)
        return {
            number
            for number, site in enumerate(self.sites)
            if site.name in marked or site.name + RAW in marked
        }

    def askers(self, site: int) -> list[str]:
        """Return the nodes because of which a site is quantized."""
        names = {self.sites[site].name, self.sites[site].name + RAW}
        return [
            node.name
            for node in self.nodes
            if self.asks.get(node.name, "nothing") != "nothing"
            and not (
                names.isdisjoint(node.reads)
                and (names.isdisjoint(node.makes) or self.asks[node.name] == "inputs")
            )
        ]

    @property
    def candidates(self) -> list[str]:
        """The nodes that can be left out with an effect."""
        names = {name for site in self.sites for name in (site.name, site.name + RAW)}
        return [
            node.name
            for node in self.nodes
            if self.asks.get(node.name, "nothing") != "nothing"
            and not names.isdisjoint((*node.reads, *node.makes))
        ]


def rules_of(nodes: Sequence[FloatNode], sites: Sequence[Site]) -> Rules:
    """Return what nodes ask for, as the quantized model shows it: a node asks for its inputs if all
    of them are quantized, and for its outputs if those of all such nodes of its operator are.
    """
    names = {name for site in sites for name in (site.name, site.name + RAW)}
    operators = {site.name for site in sites if site.kind == "operator"}
    made = {name for node in nodes for name in node.makes}
    activations = {site.name for site in sites if site.kind == "activation"}
    read = {name for node in nodes for name in node.reads}
    constant = {site.name for site in sites if site.kind in ("weight", "bias")}
    asks: dict[str, Asks] = {}
    complete: dict[str, list[bool]] = {}
    for node in nodes:
        inputs = [name for name in node.reads if name in activations or name in made]
        reads_quantized = any(name in names for name in node.reads)
        is_asking = reads_quantized and all(name in names for name in inputs)
        if is_asking:
            complete.setdefault(node.op, []).append(
                all(name in names for name in node.makes if name in read or name in activations)
            )
            asks[node.name] = "inputs"
        elif any(name in constant for name in node.reads):
            asks[node.name] = "inputs"
        if not operators.isdisjoint(node.makes):
            asks[node.name] = "output"
    for node in nodes:
        if asks.get(node.name) != "inputs":
            continue
        if all(complete.get(node.op, [False])):
            asks[node.name] = "follows" if node.op in _FOLLOWS else "all"
        elif node.op in _FOLLOWS:
            asks[node.name] = "follows" if names.issuperset(node.makes) else "nothing"
    return Rules(nodes, sites, asks)
