"""Timing caches: the measurements of builds, for later builds.

Several processes may build at once and share one file: it is changed under a lock, additions of
other processes are kept, and it is replaced completely or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Union

from polygraphy import mod
from polygraphy.adapters.os.paths import atomic_file, ensure_parent, translate_os_errors
from polygraphy.adapters.tensorrt.library.module import capture_log, mute_log
from polygraphy.domain.errors import FileError
from polygraphy.logger import G_LOGGER

filelock = mod.lazy_import("filelock")

PathOrFile = Union[str, "Path", IO[bytes]]
_SECONDS_TO_WAIT = 600.0


def load_timing_cache(config: Any, source: PathOrFile | None) -> None:
    """Load the timing cache of a file into a configuration; without a file, do nothing.

    A missing or empty file is only a warning, because the first build has none; so is a file that
    TensorRT ignores.

    Raises:
        BackendError: TensorRT rejects the cache.
        FileError: the file cannot be read.
    """
    if source is None:
        return
    _set_cache(config, _read(source), source)


def ensure_timing_cache(config: Any) -> None:
    """Set an empty timing cache in a configuration without one, so that a build fills it."""
    if config.get_timing_cache() is None:
        _set_cache(config, b"", None)


def save_timing_cache(config: Any, dest: PathOrFile) -> None:
    """Merge the timings of a build into the timing cache of a file.

    Args:
        config: the configuration that was built with.
        dest: a path or an open file; an open file is overwritten from its start.

    Raises:
        BackendError: TensorRT has no cache to save, or cannot write it.
        FileError: the file cannot be written.
    """
    cache = config.get_timing_cache()
    with capture_log() as reasons:
        if cache is None:
            raise reasons.error_for("save a timing cache: the configuration has none")
        if not isinstance(dest, (str, Path)):
            _write_stream(dest, _serialize_cache(cache))
            return
        with _lock_file(dest):
            previous = _read_if_present(dest)
            if previous:
                _merge_caches(config, cache, previous, dest)
            with atomic_file(dest) as stream:
                stream.write(_serialize_cache(cache))
    G_LOGGER.info(f"Saved the timing cache to {Path(dest).absolute()}")


def _set_cache(config: Any, content: bytes, source: PathOrFile | None) -> None:
    """Set the timing cache of a configuration from bytes."""
    name = source if isinstance(source, (str, Path)) else "in the passed file object"
    with capture_log() as reasons:
        cache, complaint = _create_cache(config, content)
        if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
            raise reasons.error_for(
                f"use the timing cache {name}",
                hint="It is damaged, or from a different version or GPU. Remove it, or choose a"
                " different file.",
            )
    if complaint:
        G_LOGGER.warning(f"The timing cache {name} is not used: {complaint}")
    elif content and isinstance(source, (str, Path)):
        G_LOGGER.progress(f"Loaded the timing cache {Path(source).absolute()}")


def _create_cache(config: Any, content: bytes) -> tuple[Any, str]:
    """Return a timing cache from bytes, and the reason if TensorRT rejected them.
    The result is empty if it did not.

    Returns:
        The cache, None if TensorRT creates none; and the reason if it is empty because TensorRT
        rejected the bytes, which it only reports in its log.
    """
    with mute_log(), capture_log() as reasons:
        cache = config.create_timing_cache(content)
    return cache, reasons.warnings[-1] if content and reasons.warnings else ""


def _merge_caches(config: Any, cache: Any, known_timings: bytes, dest: str | Path) -> None:
    """Merge the timing cache of a file into another; one of another version or GPU is replaced."""
    other_value, complaint = _create_cache(config, known_timings)
    if other_value is None or complaint or not cache.combine(other_value, ignore_mismatch=False):
        G_LOGGER.warning(
            f"The timing cache {dest} is replaced, because it is damaged, or from a different"
            " version or GPU."
        )


def _serialize_cache(cache: Any) -> memoryview:
    """Return the bytes of a timing cache; raise BackendError if TensorRT cannot serialize it."""
    with mute_log(), capture_log() as reasons:
        content = cache.serialize()
        if content is None:
            raise reasons.error_for("serialize the timing cache")
    return memoryview(content)


def _read(source: PathOrFile) -> bytes:
    """Return the content of a timing cache; empty, with a warning, if there is none."""
    if not isinstance(source, (str, Path)):
        source.seek(0)
        return source.read()
    if not Path(source).exists():
        G_LOGGER.warning(f"Timing cache {source} does not exist: starting with an empty one.")
        return b""
    # The file is only replaced as a whole, so reading needs no lock.
    content = _read_if_present(source)
    if not content:
        G_LOGGER.warning(f"Timing cache {source} is empty: starting with an empty one.")
    return content


def _read_if_present(path: str | Path) -> bytes:
    """Return the content of a file; empty if there is no such file."""
    try:
        with translate_os_errors(path, "read"):
            return Path(path).read_bytes()
    except FileError:
        if Path(path).exists():
            raise
        return b""


def _write_stream(dest: IO[bytes], content: memoryview) -> None:
    """Replace the content of an open file."""
    dest.seek(0)
    dest.write(content)
    dest.truncate()
    dest.flush()


@contextmanager
def _lock_file(path: str | Path) -> Iterator[None]:
    """Hold a lock on a file inside the block, against other processes.

    Raises:
        FileError: another process holds the lock for ten minutes.
    """
    lock = filelock.FileLock(f"{ensure_parent(path)}.lock", timeout=_SECONDS_TO_WAIT)
    try:
        lock.acquire()
    except filelock.Timeout as error:  # Caught first, because `Timeout` is also an OSError.
        raise FileError(
            f"The timing cache {path} has been locked by another process for"
            f" {_SECONDS_TO_WAIT:.0f} seconds.",
            path=path,
            hint=f"If that process no longer runs, remove {path}.lock.",
        ) from error
    except OSError as error:
        raise FileError(f"Could not lock {path}: {error.strerror or error}.", path=path) from error
    try:
        yield
    finally:
        lock.release()
