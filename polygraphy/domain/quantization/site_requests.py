"""Sites that remain quantized, as bits of integers, because a search needs them for thousands of
sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from polygraphy.domain.quantization.sites import RAW, FloatNode, Site


def bits_of(numbers: Iterable[int]) -> int:
    """Return the integer in which the bits with these numbers are set."""
    return reduce(or_, (1 << number for number in numbers), 0)


def numbers_of(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, the lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _sort_nodes(nodes: Sequence[FloatNode]) -> list[FloatNode]:
    """Return nodes sorted so that each follows the producers of its inputs:
    a Relu that the quantizer removed may be last in the model."""
    makers = {name: node for node in nodes for name in node.makes}
    ordered: dict[int, FloatNode] = {}
    pending = [*reversed(nodes)]
    seen: set[int] = set()
    while pending:
        node = pending[-1]
        before = [makers[name] for name in node.reads if name in makers]
        missing = [maker for maker in before if id(maker) not in seen]
        seen.add(id(node))
        if missing:
            pending += missing
            continue
        ordered.setdefault(id(node), pending.pop())
    return [*ordered.values()]


class SiteRequests:
    """The sites that nodes require to be quantized.

    Args:
        nodes: the nodes, in order.
        sites: the quantized sites.
        asks: by node, which tensors it requires to be quantized; see `Rules`.
        biases: by node, the corrected bias that another node adds after it.
        fixed: the sites that no known node requires.
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
        asking = _sort_nodes(
            [node for node in nodes if asks.get(node.name, "nothing") != "nothing"]
        )
        self._bits: dict[str, int] = {}
        # Other nodes with the same name, by the bit of the first one.
        self._copies: dict[int, int] = {}
        for number, node in enumerate(asking):
            bit = self._bits.setdefault(node.name, 1 << number)
            if bit != 1 << number:
                self._copies[bit] = self._copies.get(bit, 0) | 1 << number
        count = len(asking)
        self._conditions: list[tuple[int, int]] = [(0, 0)] * count
        self._followers, self._touched = [0] * count, [0] * count
        marked, biased = self._link_nodes(asking, asks, biases)
        every = bits_of(fixed)
        self._askers: list[tuple[int, int]] = []
        for number, site in enumerate(sites):
            names = site.name, site.name + RAW
            requesting, added = (
                reduce(or_, (nodes.get(name, 0) for name in names)) for nodes in (marked, biased)
            )
            self._askers.append((requesting, added))
            if every >> number & 1:
                continue
            every |= bool(requesting | added) << number
            for at in numbers_of(requesting | added):
                self._touched[at] |= 1 << number
        self._states = {0: (0, every)}

    def _link_nodes(
        self, asking: Sequence[FloatNode], asks: Mapping[str, str], biases: Mapping[str, str]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return, by tensor, nodes that require it quantized, and those that require it as a bias.
        Both are bits; the bias is a corrected one. Note which nodes follow others.
        """
        marked: dict[str, int] = {}
        biased: dict[str, int] = {}
        for number, node in enumerate(asking):
            kind, bit = asks[node.name], 1 << number
            if bias := biases.get(node.name, ""):
                biased[bias] = biased.get(bias, 0) | bit
            reads = [] if kind == "output" else node.reads
            if kind == "follows":
                reads = node.reads[:1]
                before, added = (
                    reduce(or_, (nodes.get(name, 0) for name in reads), 0)
                    for nodes in (marked, biased)
                )
                if not before | added:
                    # The node only copies the quantization of its input, and its input has none.
                    continue
                self._conditions[number] = before, added
                for at in numbers_of(before | added):
                    self._followers[at] |= bit
            for name in (*reads, *(() if kind == "inputs" else node.makes)):
                marked[name] = marked.get(name, 0) | bit
        return marked, biased

    def nodes(self, names: Iterable[str]) -> int:
        """Return nodes as bits."""
        return reduce(or_, (self._bits.get(name, 0) for name in names), 0)

    def reach(self, nodes: int, linked: Sequence[int] = ()) -> int:
        """Return the nodes and sites that excluding some nodes may affect, as bits: nodes first.
        Sets of nodes that affect nothing in common have the sum of their effects.

        Args:
            nodes: the nodes.
            linked: groups of sites, as bits: who reaches one of them reaches all.
        """
        for bit, copies in self._copies.items():
            nodes |= copies if nodes & bit else 0
        pending, touched = nodes, 0
        while pending:
            lowest = pending & -pending
            number = lowest.bit_length() - 1
            touched |= self._touched[number]
            pending = (pending ^ lowest) | self._followers[number] & ~nodes
            nodes |= self._followers[number]
        for group in linked:
            touched |= group if touched & group else 0
        return nodes | touched << len(self._touched)

    def remaining(self, excluded: int, base: int = 0) -> int:
        """Return the sites that remain quantized, as bits, if some nodes are excluded.

        Args:
            excluded: the nodes.
            base: some of them, which are also part of many other sets: only the rest is worked out.
        """
        if base not in self._states:
            self._states[base] = self._exclude(base, *self._states[0], base)
        return self._exclude(excluded, *self._states[base], excluded & ~base)[1]

    def _exclude(
        self, excluded: int, silent: int, remaining: int, new_nodes: int
    ) -> tuple[int, int]:
        """Exclude more nodes; return the nodes that require nothing, and the sites that remain.
        Nodes that follow them may then require nothing as well.
        """
        for bit, copies in self._copies.items():
            if excluded & bit:
                excluded, new_nodes = excluded | copies, new_nodes | copies
        pending, touched = new_nodes, 0
        while pending:  # Process nodes in order, because a node depends only on earlier ones.
            lowest = pending & -pending
            pending ^= lowest
            number = lowest.bit_length() - 1
            if not lowest & excluded:
                before, added = self._conditions[number]
                if before & ~silent or added & ~excluded:
                    continue
            silent |= lowest
            pending |= self._followers[number] & ~silent
            touched |= self._touched[number]
        touched &= remaining
        while touched:
            lowest = touched & -touched
            touched ^= lowest
            requesting, added = self._askers[lowest.bit_length() - 1]
            if not (requesting & ~silent or added & ~excluded):
                remaining ^= lowest
        return silent, remaining
