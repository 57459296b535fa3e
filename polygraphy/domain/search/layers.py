"""Groups of layers that run together, so that their tensors fit into memory.

A model is cut between layers into segments. Each is run by itself: it takes the tensors that the
segments before it made, and all that it makes are outputs, which are compared and let go, but for
those that later segments read. So every layer is computed once, however small the budget is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from attrs import Factory, frozen

SHARE = 4
"""One part in this number of the free memory is used for tensors, unless a budget is given."""


@frozen
class Layer:
    """One node of a graph: the sizes of the tensors that it computes, the tensors that it reads,
    and the sizes of its weights.

    Attributes:
        makes: the tensors that it computes, with their sizes in bytes; None for a size that is not
            known before the model is run.
        reads: names of the tensors that it takes, weights left out.
        weights: the weights that it takes, with their sizes in bytes.
    """

    makes: Mapping[str, int | None]
    reads: Collection[str] = ()
    weights: Mapping[str, int] = Factory(dict)


@frozen
class Segment:
    """Consecutive layers that run together.

    Attributes:
        start: position of the first layer.
        stop: position behind the last layer.
        inputs: tensors of layers before, which it reads.
        outputs: tensors that it makes and that are compared, in order; of the first one also
            inputs and weights of the model that are.
        carried: tensors that have been made when it is done, and that layers behind it read.
        nbytes: the expected size in memory, in bytes.
    """

    start: int
    stop: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    carried: tuple[str, ...]
    nbytes: int


@frozen
class Budget:
    """The memory that one segment may use.

    Attributes:
        nbytes: the memory for tensors, in bytes.
        runners: the number of runners that hold the same tensors at the same time.
        weight_copies: the number of copies of a segment's weights in memory while it runs.
        free_weights: bytes of weights that do not count: those of the whole model.
    """

    nbytes: int
    runners: int = 1
    weight_copies: int = 0
    free_weights: int = 0

    def memory_units(self, tensors: int, weights: int) -> int:
        """Return the memory that a segment needs, in units of the budget.
        `tensors` and `weights` are bytes for one runner and one copy.
        """
        copies = self.weight_copies * weights - self.free_weights
        return self.runners * tensors + max(copies, 0)


def plan_segments(
    layers: Sequence[Layer], compared: Collection[str], budget: Budget, fixed: Collection[str] = ()
) -> list[Segment]:
    """Return the segments of a model, each as long as the budget allows.

    A layer that does not fit by itself becomes a segment of its own. A tensor of unknown size is
    assumed to be as large as the largest of the others.

    Args:
        layers: the layers, in an order in which each reads results of earlier ones; else there is
            one segment.
        compared: names of the tensors that are compared, in order.
        budget: the available memory.
        fixed: tensors that cannot be passed from one segment to another.
    """
    walk = _Lifetimes(layers, budget)
    if not walk.is_ordered:
        return [walk.segment(0, len(layers), compared)]
    segments = []
    start = 0
    while start < len(layers):
        stop = walk.reach(start, fixed)
        segments.append(walk.segment(start, stop, compared))
        start = stop
    return segments


def plan_windows(
    layers: Sequence[Layer], most: int, given_values: Mapping[str, int], fixed: Collection[str] = ()
) -> list[range]:
    """Return windows of layers, each as long as memory allows, that together cover a model.

    Args:
        layers: as for `plan_segments`.
        most: bytes of the tensors that a window reads and makes, each of which counts once.
        given_values: sizes of tensors that no layer makes, in bytes.
        fixed: tensors that cannot be handed from one window to another.
    """
    walk = _Lifetimes(layers, Budget(most))
    if not walk.is_ordered:
        return [range(len(layers))]
    cuts = walk.cuts(fixed)
    windows: list[range] = []
    while not windows or windows[-1].stop < len(layers):
        start = windows[-1].stop if windows else 0
        windows.append(range(start, walk.window(start, given_values, cuts)))
    return windows


class _Lifetimes:
    """The tensors that are alive at each position between layers."""

    def __init__(self, layers: Sequence[Layer], budget: Budget) -> None:
        """Compute the lifetime of each tensor."""
        self._layers = layers
        self._budget = budget
        self._made_by = {name: i for i, layer in enumerate(layers) for name in layer.makes}
        self._last_read: dict[str, int] = {}
        for index, layer in enumerate(layers):
            for name in layer.reads:
                self._last_read[name] = index
        sizes = [size for layer in layers for size in layer.makes.values() if size is not None]
        self._unknown = max(sizes, default=0)

    @property
    def is_ordered(self) -> bool:
        """Return whether every layer reads only tensors of earlier layers."""
        return all(
            self._made_by.get(name, -1) < index
            for index, layer in enumerate(self._layers)
            for name in layer.reads
        )

    def reach(self, start: int, fixed: Collection[str]) -> int:
        """Return the end of the segment from `start`:
        the last cut that fits, or else the first cut.
        """
        best: int | None = None
        for stop, nbytes in self._possible_ends(start):
            if best is not None and nbytes > self._budget.nbytes:
                break
            if stop == len(self._layers) or not any(self._is_alive(name, stop) for name in fixed):
                best = stop
        assert best is not None  # The end of the model is always a cut.
        return best

    def cuts(self, fixed: Iterable[str]) -> list[bool]:
        """Return for each position whether the model can be cut in front of that layer."""
        alive = [0] * (len(self._layers) + 1)
        for name in fixed:
            maker = self._made_by.get(name)
            if maker is not None and name in self._last_read:
                alive[maker + 1] += 1
                alive[self._last_read[name] + 1] -= 1
        return [count == 0 for count in accumulate(alive)]

    def window(self, start: int, given_values: Mapping[str, int], cuts: Sequence[bool]) -> int:
        """Return the end of the window from `start`, at one of the cuts."""
        stop, total = start, 0
        names: set[str] = set()
        for index in range(start, len(self._layers)):
            layer = self._layers[index]
            for name in {*layer.makes, *layer.reads} - names:
                total += self._size(name) if name in self._made_by else given_values.get(name, 0)
                names.add(name)
            if stop > start and total > self._budget.nbytes:
                break
            if cuts[index + 1]:
                stop = index + 1
        return stop if stop > start else len(self._layers)

    def segment(self, start: int, stop: int, compared: Collection[str]) -> Segment:
        """Return the segment between two cuts, with its inputs and outputs."""
        layers = self._layers[start:stop]
        names = [name for layer in layers for name in layer.makes]
        read = dict.fromkeys(name for layer in layers for name in layer.reads)
        loose = [] if start else [name for name in compared if name not in self._made_by]
        needs = [nbytes for _, nbytes in self._possible_ends(start, stop)]
        return Segment(
            start,
            stop,
            inputs=tuple(name for name in read if self._made_by.get(name, start) < start),
            outputs=(*loose, *(name for name in names if name in compared)),
            carried=tuple(self._live_tensors(stop)),
            nbytes=needs[-1] if needs else 0,
        )

    def _possible_ends(self, start: int, stop: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield each end of a segment from `start`, with its memory."""
        tensors = sum(self._size(name) for name in self._live_tensors(start))
        weights: dict[str, int] = {}
        total = 0
        for index in range(start, len(self._layers) if stop is None else stop):
            layer = self._layers[index]
            tensors += sum(map(self._size, layer.makes))
            for name, size in layer.weights.items():
                total += size if name not in weights else 0
                weights[name] = size
            yield index + 1, self._budget.memory_units(tensors, total)

    def _live_tensors(self, cut: int) -> Iterator[str]:
        """Yield the tensors computed before a cut and read after it."""
        return (name for name in self._made_by if self._is_alive(name, cut))

    def _is_alive(self, name: str, cut: int) -> bool:
        """Return whether a tensor is computed before a cut and read after it."""
        maker = self._made_by.get(name)
        return maker is not None and maker < cut <= self._last_read.get(name, -1)

    def _size(self, name: str) -> int:
        """Return the size of a tensor; the default if it is unknown."""
        size = self._layers[self._made_by[name]].makes[name]
        return self._unknown if size is None else size
