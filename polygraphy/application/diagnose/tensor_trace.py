"""Every tensor of a model as a reference computes it, and every node alone on these values, in no
more memory than there is.

Where all of that does not fit, a model is cut between nodes into windows, which run one after the
other, and tensors are kept in a file meanwhile.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values, rounding_noise
from polygraphy.application.diagnose.parts import Submodel, cut_part, feed_part
from polygraphy.domain.accuracy.answer_log import Spool
from polygraphy.domain.search.layers import Layer, plan_windows
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.editing import OpenModel, open_model
from polygraphy.ports.machine import release_memory
from polygraphy.ports.storage import open_spool

_TRACED = 2
"""Memory of a window as a multiple of the tensors that it reads and computes: backends return
copies."""
_ISOLATED = 5
"""The same if nodes run by themselves: on the values, twice on moved values, and in float64."""
_KINDS = "biufOUS"


@frozen
class Trace:
    """The values of all tensors, computed by a reference.

    Attributes:
        values: by tensor.
        feed: the inputs of the model.
        party: the party that computed them.
    """

    values: Values
    feed: Feed
    party: SuspectedParty

    @property
    def all_values(self) -> MutableMapping[str, Any]:
        """Return the values together with the inputs; additions stay separate from the trace."""
        return ChainMap({}, *(tensors for tensors in (self.feed, self.values)))  # type: ignore[arg-type]

    def sizes(self) -> dict[str, int]:
        """Return the size of each tensor in bytes."""
        known_sizes = (
            self.values.sizes if isinstance(self.values, _SpooledTensors) else _sizes(self.values)
        )
        return {**known_sizes, **_sizes(self.feed)}


class _SpooledTensors(MutableMapping[str, Any]):
    """Arrays in a file, each read on access.

    Attributes:
        sizes: the size of each in bytes.
    """

    def __init__(self, spool: Spool) -> None:
        """Create an empty store in a spool file."""
        self.sizes: dict[str, int] = {}
        self._spool = spool
        self._held: dict[str, Any] = {}
        self._tickets: dict[str, tuple[int, np.dtype[Any], tuple[int, ...]]] = {}

    def with_names(self, names: Mapping[str, str]) -> _SpooledTensors:
        """Return some arrays under other names, without copying."""
        renamed = _SpooledTensors(self._spool)
        for own_parts, parts in ((self.sizes, renamed.sizes), (self._held, renamed._held)):
            parts.update({new: own_parts[old] for new, old in names.items() if old in own_parts})
        tickets = self._tickets
        renamed._tickets = {new: tickets[old] for new, old in names.items() if old in tickets}
        return renamed

    def __getitem__(self, name: str) -> Any:
        """Return an array, read from the file."""
        if name not in self._tickets:
            return self._held[name]
        ticket, dtype, shape = self._tickets[name]
        return np.frombuffer(self._spool.take(ticket), dtype).reshape(shape)

    def __setitem__(self, name: str, value: Any) -> None:
        """Write an array to the file."""
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            self._held[name] = value
        else:
            self._tickets[name] = self._spool.put(value.tobytes()), value.dtype, value.shape
        self.sizes[name] = getattr(value, "nbytes", 0)

    def __delitem__(self, name: str) -> None:
        """Remove an array."""
        self._tickets.pop(name, None)
        self._held.pop(name, None)
        del self.sizes[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is an array of a name."""
        return name in self.sizes

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.sizes)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self.sizes)


def trace_tensors(case: Case, party: SuspectedParty, feed: Feed) -> Trace:
    """Return the values of all tensors of a model.

    Raises:
        BackendError: the backend cannot compute all tensors.
    """
    windows = _layer_windows(case, feed)
    if len(windows) < 2:
        values = _tensors(Submodel(case.model.with_all_outputs(), feed).run(party, plain=True))
        release_memory()
        return Trace(values, feed, party)
    opened = open_model(case.model.with_all_outputs())
    trace = Trace(tensor_store(case), feed, party)
    for window in windows:
        computed = cut_part(opened, window, trace.all_values).run(party, plain=True)
        release_memory()
        for name, value in _tensors(computed).items():
            trace.values[name] = value  # type: ignore[index]
    return trace


