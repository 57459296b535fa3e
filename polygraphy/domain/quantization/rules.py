"""The tensors that a quantizer keeps in floating point if it excludes some nodes.

A quantizer works on tensors: as long as one node asks for a tensor in integers, all nodes read it
so. What each operator asks for is a table by quantizer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Literal

from attrs import evolve, field, frozen

from polygraphy.domain.quantization.site_requests import SiteRequests, numbers_of
from polygraphy.domain.quantization.sites import CORRECTED, RAW, FloatNode, Site

Asks = Literal["all", "inputs", "follows", "output", "nothing"]

FOLLOWS = frozenset(
    {
        "AveragePool", "Clip", "Flatten", "Gather", "GatherElements", "MaxPool", "Relu", "Reshape",
        "Resize", "Slice", "Squeeze", "TopK", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose output ONNX Runtime quantizes only if their input is."""
_REMOVABLE = frozenset({"Clip", "Relu"})
"""Operators that only follow their input, whatever the options are."""
_MOVES = frozenset({"Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators behind which some quantizers put what the next node asks for in front of them."""
_MOVES_OF_NNCF = _MOVES | {"MaxPool"}
"""The same for NNCF, which also puts it in front of operators that choose elements."""
_STATIC = FOLLOWS | {
    "Add", "ArgMax", "BatchNormalization", "Concat", "Conv", "ConvTranspose", "CumSum",
    "EmbedLayerNormalization", "Gemm", "GlobalAveragePool", "InstanceNormalization",
    "LayerNormalization", "LeakyRelu", "MatMul", "Mul", "Pad", "Sigmoid", "Softmax", "Split",
    "Where",
}  # fmt: skip
"""Operators that ONNX Runtime quantizes statically, if it is not given a list."""
_LIKE_STATIC = ("static", "neural-compressor")
"""ONNX Runtime's static quantizer, and one that quantizes the same operators."""


@frozen(slots=False)
class Rules:
    """The sites that each node requires to be quantized.

    Attributes:
        nodes: the nodes, in order.
        sites: the quantized sites.
        asks: by node, which tensors it requires to be quantized: ``all`` its inputs and outputs,
            its ``inputs``, its output if it ``follows`` a quantized input, or ``nothing``.
        biases: by node, the corrected bias that another node adds after it.
        fixed: the sites that no known node requires.
    """

    nodes: Sequence[FloatNode]
    sites: Sequence[Site]
    asks: dict[str, Asks]
    biases: dict[str, str] = field(factory=dict)
    fixed: frozenset[int] = frozenset()

    def quantized_sites(self, without: Collection[str]) -> set[int]:
        """Return the sites that remain quantized if nodes are excluded."""
        return {*numbers_of(self.site_requests.remaining(self.site_requests.nodes(without)))}

    @cached_property
    def site_requests(self) -> SiteRequests:
        """Return the sites that nodes require, as bits."""
        return SiteRequests(self.nodes, self.sites, self.asks, self.biases, self.fixed)

    def float_sites(self, without: Collection[str]) -> list[int]:
        """Return the sites that are in floating point if nodes are excluded."""
        on = self.quantized_sites(without)
        return [number for number in range(len(self.sites)) if number not in on]

    def nodes_that_require(self, site: int) -> list[str]:
        """Return the nodes that require a site to be quantized."""
        name = self.sites[site].name
        numbers = {
            *self._positions_by_tensor.get(name, ()),
            *self._positions_by_tensor.get(name + RAW, ()),
        }
        return [self.nodes[number].name for number in sorted(numbers)]

    @cached_property
    def _positions_by_tensor(self) -> dict[str, list[int]]:
        """The positions of the nodes that may require a tensor to be quantized, by its name."""
        asking: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            for name in self._tensors_to_quantize(node):
                asking.setdefault(name, []).append(number)
        return asking

    def _tensors_to_quantize(self, node: FloatNode) -> tuple[str, ...]:
        """Return the tensors that a node may require to be quantized."""
        ask = self.asks.get(node.name, "nothing")
        if ask == "nothing":
            return ()
        reads = () if ask == "output" else (*node.reads, self.biases.get(node.name, ""))
        return reads if ask == "inputs" else (*reads, *node.makes)

    @property
    def candidates(self) -> list[str]:
        """Return the nodes whose exclusion has an effect.
        A Relu or Clip that the quantizer removed has none: without it, its input is quantized
        instead."""
        names = {name for site in self.sites for name in (site.name, site.name + RAW)}
        return [
            node.name
            for node in self.nodes
            if not names.isdisjoint(self._tensors_to_quantize(node))
            and not any(name.endswith(RAW) for name in node.reads)
        ]


def rules_of(nodes: Sequence[FloatNode], sites: Sequence[Site], producer: str = "") -> Rules:
    """Return the quantizer's rules, inferred from the quantized model: a node requires its inputs
    if all of them are quantized, and its outputs if this holds for all such nodes of its operator.

    Args:
        nodes: the nodes that compute.
        sites: the quantized sites.
        producer: the quantizer that made the model; empty if unknown.
    """
    if producer not in (*_LIKE_STATIC, "olive") or any(site.kind == "operator" for site in sites):
        return _inferred_rules(nodes, sites, producer)
    rules = _inferred_rules(nodes, sites, "static")
    if producer in _LIKE_STATIC and not rules.fixed:
        return rules
    forced = _forced_rules(nodes, sites)
    follows = {name for node in nodes if node.op in FOLLOWS for name in node.makes}
    is_better = any(sites[number].name not in follows for number in rules.fixed - forced.fixed)
    return forced if is_better or (producer == "olive" and not forced.fixed) else rules


def _forced_rules(nodes: Sequence[FloatNode], sites: Sequence[Site]) -> Rules:
    """Return the rules of ONNX Runtime's `get_qdq_config`, which Olive calls:
    each node requires all its tensors, including nodes that only move elements."""
    names = {name for site in sites for name in (site.name, site.name + RAW)}
    asks: dict[str, Asks] = {}
    for node in nodes:
        if not names.isdisjoint((*node.reads, *node.makes)):
            asks[node.name] = "follows" if node.op in _REMOVABLE else "all"
    rules = Rules(nodes, sites, asks)
    return evolve(rules, fixed=frozenset(range(len(sites))) - rules.quantized_sites(()))


def _inferred_rules(nodes: Sequence[FloatNode], sites: Sequence[Site], producer: str) -> Rules:
    """Return the rules inferred from a quantized model."""
    operators = {site.name for site in sites if site.kind == "operator"}
    tensors = [site.name for site in sites if site.kind != "operator"]
    names = {name for site in tensors for name in (site, site + RAW)}
    if producer == "modelopt":
        return Rules(nodes, sites, _modelopt_requests(nodes, names))
    nodes = _without_moves(nodes, names, _MOVES_OF_NNCF if producer == "nncf" else _MOVES)
    new_names = {name for node in nodes for name in node.makes}
    activations = {site.name for site in sites if site.kind == "activation"}
    read = {name for node in nodes for name in node.reads}
    constant = {site.name for site in sites if site.kind in ("weight", "bias")}
    asks: dict[str, Asks] = {}
    complete: dict[str, list[bool]] = {}
    for node in nodes:
        if producer == "static" and node.op not in _STATIC:
            continue
        # Shapes, indices and limits are not quantized, even where other nodes compute them.
        reads = node.reads[:1] if node.op in FOLLOWS else node.reads
        inputs = [name for name in reads if name in activations or name in new_names]
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
        if not constant.isdisjoint(node.reads[:1]) and node.op == "Gather":
            asks[node.name] = "all" if names.issuperset(node.makes) else "inputs"
        elif all(complete.get(node.op, [False])):
            asks[node.name] = "follows" if node.op in FOLLOWS else "all"
        elif node.op in FOLLOWS:
            asks[node.name] = "follows" if names.issuperset(node.makes) else "nothing"
    rules = Rules(nodes, sites, asks, _biases(nodes, asks))
    return evolve(rules, fixed=frozenset(range(len(sites))) - rules.quantized_sites(()))


def _modelopt_requests(nodes: Sequence[FloatNode], names: Collection[str]) -> dict[str, Asks]:
    """Return the tensors that each node requires with ModelOpt: its quantized inputs,
    including those of nodes that only move elements."""
    asks: dict[str, Asks] = {}
    for node in nodes:
        if any(name in names for name in node.reads):
            asks[node.name] = "inputs"
    return asks


def _without_moves(
    nodes: Sequence[FloatNode], names: Collection[str], operators: Collection[str]
) -> list[FloatNode]:
    """Return copies of nodes that read quantized tensors directly,
    rather than through nodes that only move elements."""
    moves = {node.makes[0]: node.reads[0] for node in nodes if node.op in operators and node.reads}

    def original_name(name: str) -> str:
        """Return the name of a tensor before operators that only move elements."""
        start = name
        while name not in names and name in moves:
            name = moves[name]
        return name if name in names else start

    return [evolve(node, reads=[original_name(name) for name in node.reads]) for node in nodes]


def _biases(nodes: Sequence[FloatNode], asks: dict[str, Asks]) -> dict[str, str]:
    """Return, by node, the corrected bias that an Add after it adds.
    These Add nodes are removed from `asks`."""
    makers = {name: node.name for node in nodes for name in node.makes}
    biases = {}
    for node in nodes:
        corrected = [name for name in node.reads if name.endswith(CORRECTED)]
        before = [makers[name] for name in node.reads if makers.get(name) in asks]
        if node.op == "Add" and corrected and before:
            biases[before[0]] = corrected[0]
            asks.pop(node.name, None)
    return biases
