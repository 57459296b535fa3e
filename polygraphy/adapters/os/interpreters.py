"""Other Python interpreters: their paths, their output, and their backends, which need numpy but
not this package.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.adapters.os.paths import translate_os_errors
from polygraphy.binding import resolve
from polygraphy.domain.errors import BackendError, FileError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import load_onnx, save_model
from polygraphy.ports.running import Commands

_SECONDS = 300.0
_GIVEN, _NEW = "in.npz", "out.npz"
_INTERPRETERS = ("bin/python", "Scripts/python.exe", "python.exe")


def interpreter_of(path: str) -> str:
    """Return the path of the interpreter in a virtual environment; other paths are unchanged."""
    if not os.path.isdir(path):  # noqa: PTH112
        if not os.access(path, os.X_OK):
            raise FileError(f"{path} is not an executable interpreter.", path=path)
        return path
    with translate_os_errors(path, "read the folder"):
        interpreters = [Path(path) / name for name in _INTERPRETERS if (Path(path) / name).exists()]
    if not interpreters:
        raise FileError(
            f"{path} is not a virtual environment: it has no {_INTERPRETERS[0]}.", path=path
        )
    return str(interpreters[0])


def output_of(
    command: Sequence[str],
    path: str,
    *,
    timeout: float = _SECONDS,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the output of a command.

    Raises:
        BackendError: it failed; the message has its last line and the path.
    """
    finished = resolve(Commands).start(command, timeout=timeout, environment=environment).wait()
    if finished.code == 0:
        return finished.output
    lines = [line for line in finished.output.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    ended = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
    raise BackendError(f"{path}: {last or f'exited with {ended} and no output'}")


def value_after(output: str, word: str) -> str | None:
    """Return the text after a word in the line that starts with it; None without such a line."""
    lines = (line.partition(" ") for line in output.splitlines())
    return next(
        (remaining_name.strip() for first, _, remaining_name in lines if first == word), None
    )


class OtherEnvironment:
    """An interpreter with a version of a backend; see the port `OtherEnvironment`."""

    def __init__(
        self, path: str, package: str, title: str, program: str, *, saves_graph: bool = False
    ) -> None:
        """Look up the version of a package in the environment.

        Args:
            path: the path of the interpreter, or the folder of a virtual environment.
            package: the name of a module with a ``__version__``.
            title: the name of the backend.
            program: the source of a program that runs a model. Its arguments are the paths of the
                model, of the inputs and of the outputs (``.npz``, by position), and the settings of
                a backend as JSON. It prints ``names`` and the list of outputs as JSON.
            saves_graph: whether the program knows two more settings: with ``graph``, it saves the
                executed graph to that path instead; with ``plain``, nothing is rewritten.

        Raises:
            FileError: there is no interpreter.
            BackendError: the backend cannot be imported there.
        """
        self._interpreter = interpreter_of(path)
        asks = f"import {package}; print('version', {package}.__version__)"
        version = value_after(output_of([self._interpreter, "-I", "-c", asks], path), "version")
        if version is None:
            raise BackendError(f"{path} does not report its version of {title}.")
        self.path = path
        self.version = version.partition("-")[0]
        self.install = f"pip install {package}=={self.version}"
        self._program = program
        self.saves_graph = saves_graph

    def run(
        self, model: Any, feed: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Run a model in the environment, and return its outputs."""
        inputs = [value.name for value in model.graph.input]
        weights = {tensor.name for tensor in model.graph.initializer}
        requested_names = [name for name in inputs if name not in weights]
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            given_name, new_name = (str(Path(folder) / n) for n in (_GIVEN, _NEW))
            np.savez(given_name, **{str(i): feed[name] for i, name in enumerate(requested_names)})
            names = json.loads(value_after(self._start(folder, model, settings), "names") or "[]")
            with np.load(new_name) as stored:
                return {name: stored[str(i)] for i, name in enumerate(names)}

    def runtime_graph(self, model: Any, settings: Mapping[str, Any]) -> Any | None:
        """Return the graph that the environment executes for a model; see the port."""
        if not self.saves_graph:
            return None
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            graph = Path(folder) / "graph.onnx"
            self._start(folder, model, {**settings, "graph": str(graph)})
            return load_onnx(str(graph)) if graph.exists() else None

    def _start(self, folder: str, model: Any, settings: Mapping[str, Any]) -> str:
        """Return the output of the program for a model, which is saved to a folder."""
        path, given_name, new_name = (str(Path(folder) / n) for n in ("model.onnx", _GIVEN, _NEW))
        with G_LOGGER.verbosity(G_LOGGER.WARNING):
            # Hide the message with the path, because the file is temporary.
            save_model(model, path)
        how = json.dumps({key: value for key, value in settings.items() if key != "module"})
        files = [path, given_name, new_name]
        return output_of([self._interpreter, "-I", "-c", self._program, *files, how], self.path)
