"""Forks of a process that wait to become the interpreters that it starts.

`debug`, `diagnose` and `sweep` run parts of their work in further interpreters, which import NumPy,
ONNX and ONNX Runtime again. A command of the tests forks these before it does anything else, so
that they have imported everything and nothing has run in them. They are children of the command, in
sessions of their own, and end with it, as those that it would start.
"""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

_LARGEST = 1 << 20
_MOST_FILES = 32
_LARGEST_NUMBER = 200
_ARGUMENTS = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


class _Twin(NamedTuple):
    """A process that waits."""

    pid: int
    channel: socket.socket


_waiting: list[_Twin] = []
_owner = 0


def fork_twins(
    number: int, run: Callable[[list[str]], int], may_become: Callable[[Mapping[str, str]], bool]
) -> None:
    """Fork processes that wait to become the next interpreters with this package.

    Args:
        number: how many.
        run: what runs the arguments of an interpreter, and returns the exit code.
        may_become: whether one may have an environment.
    """
    global _owner  # noqa: PLW0603
    lifetime = sys.modules.get("polygraphy.lifetime")
    if lifetime is None or sys.platform != "linux":
        return
    _owner = os.getpid()
    for _ in range(number):
        here, there = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            for channel in (here, *(twin.channel for twin in _waiting)):
                channel.close()
            lifetime.make_follower(_owner)()
            _wait(there, run)
        there.close()
        _waiting.append(_Twin(pid, here))

    class Popen(subprocess.Popen[Any]):
        """A process that is a waiting one, if that can be."""

        def _execute_child(self, *arguments: Any) -> None:
            """Let a waiting process become the new interpreter; otherwise start one."""
            given = _ARGUMENTS.bind(self, *arguments).arguments
            if not (_is_ours(given["args"]) and may_become(given["env"] or os.environ)):
                return super()._execute_child(*arguments)  # type: ignore[misc]
            twin = _waiting.pop()
            os.write(lifetime._watcher[0], b"add %d\n" % twin.pid)
            given_files = (given["p2cread"], given["c2pwrite"], given["errwrite"])
            files = [own if file == -1 else file for own, file in enumerate(given_files)]
            request = {
                "words": given["args"][1:],
                "folder": os.fspath(given["cwd"] or Path.cwd()),
                "environment": dict(given["env"] or os.environ),
                "files": [0, 1, 2, *given["pass_fds"]],
            }
            socket.send_fds(
                twin.channel, [json.dumps(request).encode()], [*files, *given["pass_fds"]]
            )
            with twin.channel as channel:
                channel.recv(1)
            self.pid, self._child_created = twin.pid, True
            ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[end] for end in ends))  # type: ignore[attr-defined]
            return None

    lifetime.subprocess = SimpleNamespace(  # type: ignore[attr-defined]
        Popen=Popen, DEVNULL=subprocess.DEVNULL
    )


def dismiss_twins() -> None:
    """End the processes that still wait."""
    if _owner != os.getpid():
        return
    for twin in _waiting:
        twin.channel.close()
    for twin in _waiting:
        with suppress(ChildProcessError):
            os.waitpid(twin.pid, 0)


def _is_ours(words: Any) -> bool:
    """Return whether a command starts this package, so that a waiting process can run it."""
    if not _waiting or _owner != os.getpid():
        return False
    return words[:2] == [sys.executable, "-c"] and "polygraphy" in words[2]


def _wait(channel: socket.socket, run: Callable[[list[str]], int]) -> NoReturn:
    """Wait for a command, run it in this process, and exit."""
    code = 1
    try:
        os.setsid()
        text, files, _, _ = socket.recv_fds(channel, _LARGEST, _MOST_FILES)
        if not text:
            os._exit(0)
        request = json.loads(text)
        # Move the descriptors first, so that they do not collide with their final numbers.
        held = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _LARGEST_NUMBER) for file in files]
        for file, number in zip(held, request["files"], strict=True):
            os.dup2(file, number)
        for file in {*held, *files} - {*request["files"]}:
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        channel.sendall(b".")
        channel.close()
        _waiting.clear()
        sys.modules["polygraphy.lifetime"].subprocess = subprocess  # type: ignore[attr-defined]
        # `runpy` warns if the module was already imported.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
        code = run(request["words"])
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
