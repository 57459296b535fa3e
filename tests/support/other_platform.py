"""Runs commands in this interpreter after it has lost what other operating systems do not have.

    python -m tests.support.other_platform windows '[["run", "model.onnx", "--onnxrt"]]'

It imports the standard library and other packages first: they look for their own platform. Then it
takes from `os`, `signal` and `sys.modules` what Windows, or macOS with Python 3.12, lacks, imports
every module of the package, runs the commands, and prints a JSON list of exit codes.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any, NoReturn

_LACKING = {
    "windows": {
        os: """fork forkpty register_at_fork waitid wait3 wait4 wait WEXITED WNOWAIT WNOHANG P_PID
            WIFEXITED WIFSIGNALED WTERMSIG WEXITSTATUS killpg setsid getpgid setpgid getpgrp getuid
            geteuid getgid getegid nice sysconf statvfs fchmod fchown chown lchown mkfifo openpty
            O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_DIRECTORY O_PATH RTLD_NOLOAD RTLD_GLOBAL pread pwrite
            sched_getaffinity sched_setaffinity posix_fallocate posix_spawn sendfile memfd_create
            pidfd_open getloadavg ttyname""",
        signal: """SIGKILL SIGHUP SIGCHLD SIGALRM SIGPIPE SIGUSR1 SIGUSR2 SIGTSTP SIGCONT SIGQUIT
            SIGSTOP SIGXCPU SIGXFSZ pthread_sigmask setitimer alarm sigwait pthread_kill""",
    },
    "macos": {os: """waitid WEXITED WNOWAIT P_PID memfd_create pidfd_open sched_getaffinity
            sched_setaffinity RTLD_NOLOAD posix_fallocate O_PATH"""},
}
_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")
_FOREIGN = (
    "asyncio", "black", "filelock", "hypothesis", "jinja2", "multiprocessing.pool", "numpy",
    "onnx", "onnxruntime", "platformdirs.unix", "pytest", "tempfile",
)  # fmt: skip
_OTHER_PACKAGES = ("tensorrt", "tensorflow", "torch", "openvino", "ray", "lpips", "cuda")


def become(system: str) -> None:
    """Remove functions that a system does not have from this process."""
    if system == "windows":  # filelock checks for the module when it is imported.
        sys.modules["fcntl"] = None  # type: ignore[assignment]
    for name in _FOREIGN:
        importlib.import_module(name)
    # On this system, `subprocess` needs functions of `os` that Windows lacks.
    subprocess.os = SimpleNamespace(**vars(os))  # type: ignore[attr-defined]
    subprocess.Popen.kill = lambda self: self.send_signal(9)  # type: ignore[method-assign]
    for module, names in _LACKING[system].items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    if system == "windows":
        sys.modules.update(dict.fromkeys(_MODULES))  # type: ignore[arg-type]
    else:
        sys.platform = "darwin"
    stat = os.stat

    def stat_without_proc(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        """Return the status of a path, unless it is in the hidden folder."""
        _refuse("open", (path,))
        return stat(path, *arguments, **options)

    os.stat = stat_without_proc
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Hide the folder ``/proc``, which only Linux has."""
    if event in ("open", "os.listdir", "os.scandir") and arguments:
        path = arguments[0]
        path = os.fspath(path) if isinstance(path, os.PathLike) else path
        if isinstance(path, str) and path.startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", path)


def import_all() -> list[str]:
    """Import every module of the package; return those that fail, one line each.

    Modules whose packages are not installed do not count.
    """
    import polygraphy

    failures = []
    for module in pkgutil.walk_packages(polygraphy.__path__, "polygraphy.", lambda name: None):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:
            if not any(name in str(error) for name in (*_OTHER_PACKAGES, "polygraphy.tools")):
                failures.append(f"{module.name}: {type(error).__name__}: {error}")
    return failures


def run(command: list[str]) -> int:
    """Run a command of the package, or pytest; return its exit code."""
    from polygraphy.cli.main import main

    try:
        if command[0] == "pytest":
            return int(importlib.import_module("pytest").main(command[1:]))
        return main(command) or 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _raise_exit(code: int) -> NoReturn:
    """Raise SystemExit with a code."""
    raise SystemExit(code)


def main() -> None:
    """Import all modules, then run each command; print what failed."""
    warnings.simplefilter("ignore")
    become(sys.argv[1])
    failures = import_all()
    print(*failures, sep="\n")
    os._exit, end = _raise_exit, os._exit  # Commands would end this process.
    codes = [len(failures), *map(run, json.loads(sys.argv[2]))]
    print("\nRESULT", json.dumps(codes), flush=True)
    end(0)


if __name__ == "__main__":
    main()
