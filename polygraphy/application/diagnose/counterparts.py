"""Finds out which tensor of its program each tensor of a model is, also behind where they part."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import product
from typing import Any

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.rounding import adds_up
from polygraphy.application.diagnose.tracing import kept, renamed, trace
from polygraphy.domain.diagnosis.exported import (
    Print,
    print_of,
    same_tensors,
    without_counterpart,
)
from polygraphy.ports.diagnosing import OpenedProgram
from polygraphy.ports.editing import open_model

_TRIED = 8
"""Tensors of either side that are tried as counterparts where they part."""
_AHEAD = (12, 60)
"""Nodes that are computed to see whether they are: an operation may become twenty-five."""


class Counterparts:
    """The tensors of a model and of its program on the same data.

    Attributes:
        own: what the party makes of the model, by tensor.
        theirs: what the operations of the program make, by operation.
        pairs: by tensor of the model the operation of the program that makes the same.
        saved: by tensor of the model what the program has for it; and, by a name of its own, what
            only the program has.
    """

    def __init__(self, case: Case, program: OpenedProgram, feed: Feed, expected: Values) -> None:
        """Compute all tensors, and find them.

        Args:
            case: the model, of which the first party makes the tensors.
            program: what it was exported from.
            feed: the data.
            expected: what the program returns, by the outputs of the model.
        """
        self._case = case
        self._program = program
        self._feed = feed
        self._expected = expected
        self._party = case.parties[0]
        self.theirs = kept(case)
        program.run(feed, self.theirs.__setitem__)
        self.own = trace(case, self._party, feed).values
        self._changed: Values = {}
        self._mine = _prints(self.own)
        self._prints = _prints(self.theirs)
        self._named = _named(case, program)
        self.pairs: dict[str, str] = {}
        self._pair()
        for name, value in expected.items():
            if name not in self.pairs and (made := self._returned(value)):
                self.pairs[name] = made
        lost = self.theirs.keys() - set(self.pairs.values())
        others = {f"{name} of the program": name for name in lost}
        self.saved: MutableMapping[str, Any] = ChainMap(
            {**expected}, renamed(self.theirs, {**self.pairs, **others})  # type: ignore[arg-type]
        )

    def notes(self) -> str:
        """Say how many there are."""
        made = {name for node in self._case.model.nodes for name in node.makes} & self._mine.keys()
        return f"{len(self.pairs.keys() & made)} of {len(made)} are tensors of the program."

    def _returned(self, value: Any) -> str:
        """Return the operation of the program that makes what it returns; empty where none does."""
        own = print_of(value)
        same = [name for name, each in self._prints.items() if own and own.distance(each) == 0]
        return same[-1] if same else ""

    def _pair(self) -> None:
        """Find the counterparts of all tensors: by value, and where model and program part, by what
        is computed of a tensor when it is as the program has it.
        """
        self._match()
        for _ in range(_TRIED):
            if not self.off(ChainMap(self._changed, self.own)):  # type: ignore[arg-type]
                break
            found = next(self._parting(), None)
            if found is None:
                break
            mine, theirs = found
            self.pairs[mine] = theirs
            given = {mine: self.theirs[theirs]}
            made = self._forced(given)
            self._changed = ChainMap(given, made, self._changed)  # type: ignore[arg-type]
            self._mine.update(_prints(made))
            self._match()

    def _match(self) -> None:
        """Find more by value. Where as many operators of the model make the same of the same
        operands as the program has operations of these operands, each has its own, in order: a
        cosine in place of a sine is not the cosine beside it.
        """
        nodes = self._case.model.nodes
        graphs = nodes, self._program.nodes
        self.pairs |= same_tensors(self._mine, self._prints, self._named, self.pairs, graphs)
        same: dict[tuple[str, ...], list[str]] = {}
        for node in nodes:
            for name in self.pairs.keys() & set(node.makes):
                same.setdefault((self.pairs[name], *node.reads), []).append(name)
        reads = {node.name: node.reads for node in self._program.nodes}
        wrong: set[str] = set()
        for (theirs, *_), made in same.items():
            beside = [other for other in reads if reads[other] == reads.get(theirs)]
            if len(beside) == len(made) > 1:
                wrong.update(name for name, other in zip(made, beside) if other != theirs)
        times = Counter(self.pairs.values())
        for node in nodes if wrong else ():
            for name in self.pairs.keys() & set(node.makes):
                # Made of a wrong one, it has the value of what is made of the one beside it.
                if name in wrong or (times[self.pairs[name]] > 1 and wrong & set(node.reads)):
                    wrong.add(name)
                    del self.pairs[name]

    def _parting(self) -> Iterator[tuple[str, str]]:
        """Yield tensors of the model that are others in the program, the likeliest first."""
        nodes = self._case.model.nodes
        mine = without_counterpart(nodes, self.pairs.keys())
        theirs = without_counterpart(self._program.nodes, set(self.pairs.values()))
        made = {name for node in nodes if node.reads for name in node.makes}
        tried = 0
        for name in mine:
            if name not in self._mine or name not in made or tried == _TRIED:
                continue
            own, recorded = self._mine[name], self._named.get(name)
            fitting = [
                other
                for other in theirs
                if other in self._prints
                and (self._prints[other].shape == own.shape or other == recorded)
            ]
            fitting.sort(key=lambda other: other != recorded)
            tried += bool(fitting)
            for most, other in product(_AHEAD, fitting[:_TRIED]):
                if self._fits(name, other, theirs, most):
                    yield name, other

    def _fits(self, mine: str, theirs: str, left: Sequence[str], most: int) -> bool:
        """Return whether something of the program is made of a tensor that is as it is there."""
        value = self.theirs[theirs]
        if mine in self._expected:
            return not self.off({mine: value})
        made = _prints(self._forced({mine: value}, most))
        behind = left.index(theirs) + 1 if theirs in left else 0
        later = {name: self._prints[name] for name in left[behind:] if name in self._prints}
        return bool(same_tensors(made, later, {}, {}))

    def _forced(self, given: Mapping[str, Any], most: int | None = None) -> Values:
        """Return what the model makes of the inputs where some tensors are given, of those behind
        them.

        Args:
            given: by tensor.
            most: how many nodes are computed; None for all.
        """
        behind, chosen = set(given), []
        for index, node in enumerate(self._case.model.nodes):
            if not behind.isdisjoint(node.reads) and behind.isdisjoint(node.makes):
                behind.update(node.makes)
                chosen.append(index)
        known: Any = ChainMap(dict(given), self._changed, self.own, self._feed)  # type: ignore[arg-type]
        try:
            part = self._case.model.part(chosen[:most], known)
            asked = {value.name: known[value.name] for value in part.graph.input}
            return trace(self._case.of(open_model(part)), self._party, asked).values
        except (*REFUSALS, KeyError, ValueError):
            return {}

    def off(self, values: Values) -> list[str]:
        """Return which outputs are wrong, by more than rounding and what it adds up to."""
        found = self._case.differing(values, self._expected)
        if found and adds_up(self._case, [self._feed], {0: [values], 1: [self._expected]}):
            return []
        return [*found]

    def proof(self, tensors: Sequence[str]) -> str:
        """Return what becomes of the outputs when wrong tensors are as in the program, in words."""
        if not tensors:
            return ""
        self._changed = {name: self.saved[name] for name in tensors}
        held = ChainMap(self._changed, self._forced(self._changed), self.own)  # type: ignore[arg-type]
        differing = self.off(held)
        what = "it" if len(tensors) == 1 else f"these {len(tensors)} tensors"
        if not differing:
            return f"With only {what} taken from the program, all outputs match."
        names = ", ".join(map(repr, differing[:4]))
        return f"With {what} taken from the program, {names} still differ."


def _prints(values: Mapping[str, Any]) -> dict[str, Print]:
    found = {name: print_of(values[name]) for name in values}
    return {name: each for name, each in found.items() if each is not None}


def _named(case: Case, program: OpenedProgram) -> dict[str, str]:
    """Return by tensor of the model that of the program of which the exporter recorded that it is
    the same, or which has the same name.
    """
    known = {node.name for node in program.nodes}
    own = {name: name for node in case.model.nodes for name in node.makes if name in known}
    recorded = getattr(case.facts, "sources", {})
    return {**own, **{name: other for name, other in recorded.items() if other in known}}
