"""Arrays are walked in blocks that fit the cache of one core.

A pass calls a worker for each block and collects what it returns, in the order of the blocks.
That order, and where the blocks begin, depend on the size alone. So the result of a pass does not
depend on the number of threads, to the last bit.

Memory for the intermediate results of a block.

Fresh memory is slow: the operating system hands it out page by page, which takes longer than the
arithmetic of a block. So a pass borrows the memory that an earlier pass has left.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from polygraphy.domain.arithmetic.passes.widen import Floats, Mask


class Scratch:
    """Vectors of one length for the use of one thread, with undefined contents."""

    def __init__(self, room: int) -> None:
        """Make memory for blocks of up to `room` elements; nothing is allocated yet."""
        self.room = room
        self._floats: list[Floats] = []
        self._masks: list[Mask] = []
        self._floats_used = self._masks_used = 0

    def floats(self) -> Floats:
        """A vector of `room` elements that is not in use."""
        self._floats_used += 1
        if self._floats_used > len(self._floats):
            self._floats.append(np.empty(self.room))
        return self._floats[self._floats_used - 1]

    def mask(self) -> Mask:
        """A mask of `room` elements that is not in use."""
        self._masks_used += 1
        if self._masks_used > len(self._masks):
            self._masks.append(np.empty(self.room, np.bool_))
        return self._masks[self._masks_used - 1]

    def release(self) -> None:
        """Take all vectors back: what was handed out must not be used any more."""
        self._floats_used = self._masks_used = 0


_idle: deque[Scratch] = deque()


class borrowed:
    """Scratch memory for the duration of a pass.

    It is kept for the next one, some 10 MiB for each thread that ever took part at the same time.
    """

    def __init__(self, room: int) -> None:
        """Ask for memory for blocks of up to `room` elements."""
        self._room = room

    def __enter__(self) -> Scratch:
        try:
            self._scratch = _idle.pop()
        except IndexError:
            self._scratch = Scratch(self._room)
        if self._scratch.room != self._room:
            self._scratch = Scratch(self._room)
        return self._scratch

    def __exit__(self, *exception: object) -> None:
        self._scratch.release()
        _idle.append(self._scratch)


Result = TypeVar("Result")
Worker = Callable[[int, int], Result]
MakeWorker = Callable[[Scratch], Worker[Result]]

BLOCK = 1 << 17
"""Elements of a block: 1 MiB of float64.

Small enough for a few vectors of that size to stay in the cache; large enough for each numpy call
to take so long (some 10 us) that threads seldom wait for the interpreter lock between two calls.
"""

SPAN = 8
"""Blocks that a thread takes at a time; neighbours, so that memory is read in long runs."""

PARALLEL = 1 << 20
"""An array of fewer elements is done before a second thread would have started."""


def scan(size: int, make_worker: MakeWorker[Result], threads: int = 1) -> list[Result]:
    """Call ``worker(start, stop)`` for each block of `size` elements; the results in block order.

    Each thread makes one worker and lends it scratch memory for blocks. At most `threads` of them
    run, and only one if there is little to do. Floating-point conditions raise no warnings within.
    """
    count = -(-size // BLOCK)
    if threads < 2 or size < PARALLEL or count < 2:
        with np.errstate(all="ignore"), borrowed(BLOCK) as scratch:
            worker = make_worker(scratch)
            return [worker(i * BLOCK, min((i + 1) * BLOCK, size)) for i in range(count)]
    return _scan_in_threads(size, count, make_worker, threads)


def _scan_in_threads(
    size: int, count: int, make_worker: MakeWorker[Result], threads: int
) -> list[Result]:
    starts = iter(range(0, count, SPAN))
    lock = threading.Lock()
    found: dict[int, Result] = {}

    def work() -> None:
        # The floating-point error state belongs to a thread, so each one sets its own.
        with np.errstate(all="ignore"), borrowed(BLOCK) as scratch:
            worker = make_worker(scratch)
            for first in _locked(starts, lock):
                for i in range(first, min(first + SPAN, count)):
                    found[i] = worker(i * BLOCK, min((i + 1) * BLOCK, size))

    with ThreadPoolExecutor(min(threads, -(-count // SPAN))) as pool:
        for future in [pool.submit(work) for _ in range(threads)]:
            future.result()
    return [found[i] for i in range(count)]


def _locked(items: Iterator[int], lock: threading.Lock) -> Iterator[int]:
    """Share an iterator between threads."""
    while True:
        with lock:
            item = next(items, None)
        if item is None:
            return
        yield item
