"""Which sites remain quantized, as bits of integers: a search asks this for thousands of sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from polygraphy.domain.quantization.sites import RAW, FloatNode, Site

_ALWAYS = -1
"""Stands for the tensor that a node follows, if it follows none."""


def bits_of(numbers: Iterable[int]) -> int:
    """Return the integer with some bits set."""
    return reduce(or_, (1 << number for number in numbers), 0)


def numbers_of(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, the lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _in_order(nodes: Sequence[FloatNode]) -> list[FloatNode]:
    """Return nodes sorted so that each follows the producers of its inputs: a Relu that the
    quantizer removed may be last in the model."""
    makers = {name: node for node in nodes for name in node.makes}
    ordered: dict[int, FloatNode] = {}
    pending = [*reversed(nodes)]
    seen: set[int] = set()
    while pending:
        node = pending[-1]
        before = [makers[name] for name in node.reads if name in makers]
        missing = [one for one in before if id(one) not in seen]
        seen.add(id(node))
        if missing:
            pending += missing
            continue
        ordered.setdefault(id(node), pending.pop())
    return [*ordered.values()]


class AskedSites:
    """The sites that nodes require to be quantized.

    Args:
        nodes: the nodes, in order.
        sites: what is quantized.
        asks: by the name of a node what it asks for; see `Rules`.
        biases: by the name of a node the corrected bias that another node adds behind it.
        fixed: the sites for which no node is known to ask.

    Attributes:
        names: the names of nodes that ask for a site; the bit of a node is its position.
    """

    def __init__(
        self,
        nodes: Sequence[FloatNode],
        sites: Sequence[Site],
        asks: Mapping[str, str],
        biases: Mapping[str, str],
        fixed: Collection[int],
    ) -> None:
        """Compute the sites of each node, and the nodes of each site."""
        self._count = len(sites)
        self._fixed = bits_of(fixed)
        asking = [node for node in nodes if asks.get(node.name, "nothing") != "nothing"]
        self.names: Sequence[str] = [*dict.fromkeys(node.name for node in asking)]
        self._bits = {name: 1 << number for number, name in enumerate(self.names)}
        tensors: dict[str, int] = {}
        for number, site in enumerate(sites):
            for offset, name in ((0, site.name), (self._count, site.name + RAW)):
                tensors[name] = tensors.get(name, 0) | 1 << offset + number
        follows = {node.name for node in asking if asks[node.name] == "follows"}
        for node in asking:
            if node.name in follows and node.reads and node.reads[0] not in tensors:
                tensors[node.reads[0]] = 1 << 2 * self._count + len(tensors)
        self._steps: list[tuple[int, int, int, int]] = []
        for node in _in_order(asking):
            reads, makes = (
                reduce(or_, (tensors.get(name, 0) for name in names), 0)
                for names in (node.reads, node.makes)
            )
            bias = tensors.get(biases.get(node.name, ""), 0)
            kind = asks[node.name]
            first, marks = _ALWAYS, reads
            if kind == "follows":
                first = tensors[node.reads[0]] if node.reads else 0
                marks = first | makes
            elif kind == "output":
                marks = makes
            elif kind == "all":
                marks = reads | makes
            self._steps.append((self._bits[node.name], first, marks, bias))

    def nodes(self, names: Iterable[str]) -> int:
        """Return nodes as bits."""
        return reduce(or_, (self._bits.get(name, 0) for name in names), 0)

    def remaining(self, excluded: int) -> int:
        """Return the sites that remain quantized, as bits, if some nodes are excluded."""
        marked = 0
        for bit, first, marks, bias in self._steps:
            if excluded & bit:
                continue
            marked |= bias
            if first == _ALWAYS or marked & first:
                marked |= marks
        return (marked | marked >> self._count) & (1 << self._count) - 1 | self._fixed
