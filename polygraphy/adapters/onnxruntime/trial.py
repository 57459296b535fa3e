"""Runs small models in ONNX Runtime, one after the other, without copying their outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from polygraphy import config, mod
from polygraphy.adapters.onnx_common.loadable import loadable_form
from polygraphy.adapters.onnx_common.messages import with_all_results
from polygraphy.adapters.onnxruntime.providers import (
    Provider,
    match_providers,
    message_without_source,
    translate_errors,
)
from polygraphy.adapters.onnxruntime.runner import value_of
from polygraphy.adapters.onnxruntime.session import (
    OnnxrtDataTypes,
    load_session,
    run_terminable,
    session_options,
)
from polygraphy.domain.checks.lint import TrialValue
from polygraphy.domain.errors import (
    BackendError,
    InconclusiveError,
    MissingDependencyError,
    PolygraphyException,
)
from polygraphy.domain.tensors.datatype import DataType

if TYPE_CHECKING:
    import numpy as np


onnxrt = mod.lazy_import("onnxruntime>=1.10.0")

_TYPES = OnnxrtDataTypes()
T = TypeVar("T")


class OnnxrtValue(TrialValue):
    """A value held by ONNX Runtime; values other than arrays become None in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the state for pickle: data type, shape and an array, or None for other values."""
        try:
            raw = _array(self)
        except Exception:  # A sequence, or a data type that NumPy does not have.
            raw = None
        return OnnxrtValue, (raw, self.dtype, self.shape)


class OnnxrtTrial:
    """Loads models and runs each of them once."""

    def __init__(
        self,
        providers: Sequence[Provider] | None = None,
        graph_optimization_level: str | None = None,
        provider_libraries: Mapping[str, str] | None = None,
    ) -> None:
        """Set the options of sessions; see `SessionFromOnnx`."""
        self._providers = providers
        self._graph_optimization_level = graph_optimization_level
        self._libraries = provider_libraries

    def with_settings(
        self,
        providers: Sequence[Provider] | None,
        graph_optimization_level: str | None,
        provider_libraries: Mapping[str, str] | None = None,
    ) -> OnnxrtTrial:
        """Return a trial with other settings."""
        return OnnxrtTrial(providers, graph_optimization_level, provider_libraries)

    def run(
        self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]
    ) -> dict[str, OnnxrtValue]:
        """Load a model, run it, and return the outputs.
        Raise BackendError if it fails, InconclusiveError if it takes too long.
        """
        if not onnxrt.is_installed():
            raise MissingDependencyError(
                "Nodes are not run, because onnxruntime is not installed.",
                module="onnxruntime",
                install=onnxrt.install_command(),
            )
        options = session_options(self._graph_optimization_level)
        # Hide the log, because exceptions contain the same messages.
        options.log_severity_level = 4
        providers = match_providers(self._providers or ["cpu"], self._libraries)
        with loadable_form(model) as source, _translate_errors():
            session = load_session(source, options, providers)
        names = {value.name for value in session.get_inputs()}
        given_values = {name: value for name, value in feed.items() if name in names}
        if any(
            map(_is_string_array, given_values.values())
        ):  # ONNX Runtime cannot create an OrtValue of strings.
            arrays = {name: _array(value) for name, value in given_values.items()}
            with _translate_errors():
                results = _limit_time(lambda options: session.run(list(outputs), arrays, options))
        else:
            values = {name: _ort_value(value) for name, value in given_values.items()}
            with _translate_errors():
                results = _limit_time(
                    lambda options: session.run_with_ort_values(list(outputs), values, options)
                )
        return {name: _trial_value(raw) for name, raw in zip(outputs, results)}


def _limit_time(call: Callable[[Any], T]) -> T:
    """Return the result of a call that runs a session, which is stopped after a time limit.

    Raises:
        InconclusiveError: the call takes too long.
    """
    limit = config.TRIAL_TIME_LIMIT_S
    if limit < 0:
        return run_terminable(call)
    is_over = Event()

    def run_timed(options: Any) -> T:
        """Return the result of the call, with run options that stop the run after the time
        limit."""

        def end() -> None:
            """Stop the run, because its time limit was reached."""
            is_over.set()
            options.terminate = True

        timer = Timer(limit, end)
        timer.daemon = True
        timer.start()
        try:
            return call(options)
        finally:
            timer.cancel()

    try:
        return run_terminable(run_timed)
    except Exception as error:
        if is_over.is_set():
            raise InconclusiveError(
                f"Not finished within {limit} seconds.",
                hint="Set POLYGRAPHY_TRIAL_TIME_LIMIT_S to a larger number, or to -1 for no limit.",
            ) from error
        raise


_NOISE = (
    re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : "),
    re.compile(r"^Load model from .*? failed:"),
    re.compile(r"^This is an invalid model\. In Node, .*?, Error "),
    re.compile(r"^(Node ?\(.*?\) )?Op \(.*?\) "),
    re.compile(r"^\[(Shape|Type)InferenceError\] "),
    re.compile(r"^Non-zero status code returned while running .*? Status Message: "),
    re.compile(r"^\S+:\d+ [^()]+?\(.*?\) (?=[A-Z\[])"),
)
"""Prefixes of ONNX Runtime's messages that are removed."""


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn any error of ONNX Runtime inside the block into a BackendError with the core of its
    message.
    """
    try:
        yield
    except InconclusiveError:
        raise
    except Exception as error:  # ONNX Runtime raises its own classes, RuntimeError and ValueError.
        text = " ".join(str(error).split())
        for noise in _NOISE:
            text = noise.sub("", text)
        raise BackendError(message_without_source(text), backend="onnxruntime") from error


def _is_string_array(value: Any) -> bool:
    """Return whether a value is an array of strings."""
    raw = value.raw if isinstance(value, OnnxrtValue) else value
    return isinstance(raw, np.ndarray) and raw.dtype.kind in "USO"


def _array(value: Any) -> Any:
    """Return a value as a NumPy array."""
    raw = value.raw if isinstance(value, OnnxrtValue) else np.asarray(value)
    if isinstance(raw, np.ndarray):
        return raw.astype(object) if raw.dtype.kind in "US" else raw
    return raw.numpy()


def _ort_value(value: Any) -> Any:
    """Return a value in the form that ONNX Runtime accepts."""
    if isinstance(value, OnnxrtValue):
        raw = value.raw
        return _ort_value(raw) if isinstance(raw, np.ndarray) else raw
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.kind != "V":
        return onnxrt.OrtValue.ortvalue_from_numpy(array)
    return value_of(array)[0]


def _trial_value(raw: Any) -> OnnxrtValue:
    """Return an output of ONNX Runtime with its data type and shape."""
    if isinstance(raw, np.ndarray):
        return OnnxrtValue(raw, DataType.from_dtype(raw.dtype), raw.shape)
    if isinstance(raw, list):
        return OnnxrtValue(raw, DataType.from_dtype(raw[0].dtype) if raw else None, None)
    text = raw.data_type()
    if text.startswith("seq("):
        return OnnxrtValue(raw, _TYPES.from_native(text[4:-1]), None)
    shape = tuple(raw.shape()) if raw.is_tensor() else None
    return OnnxrtValue(raw, _TYPES.from_native(text), shape)


def evaluate_constants(model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values of `outputs`; raise BackendError if ONNX Runtime has no implementation."""
    options = session_options("disable")
    with translate_errors("evaluate"):
        serialized = with_all_results(model).SerializeToString()
        session = load_session(serialized, options, ["CPUExecutionProvider"])
        computed = run_terminable(lambda options: session.run(list(outputs), {}, options))
        return dict(zip(outputs, computed))


