"""The answers about one iteration after another, of which the past takes no memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import is_
from typing import Any, Protocol

from polygraphy.domain.compare.result import (
    CompareResult,
    OutputCompareResult,
    columns_of,
    from_columns,
)
from polygraphy.domain.errors import FileError

Answers = Mapping[str, Any]
"""The results of an iteration by output; a result is truthy if the output passed."""

MOST = 2048
"""Most answers that are held as objects."""
_PROTOCOL = 5


class Spool(Protocol):
    """Storage for bytes, which exists until the object is deleted."""

    def put(self, data: bytes) -> int:
        """Store bytes and return a ticket for them; raise FileError if the storage is full."""

    def take(self, ticket: int) -> bytes:
        """Return the bytes of a ticket, any number of times.
        Raise FileError if they cannot be read.
        """


class AnswerLog(list[Answers]):
    """A list of results per iteration; earlier iterations are packed while the list grows.

    The list itself contains the recent iterations. `all_iterations` yields all of them, and
    `unpack` turns the log into a plain list of all. Only answers that packing preserves are packed:
    results of our comparison functions, and booleans.
    """

    def __init__(self, open_spool: Callable[[], Spool] | None) -> None:
        """Create an empty log.
        Earlier iterations move to the storage that `open_spool` opens, if set."""
        super().__init__()
        self._open_spool = open_spool
        self._spool: Spool | None = None
        self._packs = open_spool is not None
        self._tickets: list[int] = []
        self._pack_iterations = self._packed_matched = 0
        self._held = 0

    def add(self, answers: Answers) -> None:
        """Append the results of an iteration."""
        self.append(answers)
        self._held += len(answers)
        if self._held >= MOST and self._packs and len(self) > 1:
            self._pack()

    def extend_last(self, answers: Answers) -> None:
        """Add further answers to the last iteration."""
        self[-1] = {**self[-1], **answers}
        self._held += len(answers)

    @property
    def total(self) -> int:
        """Return the number of iterations."""
        return self._pack_iterations + len(self)

    def all_iterations(self) -> Reading:
        """Return all iterations, for callers that neither change nor keep them."""
        return Reading(self)

    def unpack(self) -> None:
        """Unpack all iterations and keep them as objects.
        Raise FileError if they cannot be read."""
        if self._tickets:
            self[:0] = self._spooled_iterations()
        self._tickets, self._packs = [], False
        self._pack_iterations = self._packed_matched = 0

    def _pack(self) -> None:
        """Pack all iterations except the last, which may still grow."""
        assert self._open_spool is not None
        past = self[:-1]
        self._spool = self._spool or self._open_spool()
        try:
            self._packs = _are_packable(past)
            OutputCompareResult.prepare_metrics(_differences(past))
            ticket = self._spool.put(_pack_iterations(past)) if self._packs else -1
        except (FileError, pickle.PicklingError, AttributeError, TypeError):
            self._packs = False
        if self._packs:  # Results that cannot be packed remain in memory.
            self._tickets.append(ticket)
            self._pack_iterations += len(past)
            self._packed_matched += count_matched(past)
            del self[:-1]
            self._held = len(self[0])

    def _spooled_iterations(self) -> Iterator[Answers]:
        """Yield the results of iterations that were moved to the spool."""
        for ticket in self._tickets:
            assert self._spool is not None
            # Unpickling is safe, because only this process writes to the spool.
            yield from _unpack_iterations(self._spool.take(ticket))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle stores: all iterations, unpacked."""
        return list, (list(self.all_iterations()),)


class Reading(Collection[Answers]):
    """A read-only view of all iterations of a log, in order."""

    def __init__(self, log: AnswerLog) -> None:
        """Create a view of a log."""
        self._log = log

    def __contains__(self, answers: object) -> bool:
        """Return whether an iteration of the log has these results."""
        return any(values == answers for values in self)

    def __len__(self) -> int:
        """Return the number of iterations."""
        return self._log.total

    def __iter__(self) -> Iterator[Answers]:
        """Yield the results of each iteration."""
        yield from self._log._spooled_iterations()
        yield from self._log

    @property
    def match_count(self) -> int:
        """Return the number of iterations that matched; packed ones cannot have changed."""
        return self._log._packed_matched + count_matched(self._log)


def count_matched(iterations: Iterable[Answers]) -> int:
    """Return the number of iterations in which outputs were compared and all passed."""
    return sum(bool(answers) and all(answers.values()) for answers in iterations)


def _pack_iterations(iterations: list[Answers]) -> bytes:
    """Return iterations as bytes: results as columns, and data equal to the previous iteration's
    only once."""
    rows: list[Answers | tuple[Any, Any]] = []
    names: tuple[Any, ...] = ()
    shared: tuple[Any, ...] = ()
    for answers in iterations:
        columns = columns_of(answers.values())
        if columns is None:
            rows.append(answers)
            continue
        names = names if names == (*answers,) else (*answers,)
        if len(shared) != len(columns[0]) or not all(map(is_, shared, columns[0])):
            shared = columns[0]
        rows.append((names, (shared, columns[1])))
    return pickle.dumps(rows, _PROTOCOL)


def _unpack_iterations(data: bytes) -> Iterator[Answers]:
    """Yield the results of iterations that `_pack_iterations` packed."""
    for row in pickle.loads(data):
        yield dict(zip(row[0], from_columns(row[1]))) if isinstance(row, tuple) else row


def _are_packable(iterations: list[Answers]) -> bool:
    """Return whether all answers are results or bools, which can be packed."""
    return all(
        isinstance(answer, (CompareResult, bool))
        for answers in iterations
        for answer in answers.values()
    )


def _differences(iterations: list[Answers]) -> Iterator[OutputCompareResult]:
    """Yield the answers that are element-wise results."""
    for answers in iterations:
        for answer in answers.values():
            if isinstance(answer, OutputCompareResult):
                yield answer