def trace_repeatedly(
    case: Case, party: SuspectedParty, feed: Feed, times: int
) -> list[Mapping[str, Any]]:
    """Return all tensors of a model for several runs in one session.
    The result is empty if they do not fit in memory.

    Raises:
        BackendError: the backend cannot compute all tensors.
    """
    if len(_layer_windows(case, feed)) > 1:
        return []
    compute = Submodel(case.model.with_all_outputs(), feed).load(party, plain=True)
    return [_tensors(compute(feed)) for _ in range(times)]


def run_isolated_nodes(
    case: Case, model: OpenModel, party: SuspectedParty, trace: Trace
) -> Iterator[tuple[dict[str, Any], Callable[[], Mapping[str, Any]]]]:
    """Yield results of nodes run in isolation, and a function for their rounding noise.
    The nodes run on traced values, as many at a time as memory allows.

    Yields:
        By tensor what its node makes of them, and what computes what moving them by an ulp changes,
        until the next.

    Raises:
        BackendError: the backend cannot run isolated nodes.
    """
    cut, names = model.isolate_nodes(trace.all_values, checked=model is not case.model)
    for part in _split_nodes(case, cut, names, trace):
        compute = part.load(party, plain=True)
        values = compute(part.feed)
        yield (
            {name: values[result] for name, result in names.items() if result in values},
            partial(_noise, compute, part.feed, values, names),
        )
        if part.model is not cut:
            del compute, part, values
            release_memory()


def _noise(
    compute: Compute, feed: Feed, values: Values, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the rounding noise of each tensor."""
    noise = rounding_noise(compute, feed, values)
    return {name: noise.get(result, 0.0) for name, result in names.items() if result in values}


def tensor_store(case: Case, nbytes: int | None = None) -> MutableMapping[str, Any]:
    """Return an empty store for arrays: in memory if `nbytes` and the tensors computed from them
    fit, else in a file.

    Args:
        case: the model, the backends and the data to diagnose.
        nbytes: the bytes of the arrays; None if they do not fit in memory.
    """
    fits = nbytes is not None and 2 * _ISOLATED * nbytes <= case.memory_limit
    return {} if fits else _SpooledTensors(open_spool())


def rename_tensors(values: Values, names: Mapping[str, str]) -> Values:
    """Return some tensors of a trace under other names."""
    if isinstance(values, _SpooledTensors):
        return values.with_names(names)
    return {new: values[old] for new, old in names.items() if old in values}


def _layer_windows(case: Case, feed: Feed) -> list[range]:
    """Return the ranges of layers that fit in memory together."""
    layers = case.model.layers({name: np.shape(array) for name, array in feed.items()})
    total = sum(size or 0 for layer in layers for size in layer.makes.values())
    if 2 * _ISOLATED * total <= case.memory_limit:
        return [range(len(layers))]
    return plan_windows(
        layers, case.memory_limit // _TRACED, _sizes(feed), case.model.non_boundary_tensors()
    )


def _split_nodes(
    case: Case, cut: Any, names: Mapping[str, str], trace: Trace
) -> Iterator[Submodel]:
    """Yield parts of isolated nodes that together cover the whole model."""
    sizes = trace.sizes()
    most = case.memory_limit // _ISOLATED
    if 2 * sum(sizes.values()) <= most:
        yield feed_part(cut, trace.all_values)
        return
    opened = open_model(cut)
    sizes.update({result: sizes[name] for name, result in names.items()})
    layers = [
        Layer(
            {name: sizes.get(name) for name in node.makes},
            [name for name in node.reads if name not in opened.constants],
        )
        for node in opened.nodes
    ]
    joined = {name for node in opened.nodes for name in node.makes} - set(names.values())
    windows = plan_windows(layers, most, sizes, joined)
    for window in windows:
        if len(windows) == 1:
            yield feed_part(cut, trace.all_values)
        elif any(set(opened.nodes[index].makes) - {*opened.constants} for index in window):
            yield cut_part(opened, window, trace.all_values)


def _tensors(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are arrays of numbers."""
    return {
        name: value
        for name, value in result.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in _KINDS
    }


def _sizes(arrays: Mapping[str, Any]) -> dict[str, int]:
    """Return the size of each array in bytes."""
    return {name: getattr(value, "nbytes", 0) for name, value in arrays.items()}