sympy = mod.lazy_import("sympy")


def infer_symbolic_shapes(model: Any) -> Any:
    """Return a model with more shapes.
    Raise MissingDependencyError without `sympy` or ONNX Runtime, or BackendError if the tool
    fails."""
    for module, name in ((onnxrt, "onnxruntime"), (sympy, "sympy")):
        if not module.is_installed():
            install = sympy.install_command()  # The other package is also required.
            raise MissingDependencyError(
                f"Symbolic shape inference requires {name}, which is not installed. Install it"
                f" with: {install}",
                module=name,
                install=install,
            )
    from onnxruntime.tools import symbolic_shape_infer as tool

    if not isinstance(tool.onnx, _OnnxWithoutFiles):
        tool.onnx = _OnnxWithoutFiles(tool.onnx)
    try:
        shapes = tool.SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    except PolygraphyException:
        raise
    except Exception as error:  # The script raises plain exceptions, assertions and key errors.
        text = " ".join(str(error).split())
        raise BackendError(
            f"ONNX Runtime's symbolic shape inference failed: {type(error).__name__}: {text}.",
            backend="onnxruntime",
        ) from error
    if shapes is None:  # The reason is only in a log, which is hidden.
        raise BackendError(
            "ONNX Runtime's symbolic shape inference requires opset 7 or later.",
            backend="onnxruntime",
        )
    return shapes


class _OnnxWithoutFiles:
    """A stand-in for the onnx package that does not save models: the tool would leave one in the
    current folder when it fails."""

    def __init__(self, package: Any) -> None:
        """Wrap the onnx package."""
        self._package = package

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the onnx package."""
        return getattr(self._package, name)

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""
