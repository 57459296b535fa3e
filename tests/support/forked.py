"""Runs commands and programs in forks of one interpreter that has imported what they share.

Starting an interpreter and importing numpy, onnx and ONNX Runtime takes longer than most commands
of the tests. `Interpreter` pays for that once, for all processes of tests. What a command imported
of the packages below, the server imports before the next one.

Programs, sessions of pytest and commands that start interpreters have a process of their own. Other
commands follow one another in one process, each with its own output, folder, exit code and end, as
long as `ProcessState` can restore what they change: a fork copies the pages to which it writes,
which takes more CPU time than most commands.

Other settings are read from the environment on import: a command that has others is not for a fork.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from importlib import import_module, reload
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple, NoReturn

_SHARED = (
    "attr",
    "attrs",
    "black",
    "jinja2",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "polygraphy",
    # Packages of pytest, whose import takes half of the time of a session with a few tests.
    *("_pytest", "execnet", "iniconfig", "platformdirs", "pluggy", "pygments", "pytest", "xdist"),
    *sys.stdlib_module_names,
)
"""Packages whose import starts nothing that would not survive a fork."""

IN_A_FORK = ("-p", "no:hypothesispytest", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Options of pytest sessions in forks: importing the plugin of hypothesis takes half of a session,
and assertions of modules that the server has imported are not rewritten.
"""
_FIRST = ("attrs", "jinja2", "numpy", "onnx", "onnxruntime")

_COSTLY = ("matplotlib.pyplot", "onnxruntime.tools.symbolic_shape_infer")
"""Modules that take up to a second to import, once in each process that needs them."""

_NOT_OF_COMMANDS = ("polygraphy.testing", "polygraphy.tools", "polygraphy.__main__")

_READ_AGAIN = ("POLYGRAPHY_CONSOLE", "POLYGRAPHY_EXIT_CODES")
"""Settings with values that nothing keeps: the module of settings is loaded again in each fork."""

_INTERPRETERS = {"polygraphy debug": 2, "polygraphy sweep": 2, "pytest": 1}
"""How many interpreters of this package, at most, commands start that are forks of theirs."""

_COMMANDS = 50
"""How many commands one process runs, at most: what they keep in caches would grow."""


class Ended(NamedTuple):
    """What a process left behind."""

    code: int
    out: str
    err: str


class Interpreter:
    """An interpreter that has imported what commands share, and forks for each server.

    Args:
        imports_all: whether it shall import all of this package first, which takes two seconds.

    Attributes:
        control: takes the sockets of clients.
    """

    def __init__(self, *, imports_all: bool = False) -> None:
        """Start an interpreter that forks servers."""
        self.settings = _settings(os.environ)
        self.control, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(there.fileno()), str(int(imports_all))],
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
            )

    def close(self) -> None:
        """End the interpreter; its servers end with their clients."""
        with self._process:
            self._process.terminate()
        self.control.close()


