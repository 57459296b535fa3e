"""Start execution providers: a provider that you ask for either runs, or fails with its reason.

ONNX Runtime computes on the CPU if another provider does not start. It reports that on standard
output, in the log of its C++ library, or not at all.
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnxruntime.providers import (
    Provider,
    message_without_source,
    strip_error_code,
)
from polygraphy.binding import resolve
from polygraphy.domain.errors import UnavailableError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.reporting import Console

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

onnxrt = mod.lazy_import("onnxruntime>=1.10.0")
onnx = mod.lazy_import("onnx")

CPU = "CPUExecutionProvider"
_LIBRARIES = {
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "tensorrt",
    "ROCMExecutionProvider": "rocm",
    "MIGraphXExecutionProvider": "migraphx",
    "OpenVINOExecutionProvider": "openvino",
}
"""Name of each provider's library, without prefix and suffix."""
_NVIDIA = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
_PACKAGES = (
    ("nvinfer", "pip install tensorrt"),
    ("cud", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
    ("cu", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
)
"""Commands that install a missing library, by part of its name; the first match counts."""
_NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE of the CUDA driver API."""

Start = Callable[[Sequence[Provider]], "InferenceSession"]


def start_session(start: Start, providers: Sequence[Provider]) -> InferenceSession:
    """Return a session in which every requested provider runs.

    If the CPU provider is in the list, it may replace providers that do not start; a warning says
    so.

    Args:
        start: creates a session with some providers, without a fallback.
        providers: full names, alone or with options, in order of priority.

    Raises:
        UnavailableError: a provider does not start, and the list does not allow the CPU.
    """
    names = names_of(providers)
    if set(names) <= {CPU}:
        return start(providers)
    _mute_library()
    may_skip = CPU in names
    requested = list(providers)
    while True:
        try:
            session = _start_session(start, requested)
        except (ValueError, RuntimeError) as error:
            # The error may be about the model, so the provider is tried with another model.
            failed = _first_failing(requested)
            if failed is None:
                raise
            reason, hint = _explain_failure(failed, str(error))
        else:
            running = session.get_providers()
            failed = next((name for name in names_of(requested) if name not in running), None)
            if failed is None:
                return session
            reason, hint = _explain_failure(failed)
        if not may_skip:
            raise UnavailableError(
                f"ONNX Runtime could not start {failed}: {reason}.",
                backend="onnxruntime",
                hint=hint,
            )
        requested = [provider for provider in requested if names_of([provider]) != [failed]]
        instead = ", ".join(names_of(requested))
        resolve(Console).note(
            f"ONNX Runtime could not start {failed}: {reason}. The model runs with {instead}."
        )


def names_of(providers: Sequence[Provider]) -> list[str]:
    """Return the names of providers without their options."""
    return [provider if isinstance(provider, str) else provider[0] for provider in providers]


def _start_session(start: Start, providers: Sequence[Provider]) -> InferenceSession:
    """Return a session.
    If CUDA libraries are missing, they are loaded from Python packages first."""
    session = start(providers)
    missing = set(names_of(providers)) - set(session.get_providers())
    if missing.isdisjoint(_NVIDIA) or not _preload():
        return session
    return start(providers)


@lru_cache(maxsize=1)
def _mute_library() -> None:
    """Stop the C++ library from writing to standard error, because its reasons are reported
    here."""
    onnxrt.set_default_logger_severity(4)


@lru_cache(maxsize=1)
def _preload() -> bool:
    """Load CUDA and cuDNN from installed Python packages; return whether this ONNX Runtime can."""
    load = getattr(onnxrt, "preload_dlls", None)
    if load is None:
        return False
    string_io = io.StringIO()
    with redirect_stdout(string_io):
        load()
    if text := " ".join(string_io.getvalue().split()):
        G_LOGGER.extra_verbose(f"ONNX Runtime, loading CUDA: {text}")
    return True


def _first_failing(providers: Sequence[Provider]) -> str | None:
    """Return the first provider that does not start with a model of one node; None if all start."""
    return next(
        (name for provider in providers for name in names_of([provider]) if not starts(provider)),
        None,
    )


def starts(provider: Provider) -> bool:
    """Return whether a provider starts with a model of one node."""
    return not start_error(provider)


def start_error(provider: Provider) -> str:
    """Return why a provider does not start with a model of one node; empty if it starts."""
    _mute_library()
    options = onnxrt.SessionOptions()
    options.log_severity_level = 4

    def create_session(requested: Sequence[Provider]) -> InferenceSession:
        """Return a session of the smallest model with some providers."""
        inference_session: InferenceSession = onnxrt.InferenceSession(
            _smallest_model(), options, providers=list(requested), enable_fallback=0
        )
        return inference_session

    [name] = names_of([provider])
    try:
        session = _start_session(create_session, [provider])
        running, message = session.get_providers(), ""
    except Exception as error:  # Each provider raises its own errors.
        running, message = [], str(error)
    if name in running:
        return ""
    return ". ".join(part for part in _explain_failure(name, message) if part)


@lru_cache(maxsize=1)
def _smallest_model() -> bytes:
    """Return a model with one node, serialized."""
    helper = onnx.helper
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [info], [result])
    opsets = [helper.make_opsetid("", 13)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=7).SerializeToString()
    return model


def _explain_failure(provider: str, message: str = "") -> tuple[str, str]:
    """Return why a provider does not start, and how to fix it.

    Args:
        provider: its full name.
        message: the message of the exception from ONNX Runtime; empty without one.
    """
    if missing := _missing_library(provider):
        command = next((name for sign, name in _PACKAGES if sign in missing), "")
        hint = f"Install it ({command}), or add its folder to LD_LIBRARY_PATH." if command else ""
        return f"the library {missing} is missing", hint
    if provider in _NVIDIA and (reason := _missing_driver()):
        return reason, "`nvidia-smi` shows the driver and its GPUs."
    text = message_without_source(strip_error_code(message)).rstrip(".;, ")
    if "invalid device ordinal" in text or "Invalid device ID" in text:
        return "no GPU has this device_id", "`nvidia-smi -L` lists the GPUs."
    return text or "no reason was reported", "`polygraphy doctor` starts each provider."


def _missing_library(provider: str) -> str:
    """Return the name of the missing library that prevents a provider from loading.
    The result is empty if unknown."""
    key = _LIBRARIES.get(provider)
    if key is None:
        return ""
    folder = Path(onnxrt.__file__).parent / "capi"
    windows = sys.platform == "win32"
    path = folder / f"{'' if windows else 'lib'}onnxruntime_providers_{key}"
    path = path.with_suffix(".dll" if windows else ".so")
    if not path.exists():
        return path.name
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        name, _, reason = str(error).partition(": ")
        return name if "cannot open shared object" in reason else ""
    return ""


def _missing_driver() -> str:
    """Return why no program can use an NVIDIA GPU on this machine; empty if nothing is missing."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver: Any = ctypes.CDLL(name)
    except OSError:
        return f"no NVIDIA driver is installed ({name} is missing)"
    code = driver.cuInit(0)
    if code == 0:
        return ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    where = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
    if code == _NO_DEVICE:
        return f"no NVIDIA GPU was found{where}"
    return f"the NVIDIA driver does not start (error {code}){where}"
