"""Child processes that end when their parent does, however it ends: ctrl-C, a closed terminal
(SIGHUP), SIGTERM or SIGKILL.

On request, Linux kills a process together with its parent, but not its descendants. So one small
shell per parent also watches a pipe that only the parent holds open, and kills the groups of all
commands when it closes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

__all__ = ["ParentLink", "end_group", "forget_group", "make_follower", "start_command"]

_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG."""
_NO_WATCHER = -1

_WATCHER = """trap '' HUP INT TERM; groups=' '
while read -r action group; do
  if [ "$action" = add ]; then groups="$groups$group "
  else groups="${groups%% "$group" *} ${groups#* "$group" }"; fi
done
for group in $groups; do kill -KILL -"$group"; done"""


def make_follower(parent: int) -> Callable[[], None]:
    """Return a function that a new process calls so that it ends with its parent,
    given by process ID.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    library = ctypes.CDLL(None)

    def prepare() -> None:
        """Ask the kernel to end this process with its parent."""
        library.prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # The parent has already ended.
            os._exit(1)

    return prepare


class ParentLink:
    """Ends a forked process together with its parent: create it, fork, and call `hold` in the
    parent or `follow` in the child."""

    def __init__(self) -> None:
        """Create the pipe."""
        self._prepare = make_follower(os.getpid())
        self._ends = None if sys.platform == "linux" else os.pipe()

    def hold(self) -> None:
        """Keep the pipe open until `close`."""
        if self._ends is not None:
            os.close(self._ends[0])

    def close(self) -> None:
        """Close the pipe, after the child has ended."""
        if self._ends is not None:
            os.close(self._ends[1])

    def follow(self) -> None:
        """Make this process, the child, end as soon as the parent has ended."""
        self._prepare()
        if self._ends is not None:
            os.close(self._ends[1])
            threading.Thread(target=_exit_at_end, args=(self._ends[0],), daemon=True).start()


def _exit_at_end(descriptor: int) -> None:
    """End this process when the pipe is closed."""
    os.read(descriptor, 1)
    os._exit(1)


def start_command(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Return a new process that runs a command in its own session and ends with this process.

    Args:
        command: the command line.
        options: arguments of `subprocess.Popen`.
    """
    if not hasattr(os, "killpg"):
        return subprocess.Popen(command, **options)
    watcher = _open_watcher()
    # A duplicate, because a fork closes the original.
    report = None if watcher == _NO_WATCHER else os.dup(watcher)
    # The system counts the thread as the parent: other threads may end before their commands.
    is_main = threading.current_thread() is threading.main_thread()
    follow = make_follower(os.getpid()) if is_main else None

    def prepare() -> None:
        """Tie the new process to this one, before it runs the command."""
        if follow is not None:
            follow()
        if report is not None:  # Start it here, so that nothing runs unwatched.
            os.write(report, b"add %d\n" % os.getpid())

    try:
        return subprocess.Popen(
            command, start_new_session=True, preexec_fn=prepare, **options  # noqa: PLW1509
        )
    finally:
        if report is not None:
            os.close(report)


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that `start_command` started, and all processes in its group,
    without waiting."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    forget_group(process)


def forget_group(process: subprocess.Popen[Any]) -> None:
    """Stop watching a command, after it has ended."""
    with suppress(OSError):
        if _watcher and _watcher[0] != _NO_WATCHER:
            os.write(_watcher[0], b"remove %d\n" % process.pid)


_lock = threading.Lock()
_watcher: list[int] = []
"""The descriptor on which the watcher of this process reads, once there is one; -1 without a shell.
"""


def _open_watcher() -> int:
    """Return the descriptor that the watcher reads; start the watcher if it does not run."""
    with _lock:
        if not _watcher:
            _watcher.append(_start_watcher())
        return _watcher[0]


def _start_watcher() -> int:
    """Start the watcher and return the descriptor that it reads."""
    reading, writing = os.pipe()
    try:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHER],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # The shell outlives this process, so prevent Python's warning about a running child.
        shell.returncode = 0
    except OSError:
        os.close(writing)
        return _NO_WATCHER
    finally:
        os.close(reading)
    return writing


def _leave_watcher() -> None:
    """Forget the watcher of the parent: a forked process starts its own."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for descriptor in _watcher:
        with suppress(OSError):
            os.close(descriptor)
    _watcher.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_watcher)
