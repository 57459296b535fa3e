"""What ONNX Runtime offers here, for the port `sections_of`, and as other environments have it.
They need ONNX Runtime and numpy, and nothing of this package; nothing is installed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.adapters.os.interpreters import interpreter_of, output_of, value_behind
from polygraphy.domain.environment import Section
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import save_model

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
    interpreter = interpreter_of(path)
    output = output_of([interpreter, "-I", "-c", _VERSION], path)
    version = value_behind(output, "version")
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
            names = json.loads(value_behind(output_of(command, self.path), "names") or "[]")
            with np.load(made) as stored:
                return {name: stored[str(i)] for i, name in enumerate(names)}


def provider_sections() -> list[Section]:
    """Return the execution providers, in the package's order of priority. The package is imported,
    because it alone knows, and because one that does not load is what this is for; it is never
    installed here.
    """
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
