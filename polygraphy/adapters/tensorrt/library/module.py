"""The TensorRT in use: `tensorrt`, or `tensorrt_rtx` if POLYGRAPHY_USE_TENSORRT_RTX is set.

All code of this adapter uses ``from polygraphy.adapters.tensorrt.library.module import trt``, which
imports TensorRT on first use of an attribute. Tests, and programs with several versions, replace
the module.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any

from polygraphy import config
from polygraphy.domain.errors import BackendError, MissingDependencyError, UnavailableError
from polygraphy.logger import G_LOGGER, LogMode
from polygraphy.logger.errors import mark_as_logged
from polygraphy.mod.dependency import Dependency
from polygraphy.mod.versions import Requirement

_MOST_REASONS = 3
_SAME_NAME = "dimensions with this name"

_watchers: list[Reasons] = []
_askers: list[object] = []
_hearers: list[Callable[[str], None]] = []


class Reasons:
    """The errors that TensorRT logged during an action.

    Attributes:
        raised: an exception raised while a line was logged, such as ctrl-C; TensorRT does not
            forward it.
        warnings: its warnings meanwhile, one line each.
    """

    def __init__(self) -> None:
        """Start without messages."""
        self._messages: list[str] = []
        self.raised: BaseException | None = None
        self.warnings: list[str] = []

    def add(self, message: str) -> None:
        """Append a message, unless it is already in the list."""
        if message not in self._messages:
            self._messages.append(message)

    def __str__(self) -> str:
        """Return the first messages, on one line; the first one is usually the cause."""
        messages = [" ".join(message.split()) for message in self._messages[:_MOST_REASONS]]
        return " | ".join(messages)

    def error_for(self, what: str, *, hint: str = "") -> BackendError:
        """Return the error for a failed action, with TensorRT's own reasons."""
        reason = str(self)
        why = f": {reason}" if reason else "; it gave no reason."
        if not hint and any(sign in reason for sign in ("OutOfMemory", "out of memory")):
            hint = "Out of memory: use a smaller batch, smaller maximum shapes or less workspace."
        if not hint and _SAME_NAME in reason:
            hint = (
                "Dimensions with the same name must be equal, even if the name is '?': fix them"
                " with `polygraphy surgeon sanitize --override-input-shapes`."
            )
        return BackendError(f"TensorRT could not {what}{why}", backend="tensorrt", hint=hint)


@contextmanager
def capture_log() -> Iterator[Reasons]:
    """Yield an object that collects the errors TensorRT logs inside the block, from any thread.

    Exceptions of a logging call, such as KeyboardInterrupt, are raised at the end of the block.
    """
    reasons = Reasons()
    _watchers.append(reasons)
    try:
        yield reasons
    finally:
        _watchers.remove(reasons)
    if reasons.raised is not None:
        raise reasons.raised


@contextmanager
def mute_log() -> Iterator[None]:
    """Log TensorRT's errors and warnings as details inside the block."""
    asker = object()
    _askers.append(asker)
    try:
        yield
    finally:
        _askers.remove(asker)


@contextmanager
def log_listener(hear: Callable[[str], None]) -> Iterator[None]:
    """Call a function with each detailed line that TensorRT logs inside the block."""
    _hearers.append(hear)
    try:
        yield
    finally:
        _hearers.remove(hear)


def get_trt_logger() -> Any:
    """Return the `tensorrt.ILogger` of this process, which writes to `G_LOGGER`.

    TensorRT's INFO becomes VERBOSE here and its VERBOSE becomes EXTRA_VERBOSE, because messages of
    the library are details for most users. A warning is shown once.

    Raises:
        MissingDependencyError: TensorRT is not installed.
    """
    _CurrentLogger.logger = _make_logger(ModuleKey(tensorrt_module()))
    return _CurrentLogger.logger


def existing_trt_logger() -> Any:
    """Return the logger of this process; None if it was not created yet. Nothing is imported."""
    return _CurrentLogger.logger


class _CurrentLogger:
    """The logger that was created last."""

    logger: Any = None


@lru_cache(maxsize=8)
def _make_logger(key: ModuleKey) -> Any:
    """Return a new logger, derived from that of a TensorRT module."""
    module: Any = key.module
    base: Any = module.ILogger

    class TrtLogger(base):  # type: ignore[misc]
        """Passes TensorRT's log messages to `G_LOGGER`."""

        def __init__(self) -> None:
            """Create the logger."""
            base.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            """Write a line; called by TensorRT, from any thread."""
            try:
                _log_message(str(severity.name), msg)
            except BaseException as error:  # TensorRT would print the error and continue.
                if not _watchers:
                    raise
                for watcher in tuple(_watchers):
                    watcher.raised = watcher.raised or error

    return TrtLogger()


