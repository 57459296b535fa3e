"""Runs commands and programs in forks of one interpreter that has imported what they share.

Starting an interpreter and importing numpy, onnx and ONNX Runtime takes longer than most commands
of the tests. `ForkServer` pays for that once; each command still has a process of its own, with its
own output, folder, exit code and end. What a command imported of the packages below, the server
imports before the next one.

Other settings are read from the environment on import: a command that has others is not for a fork.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module, reload
from pathlib import Path
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
)
"""Packages whose import starts nothing that would not survive a fork."""

IN_A_FORK = ("-p", "no:hypothesispytest", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Options of pytest sessions in forks: importing the plugin of hypothesis takes half of a session,
and assertions of modules that the server has imported are not rewritten.
"""
_FIRST = ("attrs", "jinja2", "numpy", "onnx", "onnxruntime")

_READ_AGAIN = ("POLYGRAPHY_CONSOLE", "POLYGRAPHY_EXIT_CODES")
"""Settings with values that nothing keeps: the module of settings is loaded again in each fork."""

_INTERPRETERS = {"polygraphy debug": 2, "polygraphy sweep": 2, "pytest": 1}
"""How many interpreters of this package, at most, commands start that are forks of theirs."""


class Ended(NamedTuple):
    """What a process left behind."""

    code: int
    out: str
    err: str


class ForkServer:
    """A waiting interpreter, which forks for each command."""

    def __init__(self) -> None:
        self._settings = _settings(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

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
        """Run ``polygraphy ...``, ``pytest ...``, ``-c CODE ...`` or ``/path/program.py ...`` in a
        folder, without standard input.

        What it prints may come merged, all as output, in the order in which a terminal shows it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as scratch:
            out, err = Path(scratch, "out"), Path(scratch, "out" if merged else "err")
            request = {
                "words": list(words),
                "folder": str(folder),
                "environment": dict(environment),
                "out": str(out),
                "err": str(err),
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            said = "" if merged else err.read_text(errors="replace")
            return Ended(code, out.read_text(errors="replace"), said)

    def close(self) -> None:
        """End the interpreter."""
        with self._process:
            self._process.terminate()


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are read when something is imported, and not once more."""
    read = {k: v for k, v in environment.items() if k.startswith(("POLYGRAPHY_", "PYTHON"))}
    return {name: value for name, value in read.items() if name not in _READ_AGAIN}


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Imported modules may write output.
    sys.path[0] = str(Path(__file__).parents[2])
    _import(_FIRST)
    import_module("tests.support.idle_threads").let_threads_sleep()
    import_module("tests.support.twins")
    _fill_caches()
    for line in sys.stdin:
        reading, writing = os.pipe()
        gc.freeze()  # Prevents copies of memory pages when the garbage collector runs in a fork.
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _run(json.loads(line), writing)
        os.close(writing)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers, flush=True)
        with os.fdopen(reading, "rb") as report:
            # Do not wait for the end of the pipe: processes that the command started may keep it
            # open.
            os.set_blocking(reading, False)
            _import((report.read() or b"").decode().split())


def _run(request: dict[str, Any], report: int) -> NoReturn:
    code, imported = 1, len(sys.modules)
    try:
        for target, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            (2, request["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        ):
            os.dup2(os.open(path, flags), target)
        sys.stdout.reconfigure(line_buffering=request["out"] == request["err"])  # type: ignore
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        if os.environ.keys() & {*_READ_AGAIN} and "polygraphy.config" in sys.modules:
            reload(sys.modules["polygraphy.config"])
        twins = import_module("tests.support.twins")
        words = request["words"]
        number = _INTERPRETERS.get(" ".join(words[: 1 if words[0] == "pytest" else 2]), 0)
        if number:
            settings = _settings(os.environ)
            twins.fork_twins(number, _code_of, lambda variables: _settings(variables) == settings)
        code = _code_of(request["words"])
        twins.dismiss_twins()
        # Names that do not fit into the pipe are dropped; their modules are imported later.
        os.set_blocking(report, False)
        if len(sys.modules) > imported:
            # Only if necessary, because reading each name copies a memory page.
            names = [name for name in list(sys.modules) if name.partition(".")[0] in _SHARED]
            with suppress(OSError):
                os.write(report, "\n".join(names).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _code_of(words: list[str]) -> int:
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
    """Compute what each command would compute again: up to 5% of the CPU time of a small one."""
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
    for name in names:
        if name not in sys.modules and not name.endswith("__main__"):
            with suppress(Exception):
                import_module(name)


if __name__ == "__main__":
    _serve()
