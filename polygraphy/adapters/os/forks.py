"""Libraries whose threads a forked process lacks."""

from __future__ import annotations

import ctypes
import os
from weakref import WeakSet

from polygraphy.domain.errors import UsageError

_libraries: WeakSet[OneProcess] = WeakSet()


def is_fork_safe() -> bool:
    """Return whether this process may be forked; see the port."""
    return not (has_started_cuda() or any(library.is_entered for library in _libraries))


class OneProcess:
    """Remembers in which process a library computed, and refuses to use it in a fork, which would
    wait forever for threads that it lacks.
    """

    def __init__(self, library: str) -> None:
        """Set the name of the library."""
        self._library = library
        self._pid: int | None = None
        _libraries.add(self)

    def enter(self) -> None:
        """Record that the library is about to compute in this process.
        Raise an error if it computed before a fork.

        Raises:
            UsageError: the library computed in the process from which this one was forked.
        """
        if self._pid is None:
            self._pid = os.getpid()
        self.check()

    def note(self) -> None:
        """Record that the library computed in this process."""
        if self._pid is None:
            self._pid = os.getpid()

    @property
    def is_entered(self) -> bool:
        """Return whether the library has computed here, or was about to."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Raise the error of `enter`, if any."""
        if self._pid not in (None, os.getpid()):
            raise UsageError(
                f"{self._library} ran in the parent process before this one was forked, and would"
                " wait for its threads forever.",
                hint=f"Start the processes before {self._library} runs.",
            )


_CUDA_DRIVER = "libcuda.so.1"


def has_started_cuda() -> bool:
    """Return whether any library in this process, such as PyTorch, has started CUDA,
    which does not survive a fork."""
    try:
        # Without RTLD_NOLOAD, this call would load the library.
        driver = ctypes.CDLL(_CUDA_DRIVER, mode=getattr(os, "RTLD_NOLOAD", 0))
        count = ctypes.c_int()
        # The call fails if the driver is not initialized.
        return bool(driver.cuDeviceGetCount(ctypes.byref(count)) == 0)
    except (OSError, AttributeError):
        return False