def _log_message(severity: str, message: str) -> None:
    """Log a message of TensorRT, and add an error to the blocks that collect them."""
    if severity in ("INTERNAL_ERROR", "ERROR"):
        for watcher in tuple(_watchers):  # A copy, because other threads may change the set.
            watcher.add(message)
        if _askers:
            G_LOGGER.verbose(message)
        else:
            G_LOGGER.error(message)
    elif severity == "WARNING":
        for watcher in tuple(_watchers):
            watcher.warnings.append(" ".join(message.split()))
        if _askers:
            G_LOGGER.verbose(message)
        else:
            G_LOGGER.warning(message, mode=LogMode.ONCE)
    elif severity == "INFO":
        G_LOGGER.verbose(message)
    else:
        for hear in tuple(_hearers):
            hear(message)
        G_LOGGER.extra_verbose(message)


# Special attributes that users of a module read. Tools look up others in every global, which must
# not import TensorRT.
_SPECIAL_ATTRIBUTES = {"__file__", "__name__", "__version__"}


class _Choice:
    """Holds the TensorRT module in use, once it was found or set."""

    module: Any = None


class ModuleKey:
    """A hashable key for a TensorRT module: results for a module are cached by it, so that
    stand-ins for modules need not be hashable."""

    __slots__ = ("module",)

    def __init__(self, module: Any) -> None:
        """Set the module."""
        self.module = module

    def __eq__(self, other: object) -> bool:
        """Return whether the keys have the same module."""
        return isinstance(other, ModuleKey) and other.module is self.module

    def __hash__(self) -> int:
        """Return a hash of the module's identity."""
        return id(self.module)


def tensorrt_module() -> Any:
    """Return the TensorRT module in use; it is imported on first use.

    Raises:
        MissingDependencyError: it is not installed, or cannot be imported.
    """
    if _Choice.module is None:
        _Choice.module = _import_tensorrt()
    return _Choice.module


def tensorrt_module_and_version_string() -> str:
    """Return name and version range of the TensorRT package, in the syntax of `mod.lazy_import`."""
    return "tensorrt_rtx" if config.USE_TENSORRT_RTX else "tensorrt>=8.6"


def lazy_import_trt() -> Any:
    """Return a stand-in for the TensorRT module, which is imported on first use."""
    return trt


def set_module(module: Any) -> None:
    """Replace the TensorRT module; None means to search for an installed one."""
    _Choice.module = module


@contextmanager
def use_module(module: Any) -> Iterator[Any]:
    """Replace the TensorRT module inside the block."""
    before = _Choice.module
    set_module(module)
    try:
        yield module
    finally:
        set_module(before)


def is_rtx() -> bool:
    """Return whether TensorRT-RTX is the module in use, or would be; nothing is imported."""
    if _Choice.module is None:
        return config.USE_TENSORRT_RTX
    return str(getattr(_Choice.module, "__name__", "")) == "tensorrt_rtx"


def is_installed() -> bool:
    """Return whether a TensorRT package is installed, without importing it."""
    return _Choice.module is not None or _dependency(rtx=config.USE_TENSORRT_RTX).is_installed()


def _dependency(*, rtx: bool) -> Dependency:
    """Return the package that provides TensorRT, or TensorRT-RTX."""
    if rtx:
        return Dependency(Requirement("tensorrt_rtx"), package="tensorrt-rtx")
    return Dependency(Requirement("tensorrt>=8.6"))


def _import_tensorrt() -> Any:
    """Import and return the TensorRT module."""
    try:
        return _dependency(rtx=config.USE_TENSORRT_RTX).load()
    except MissingDependencyError as error:
        if not config.USE_TENSORRT_RTX and _dependency(rtx=True).is_installed():
            error.hint = (
                "(Or set POLYGRAPHY_USE_TENSORRT_RTX=1, because TensorRT-RTX is installed.)"
            )
        raise


class _ModuleInUse:
    """A stand-in with the attributes of the module in use."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the TensorRT module in use."""
        if name.startswith("__") and name.endswith("__") and name not in _SPECIAL_ATTRIBUTES:
            raise AttributeError(name)
        return getattr(tensorrt_module(), name)

    def __dir__(self) -> list[str]:
        """Return the names in the TensorRT module in use."""
        return dir(tensorrt_module())

    def __repr__(self) -> str:
        """Return the module in use as text."""
        module = _Choice.module
        return f"<the TensorRT in use: {module!r}>" if module else "<TensorRT, not imported yet>"


