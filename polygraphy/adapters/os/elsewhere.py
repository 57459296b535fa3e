"""Backends in other interpreters, which need the backend and numpy, and nothing of this package."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.adapters.os.interpreters import interpreter_of, output_of, value_behind
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import save_model


class OtherEnvironment:
    """An interpreter with a version of a backend; see the port `OtherEnvironment`."""

    def __init__(self, path: str, package: str, title: str, program: str) -> None:
        """Ask which version it has.

        Args:
            path: of the interpreter, or the folder of a virtual environment.
            package: what is imported there, which has a ``__version__``.
            title: what it is called.
            program: runs a model. It takes the paths of the model, of the inputs and of the outputs
                (``.npz``, by position), and the settings of a party as JSON, and prints ``names``
                with the list of outputs as JSON.

        Raises:
            FileError: there is no interpreter.
            BackendError: the backend cannot be imported there.
        """
        self._interpreter = interpreter_of(path)
        asks = f"import {package}; print('version', {package}.__version__)"
        version = value_behind(output_of([self._interpreter, "-I", "-c", asks], path), "version")
        if version is None:
            raise BackendError(f"{path} does not say which {title} it has.")
        self.path = path
        self.version = version.partition("-")[0]
        self.install = f"pip install {package}=={self.version}"
        self._program = program

    def run(
        self, model: Any, feed: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Run a model there; see the port."""
        inputs = [value.name for value in model.graph.input]
        weights = {tensor.name for tensor in model.graph.initializer}
        asked = [name for name in inputs if name not in weights]
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            path, given, made = (str(Path(folder) / n) for n in ("model.onnx", "in.npz", "out.npz"))
            with G_LOGGER.verbosity(G_LOGGER.WARNING):  # Where it is written is of no interest.
                save_model(model, path)
            np.savez(given, **{str(i): feed[name] for i, name in enumerate(asked)})
            how = json.dumps({key: value for key, value in settings.items() if key != "module"})
            command = [self._interpreter, "-I", "-c", self._program, path, given, made, how]
            names = json.loads(value_behind(output_of(command, self.path), "names") or "[]")
            with np.load(made) as stored:
                return {name: stored[str(i)] for i, name in enumerate(names)}
