"""What ONNX Runtime offers here, for the port `Diagnosis`, and as other environments have it.
They need ONNX Runtime and numpy, and nothing of this package; nothing is installed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.adapters.os.paths import translated_os_errors
from polygraphy.binding import resolve
from polygraphy.domain.environment import Section
from polygraphy.domain.errors import BackendError, FileError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import save_model
from polygraphy.ports.running import Commands

_SECONDS = 300.0
_INTERPRETERS = ("bin/python", "Scripts/python.exe", "python.exe")
_VERSION = "import onnxruntime; print('version', onnxruntime.__version__)"
_RUN = """
import json, sys
import numpy, onnxruntime
model, given, made, how = sys.argv[1:]
how = json.loads(how)
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
if how.get("graph_optimization_level"):
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, how["graph_optimization_level"])
if how.get("threads"):
    options.intra_op_num_threads = how["threads"]
session = onnxruntime.InferenceSession(
    model, options, providers=how["providers"],
    disabled_optimizers=how.get("disabled_optimizers") or [])
names = [output.name for output in session.get_outputs()]
with numpy.load(given) as stored:
    feed = {value.name: stored[str(i)] for i, value in enumerate(session.get_inputs())}
values = session.run(names, feed)
numpy.savez(made, **{str(i): value for i, value in enumerate(values)})
print("names", json.dumps(names))
"""


def open_environment(path: str) -> OnnxrtEnvironment:
    """Ask an environment for its version; see the port."""
    interpreter = _interpreter(path)
    output = _output_of([interpreter, "-I", "-c", _VERSION], path)
    version = _told(output, "version")
    if version is None:
        raise BackendError(f"{path} does not say which ONNX Runtime it has.")
    return OnnxrtEnvironment(path, interpreter, version)


class OnnxrtEnvironment:
    """An interpreter with an ONNX Runtime; see the port `OtherEnvironment`."""

    def __init__(self, path: str, interpreter: str, version: str) -> None:
        self.path = path
        self.version = version
        self.install = f"pip install onnxruntime=={version}"
        self._interpreter = interpreter

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
            command = [self._interpreter, "-I", "-c", _RUN, path, given, made, how]
            names = json.loads(_told(_output_of(command, self.path), "names") or "[]")
            with np.load(made) as stored:
                return {name: stored[str(i)] for i, name in enumerate(names)}


def _interpreter(path: str) -> str:
    """Return the interpreter of a virtual environment, or the path of one as it is."""
    if not os.path.isdir(path):  # noqa: PTH112
        if not os.access(path, os.X_OK):
            raise FileError(f"{path} is no interpreter: it cannot be run.", path=path)
        return path
    with translated_os_errors(path, "read the folder"):
        found = [Path(path) / name for name in _INTERPRETERS if (Path(path) / name).exists()]
    if not found:
        raise FileError(
            f"{path} is no virtual environment: it has no {_INTERPRETERS[0]}.", path=path
        )
    return str(found[0])


def _output_of(command: list[str], path: str) -> str:
    """Return what a command wrote.

    Raises:
        BackendError: it failed; with its last line.
    """
    done = resolve(Commands).start(command, timeout=_SECONDS).wait()
    if done.code == 0:
        return done.output
    lines = [line for line in done.output.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    ended = f"signal {-done.code}" if done.code < 0 else f"exit code {done.code}"
    raise BackendError(f"{path}: {last or f'it ended with {ended} and said nothing'}")


def _told(output: str, word: str) -> str | None:
    """Return what stands behind a word at the start of a line."""
    lines = (line.partition(" ") for line in output.splitlines())
    return next((rest.strip() for first, _, rest in lines if first == word), None)


class OnnxrtDiagnosis:
    """Implements the port `Diagnosis`. The package is imported, because it alone knows, and because
    one that does not load is what a diagnosis is for; it is never installed here.
    """

    def sections(self) -> list[Section]:
        """Return the execution providers, in the package's order of priority."""
        title = "ONNX Runtime Execution Providers"
        try:
            import onnxruntime

            providers = onnxruntime.get_available_providers()
        except ModuleNotFoundError:
            return [Section(title, (), ("None: ONNX Runtime is not installed.",))]
        except Exception as error:  # A shared library that does not load, say.
            message = f"None: ONNX Runtime does not load: {type(error).__name__}: {error}"
            return [Section(title, (), (message,))]
        return [Section(title, tuple((name, "available") for name in providers))]