class ForkServer:
    """What runs commands in forks of an interpreter."""

    def __init__(self, interpreter: Interpreter) -> None:
        """Start a server as a fork of an interpreter."""
        self._settings = interpreter.settings
        here, there = socket.socketpair()
        with here, there:
            socket.send_fds(interpreter.control, [b"."], [there.fileno()])
            self._channel = here.makefile("rw")

    def accepts(self, environment: Mapping[str, str]) -> bool:
        """Return whether a command with this environment may run in a fork."""
        return _settings(environment) == self._settings

    def run(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] = os.environ,
        *,
        merged: bool = False,
    ) -> Ended:
        """Run a command in a folder without standard input; return its exit code and output.

        Commands are ``polygraphy ...``, ``pytest ...``, ``-c CODE ...`` or ``/path/program.py
        ...``.

        What it prints may come merged, all as output, in the order in which a terminal shows it.
        """
        with tempfile.TemporaryDirectory() as scratch:
            out, err = Path(scratch, "out"), Path(scratch, "out" if merged else "err")
            request = {
                "words": list(words),
                "folder": str(folder),
                "environment": dict(environment),
                "out": str(out),
                "err": str(err),
            }
            self._channel.write(json.dumps(request) + "\n")
            self._channel.flush()
            code = int(self._channel.readline())
            said = "" if merged else err.read_text(errors="replace")
            return Ended(code, out.read_text(errors="replace"), said)

    def close(self) -> None:
        """End the server."""
        self._channel.close()


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are read at import, and not again."""
    read = {k: v for k, v in environment.items() if k.startswith(("POLYGRAPHY_", "PYTHON"))}
    return {name: value for name, value in read.items() if name not in _READ_AGAIN}


def _wait(control: socket.socket, imports_all: bool) -> None:
    """Import shared modules, then fork a server for each client until the last one."""
    control.set_inheritable(False)
    os.dup2(2, 1)  # Imported modules may write output.
    sys.path[0] = str(Path(__file__).parents[2])
    _import(_FIRST)
    import_module("tests.support.idle_threads").let_threads_sleep()
    import_module("tests.support.twins")
    import_module("tests.support.process_state")
    if imports_all:
        import_everything()
    _fill_caches()
    while sockets := socket.recv_fds(control, 1, 1)[1]:
        channel = socket.socket(fileno=sockets[0])
        gc.freeze()
        if os.fork() == 0:
            control.close()
            _serve(channel)
        channel.close()


def import_everything() -> None:
    """Import all modules of this package and other slow ones, for all forks."""
    packages = import_module("polygraphy").__path__
    names = [found.name for found in walk_packages(packages, "polygraphy.", lambda name: None)]
    _import([name for name in names if not name.startswith(_NOT_OF_COMMANDS)])
    _import(_COSTLY)


def _serve(channel: socket.socket) -> NoReturn:
    """Run the commands that a client sends, until it closes the connection."""
    worker = None
    try:
        with channel.makefile("rw") as client:
            channel.close()
            for line in client:
                if _may_share_a_process(json.loads(line)):
                    worker = worker or _Worker()
                    code, imported = worker.run(line)
                    worker = worker if worker.is_alive else None
                else:
                    code, imported = _run_in_a_fork(line)
                print(code, file=client, flush=True)
                _import(imported)
    finally:  # Also if the client was killed: a fork that ends like an interpreter waits for threads.
        os._exit(0)


def _may_share_a_process(request: dict[str, Any]) -> bool:
    """Return whether a command may run in a process that has run others."""
    words = request["words"]
    if request["environment"].keys() & {*_READ_AGAIN} or words[0] != "polygraphy":
        return False
    return " ".join(words[:2]) not in _INTERPRETERS


class _Worker:
    """A fork that runs one command after another, until one leaves more behind than is restored."""

    def __init__(self) -> None:
        """Start a worker process."""
        here, there = socket.socketpair()
        state = import_module("tests.support.process_state").ProcessState()
        gc.freeze()
        self._pid = os.fork()
        if self._pid == 0:
            here.close()
            _run_several(there, state)
        there.close()
        self._commands_left = _COMMANDS
        self._channel = here.makefile("rw")
        here.close()
        self.is_alive = True

    def run(self, line: str) -> tuple[int, list[str]]:
        """Return the exit code of a command, and the shared modules that it imported."""
        self._channel.write(line)
        self._channel.flush()
        answer = self._channel.readline()
        code, imported, stays = json.loads(answer) if answer else (None, [], False)
        self._commands_left -= 1
        self.is_alive = bool(stays and self._commands_left)
        if not self.is_alive:
            self._channel.close()
            status = os.waitpid(self._pid, 0)[1]
            code = os.waitstatus_to_exitcode(status) if code is None else code
        return code, imported


def _run_several(channel: socket.socket, state: Any) -> NoReturn:
    """Run commands in this process until one leaves it unusable, then exit."""
    imported, logger = len(sys.modules), import_module("polygraphy.logger").G_LOGGER
    code, stays = 1, True
    try:
        state.keep_collecting_garbage()
        with channel.makefile("rw") as file:
            for line in file:
                request = json.loads(line)
                _enter(request)
                with logger.preserve():
                    code = copy_context().run(_code_of, request["words"])
                sys.stdout.flush()
                sys.stderr.flush()
                stays = state.restore()
                sys.stdout.flush()
                names = _shared_modules() if len(sys.modules) > imported else []
                file.write(json.dumps([code, names, stays]) + "\n")
                file.flush()
                if not stays:
                    break
    except BaseException:
        traceback.print_exc()
        os._exit(code or 1)
    os._exit(0)


def _run_in_a_fork(line: str) -> tuple[int, list[str]]:
    """Return the exit code of a command, and the shared modules that it imported."""
    reading, writing = os.pipe()
    gc.freeze()  # Prevents copies of memory pages when the garbage collector runs in a fork.
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run(json.loads(line), writing)
    os.close(writing)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with os.fdopen(reading, "rb") as report:
        # Do not wait for the end of the pipe: processes that the command started may keep it open.
        os.set_blocking(reading, False)
        return code, (report.read() or b"").decode().split()


def _run(request: dict[str, Any], report: int) -> NoReturn:
    """Run a command in this process, report its exit code, and exit."""
    code, imported = 1, len(sys.modules)
    try:
        _enter(request)
        if os.environ.keys() & {*_READ_AGAIN} and "polygraphy.config" in sys.modules:
            reload(sys.modules["polygraphy.config"])
        twins = import_module("tests.support.twins")
        words = request["words"]
        number = _INTERPRETERS.get(" ".join(words[: 1 if words[0] == "pytest" else 2]), 0)
        if number:
            settings = _settings(os.environ)
            twins.fork_twins(number, _code_of, lambda variables: _settings(variables) == settings)
        code = _code_of(words)
        twins.dismiss_twins()
        # Names that do not fit into the pipe are dropped; their modules are imported later.
        os.set_blocking(report, False)
        if len(sys.modules) > imported:
            # Only if necessary, because reading each name copies a memory page.
            with suppress(OSError):
                os.write(report, "\n".join(_shared_modules()).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _enter(request: dict[str, Any]) -> None:
    """Give this process the output, environment and folder of a command."""
    for target, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, request["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        file = os.open(path, flags)
        os.dup2(file, target)
        os.close(file)
    sys.stdout.reconfigure(line_buffering=request["out"] == request["err"])  # type: ignore
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])


def _shared_modules() -> list[str]:
    """Return the names of imported modules that the server imports too."""
    return [name for name in list(sys.modules) if name.partition(".")[0] in _SHARED]


def _code_of(words: list[str]) -> int:
    """Run a command, and return its exit code."""
    sys.argv[:] = words
    try:
        if words[0] in ("polygraphy", "pytest"):
            sys.path[0] = str(Path.cwd())
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.path[0] = ""
            del sys.argv[1]
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.path[0] = str(Path(words[0]).parent)
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        atexit._run_exitfuncs()
    return 0


def _fill_caches() -> None:
    """Compute what each command would compute again, about 5% of a small one."""
    # Fills the list of all operators.
    import_module("onnx.reference.ops").load_op("", "Identity", 14)
    environment = import_module("polygraphy.codegen.render")._shared()
    for name in environment.list_templates():
        environment.get_template(name)
    # ONNX Runtime registers operators and kernels for its first session. A session with one thread
    # starts no threads.
    runtime, arrays = import_module("onnxruntime"), import_module("numpy")
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[2] x) => (float[2] y) { y = Abs(x) }'
    model = import_module("onnx.parser").parse_model(text).SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    session.run(None, {"x": arrays.zeros(2, arrays.float32)})


def _import(names: Sequence[str]) -> None:
    """Import modules, and ignore those that fail."""
    for name in names:
        if name not in sys.modules and not name.endswith("__main__"):
            with suppress(Exception):
                import_module(name)


if __name__ == "__main__":
    _wait(socket.socket(fileno=int(sys.argv[1])), sys.argv[2] == "1")
