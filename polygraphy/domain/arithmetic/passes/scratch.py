"""Memory for the intermediate results of a block.

Fresh memory is slow: the operating system hands it out page by page, which takes longer than the
arithmetic of a block. So a pass borrows the memory that an earlier pass has left.
"""

from __future__ import annotations

from collections import deque

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
