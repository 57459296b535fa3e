"""What TensorRT has to say: to `G_LOGGER`, and kept, because calls that fail only answer None."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from polygraphy.adapters.tensorrt.library.module import ModuleKey, tensorrt_module
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER, LogMode

_MOST_REASONS = 3
_SAME_NAME = "dimensions with this name"

_watchers: list[Reasons] = []
_askers: list[object] = []
_hearers: list[Callable[[str], None]] = []


class Reasons:
    """The errors that TensorRT logged while something was done.

    Attributes:
        raised: what came up while a line was logged, such as ctrl-C; TensorRT does not hand it on.
        warnings: what it warned of meanwhile, each on one line.
    """

    def __init__(self) -> None:
        self._messages: list[str] = []
        self.raised: BaseException | None = None
        self.warnings: list[str] = []

    def add(self, message: str) -> None:
        """Keep one message; what was said before is not kept twice."""
        if message not in self._messages:
            self._messages.append(message)

    def __str__(self) -> str:
        """Return the first messages, on one line; the first one is usually the cause."""
        shown = [" ".join(message.split()) for message in self._messages[:_MOST_REASONS]]
        return " | ".join(shown)

    def failed(self, what: str, *, hint: str = "") -> BackendError:
        """Return the error that says what failed, with TensorRT's own reason."""
        reason = str(self)
        why = f": {reason}" if reason else "; it gave no reason."
        if not hint and any(sign in reason for sign in ("OutOfMemory", "out of memory")):
            hint = "Out of memory: use a smaller batch, smaller maximum shapes or less workspace."
        if not hint and _SAME_NAME in reason:
            hint = (
                "Dimensions of one name have to be equal, also where that is '?': fix them with"
                " `polygraphy surgeon sanitize --override-input-shapes`."
            )
        return BackendError(f"TensorRT could not {what}{why}", backend="tensorrt", hint=hint)


@contextmanager
def capture_log() -> Iterator[Reasons]:
    """Collect the errors that TensorRT logs inside the block, from whichever thread.

    What a logging call raised, such as KeyboardInterrupt, is raised when the block ends.
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
    """Log errors and warnings as details inside the block: it asks for something that need not be
    there, such as what an engine of an older version has not, and says itself what that means.
    """
    asker = object()
    _askers.append(asker)
    try:
        yield
    finally:
        _askers.remove(asker)


@contextmanager
def log_listener(hear: Callable[[str], None]) -> Iterator[None]:
    """Call a function with each detail that TensorRT logs inside the block, from any thread."""
    _hearers.append(hear)
    try:
        yield
    finally:
        _hearers.remove(hear)


def get_trt_logger() -> Any:
    """Return the one `tensorrt.ILogger` of this process, which writes to `G_LOGGER`.

    TensorRT's INFO becomes VERBOSE here and its VERBOSE becomes EXTRA_VERBOSE, because what is news
    to the library is a detail to most users; a warning is shown once.

    Raises:
        MissingDependencyError: TensorRT is not installed.
    """
    _Made.logger = _make_logger(ModuleKey(tensorrt_module()))
    return _Made.logger


def made_trt_logger() -> Any:
    """Return the logger if it was asked for already; else None, importing nothing."""
    return _Made.logger


class _Made:
    """The logger that was made last."""

    logger: Any = None


@lru_cache(maxsize=8)
def _make_logger(key: ModuleKey) -> Any:
    module: Any = key.module
    base: Any = module.ILogger

    class TrtLogger(base):  # type: ignore[misc]
        """Hands what TensorRT logs to `G_LOGGER`."""

        def __init__(self) -> None:
            base.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            """Write a line; called by TensorRT, from any thread."""
            try:
                _log(str(severity.name), msg)
            except BaseException as error:  # TensorRT would print it and go on.
                if not _watchers:
                    raise
                for watcher in tuple(_watchers):
                    watcher.raised = watcher.raised or error

    return TrtLogger()


def _log(severity: str, message: str) -> None:
    if severity in ("INTERNAL_ERROR", "ERROR"):
        for watcher in tuple(_watchers):  # Other threads may come and go.
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