trt: Any = _ModuleInUse()
"""The module in use."""

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CUdevice_attribute: COMPUTE_CAPABILITY_MAJOR and _MINOR.


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL | None:
    """Return the loaded library of the CUDA driver; None if there is none."""
    try:
        driver = ctypes.CDLL(_DRIVER)
        return driver if driver.cuInit(0) == 0 else None
    except (OSError, AttributeError):
        return None


def driver_version() -> str:
    """Return the newest CUDA version that the driver supports, such as ``13.0``.
    The result is empty without a driver or a device.
    """
    driver, version = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def has_gpu() -> bool:
    """Return whether the CUDA driver finds a GPU."""
    return _count_gpus() > 0


def gpu_name() -> str:
    """Return name and compute capability of the first visible GPU, such as ``NVIDIA H200 (9.0)``.
    The result is empty without a GPU.
    """
    driver = _driver()
    return _gpu_name(driver, 0) if driver is not None and has_gpu() else ""


def gpu_names() -> list[str]:
    """Return names and compute capabilities of the visible GPUs."""
    driver = _driver()
    return [] if driver is None else [_gpu_name(driver, index) for index in range(_count_gpus())]


def _count_gpus() -> int:
    """Return the number of visible GPUs."""
    driver, count = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def _gpu_name(driver: ctypes.CDLL, index: int) -> str:
    """Return name and compute capability of a GPU."""
    device, major, minor = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    return f"{name.value.decode(errors='replace')} ({major.value}.{minor.value})"


def require_gpu(what: str) -> None:
    """Raise BackendError unless there is a GPU.

    Raises:
        UnavailableError: there is no GPU; `what` names the feature that needs it.
    """
    if not has_gpu():
        raise UnavailableError(
            f"{what} requires a GPU, but the CUDA driver found none.",
            backend="tensorrt",
            hint="Check `nvidia-smi`, or use a machine with an NVIDIA GPU and driver.",
        )


_KEPT = "_polygraphy_error"
_CALLED_BY_BUILDS = ("int8_calibrator", "algorithm_selector")


def guard_callback(answer: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for methods that TensorRT calls:
    an exception is stored, and `answer` is returned instead.

    An exception is logged and kept, and the method returns `answer` instead, in this call and in
    all later ones.
    """

    def guard_method(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that keeps an exception for later, because TensorRT cannot pass it on."""

        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            """Return the answer of the method, or the fallback after an exception."""
            if getattr(self, _KEPT, None) is not None:
                return answer
            try:
                return method(self, *args, **kwargs)
            except BaseException as error:
                # Includes Ctrl-C, which the thread that waits for TensorRT raises again.
                setattr(self, _KEPT, error)
                if isinstance(error, Exception):
                    G_LOGGER.error(f"{type(error).__name__}: {error}")
                    mark_as_logged(error)
                return answer

        return call

    return guard_method


def raise_kept_errors(config: Any) -> None:
    """Raise the exception that a callback of a configuration kept during a build, if any.

    Call this after each build, even a successful one: TensorRT may continue after a failed
    callback.

    Args:
        config: the ``IBuilderConfig`` of the build.
    """
    for attribute in _CALLED_BY_BUILDS:
        raise_kept_error(getattr(config, attribute, None))


def raise_kept_error(owner: Any) -> None:
    """Raise the exception that a callback of an object kept, if any."""
    error = getattr(owner, _KEPT, None)
    if error is not None:
        setattr(owner, _KEPT, None)
        raise error


_OTHER_FLAGS = {
    "flags": "--onnx-flags",
    "memory_pool_limits": "--pool-limit",
    "restricted": "--trt-safety-restricted",
}
"""Flags that are not spelled like the argument."""


def flag_of(argument: str) -> str:
    """Return the command-line flag for an argument, such as ``--use-dla``."""
    return _OTHER_FLAGS.get(argument, f"--{argument.replace('_', '-')}")


def setting_of(argument: str, value: object = True) -> str:
    """Return a setting in the form its user would write, such as ``use_dla=True (--use-dla)``.

    Args:
        argument: the name of an argument for which the command line has a flag.
        value: the value, as messages show it.
    """
    return f"{argument}={value} ({flag_of(argument)})"
