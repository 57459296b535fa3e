"""Loads engines, and turns them into bytes and files."""

from __future__ import annotations

import io
import mmap
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.os.paths import (
    atomic_file,
    check_writable,
    readable_file,
    translate_os_errors,
)
from polygraphy.adapters.tensorrt.describe.build_record import (
    check_record,
    record_of,
    remember_record,
    save_record,
)
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, enum_value, require
from polygraphy.adapters.tensorrt.library.module import (
    capture_log,
    get_trt_logger,
    guard_callback,
    raise_kept_error,
    require_gpu,
    setting_of,
    tensorrt_module,
    trt,
)
from polygraphy.adapters.tensorrt.network.network import load_own_plugins
from polygraphy.domain.errors import ModelError
from polygraphy.domain.ports import PathOrFile
from polygraphy.logger import G_LOGGER

_WHENCE = {"SET": io.SEEK_SET, "CUR": io.SEEK_CUR, "END": io.SEEK_END}


def FileReader(filepath: str, BaseClass: Any = None) -> Any:
    """Return a stream reader for `Runtime.deserialize_cuda_engine`, a context manager.

    If reading fails, TensorRT sees the end of the file. `EngineFromBytes` raises the error; without
    `EngineFromBytes`, it is raised when the block ends.

    Args:
        filepath: the plan.
        BaseClass: `tensorrt.IStreamReader` or `tensorrt.IStreamReaderV2` (default: the newest
            available).

    Raises:
        FileError: the file is missing or empty.
        BackendError: this TensorRT has no stream readers. `EngineFromPath` does not require them.
    """
    caps = capabilities()
    if not caps.has("stream_reader_v2"):
        require("stream_reader", "FileReader")
    name = "IStreamReaderV2" if caps.has("stream_reader_v2") else "IStreamReader"
    base: Any = BaseClass or getattr(trt, name)
    is_v2 = hasattr(base, "seek")
    path = readable_file(filepath, "Engine")

    class Reader(base):  # type: ignore[misc]
        """Reads a plan from a file."""

        def __init__(self) -> None:
            """Open the file."""
            base.__init__(self)
            with translate_os_errors(path, "open"):
                self._stream = path.open("rb")

        @guard_callback(b"")
        def read(self, size: int, stream: int | None = None) -> bytes:
            """Return the next `size` bytes, fewer at the end of the file."""
            with translate_os_errors(path, "read"):
                return self._stream.read(size)

        def free(self) -> None:
            """Close the file."""
            self._stream.close()

        def __enter__(self) -> Any:
            """Return the reader, which is closed at the end of the block."""
            return self

        def __exit__(self, *exc_info: object) -> None:
            """Close the file."""
            self.free()
            raise_kept_error(self)

    if not is_v2:
        return Reader()

    class SeekingReader(Reader):
        """Reads a plan from a file, in any order."""

        def seek(self, offset: int, where: Any) -> bool:
            """Move to a position, and return whether that was possible."""
            try:
                self._stream.seek(offset, _WHENCE[str(where.name)])
            except (KeyError, OSError, ValueError):
                return False
            return True

    return SeekingReader()


# Keeps runtimes alive: an engine needs its runtime, and a runtime that another one loaded needs
# that one.
_runtimes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def new_runtime() -> Any:
    """Return a new `tensorrt.Runtime`, which knows TensorRT's own plugins.

    Raises:
        MissingDependencyError: TensorRT is not installed.
        BackendError: there is no GPU; TensorRT would end the process.
    """
    tensorrt_module()  # Engines require a GPU.
    require_gpu("Loading TensorRT engines, to run or to inspect them,")
    load_own_plugins()
    with capture_log() as reasons:
        try:
            return trt.Runtime(get_trt_logger())
        except TypeError as error:  # TensorRT returned a null pointer instead of an object.
            raise reasons.error_for("create a runtime") from error


def runtime_from_library(path: str) -> Any:
    """Return the runtime in a library, such as that of another version."""
    require("lean_runtime", "LoadRuntime (--load-runtime)")
    parent = new_runtime()
    _allow_host_code(parent)
    with capture_log() as reasons:
        try:
            runtime = parent.load_runtime(path)
        except RuntimeError as error:
            reasons.add(str(error))
            runtime = None
        if runtime is None:
            raise reasons.error_for(
                f"load the runtime {path}", hint="It must be a lean or dispatch runtime library."
            )
    _runtimes[runtime] = parent
    return runtime


def deserialize_plan(plan: Any, runtime: Any = None, dla_strategy: Any = None) -> Any:
    """Return the engine in a plan.

    Args:
        plan: the plan, as an object with a buffer, or a stream reader.
        runtime: the `tensorrt.Runtime`, or a loader of it; None for a new one.
        dla_strategy: a `DLAWorkspaceAllocationStrategy`, or its name, for the runtime.

    Raises:
        BackendError: TensorRT rejects the plan.
    """
    result = runtime() if callable(runtime) else runtime
    if result is None:
        result = new_runtime()
    _allow_host_code(result)
    if dla_strategy is not None:
        name = dla_strategy if isinstance(dla_strategy, str) else dla_strategy.name
        setting = setting_of("dla_workspace_allocation_strategy", name)
        require("dla_workspace_allocation_strategy", setting)
        result.dla_workspace_allocation_strategy = enum_value(
            "DLAWorkspaceAllocationStrategy", name, setting
        )
    with capture_log() as reasons:
        engine = result.deserialize_cuda_engine(plan)
        raise_kept_error(plan)  # A plan may be a `FileReader`.
        if engine is None:
            caps = capabilities()
            raise reasons.error_for(
                "load the engine",
                hint="A plan only works with the TensorRT version and type of GPU that built it;"
                f" this is {caps.name} {caps.version}.",
            )
    _runtimes[engine] = result
    return engine


def _allow_host_code(runtime: Any) -> None:
    """Allow plans to contain host code, as version-compatible ones do."""
    if hasattr(runtime, "engine_host_code_allowed"):
        runtime.engine_host_code_allowed = True


HEADER_SIZE = 64
"""Number of bytes that identify a plan."""

_RTX_TAG = b"vtrt\0\0\0\0"
"""The start of plans of TensorRT-RTX; the size of the plan is in the eight bytes from 16."""
_SIZE = slice(16, 24)

_LFS = b"version https://git-lfs"
_TEXT = re.compile(rb"[\t\n\r -~]{16,}")
_ONNX = re.compile(rb"\x08[\x01-\x20][\x12\x1a\x22\x28\x32\x3a\x42]")

_IS: tuple[tuple[str, Callable[[bytes], object], str], ...] = (
    (
        "a Git LFS pointer file; the engine was not fetched",
        lambda head: head.startswith(_LFS),
        "Fetch it: git lfs pull.",
    ),
    (
        "an ONNX model",
        _ONNX.match,
        "Build it: polygraphy convert MODEL --convert-to trt, or run it with --model-type onnx.",
    ),
    (
        "a calibration cache",
        lambda head: head.startswith(b"TRT-"),
        "Use it in a build: --int8 --calibration-cache.",
    ),
    ("a zip archive", lambda head: head.startswith(b"PK\3\4"), ""),
    ("gzip data", lambda head: head.startswith(b"\x1f\x8b"), "Unpack it first."),
    ("an HDF5 file", lambda head: head.startswith(b"\x89HDF"), "Use --model-type keras."),
    (
        "a shared library",
        lambda head: head.startswith(b"\x7fELF"),
        "Plugins are loaded by --plugins.",
    ),
    (
        "a file that starts with zeros only",
        lambda head: len(head) > 7 and not any(head),
        "Copy it again.",
    ),
    ("text", _TEXT.fullmatch, ""),
)


def check_plan(head: bytes, size: int, path: str | Path | None = None) -> None:
    """Raise an error if a file is certainly not a plan; TensorRT checks the rest.

    Args:
        head: the first `HEADER_SIZE` bytes.
        size: number of bytes.
        path: the file, for messages; None for memory.

    Raises:
        ModelError: it is not a plan, or is truncated.
    """
    name = "The engine" if path is None else str(path)
    for kind, is_such, hint in _IS:
        if is_such(head):
            raise ModelError(
                f"{name} is not a TensorRT engine: it is {kind}.", path=path, hint=hint
            )
    if head.startswith(_RTX_TAG) and len(head) >= _SIZE.stop:
        expected = int.from_bytes(head[_SIZE], "little")
        if size < expected:
            raise ModelError(
                f"{name} is truncated: it has {size} of {expected} bytes.",
                path=path,
                hint="Copy it again, or build it again.",
            )


buffer_from_engine: Callable[..., Any]
bytes_from_engine: Callable[..., bytes]
engine_from_bytes: Callable[..., Any]
engine_from_path: Callable[..., Any]
load_runtime: Callable[..., Any]
save_engine: Callable[..., Any]


@mod.export(funcify=True)
class LoadRuntime(BaseLoader):
    """Loads the TensorRT runtime in a library, such as the lean runtime of another version."""

    def __init__(self, path: str) -> None:
        """Create a loader of a runtime from a library."""
        self._path = path

    def call_impl(self) -> Any:
        """Return the `tensorrt.Runtime`.

        Raises:
            FileError: there is no such file.
            BackendError: it contains no runtime that this TensorRT can use.
        """
        return runtime_from_library(str(readable_file(self._path, "Runtime library")))


@mod.export(funcify=True)
class EngineFromBytes(BaseLoader):
    """Creates an engine from a plan in memory."""

    def __init__(
        self,
        serialized_engine: Deferred[Any],
        runtime: Any = None,
        dla_workspace_allocation_strategy: Any = None,
    ) -> None:
        """Create a loader of the engine in a plan, or in the plan from a loader.

        Args:
            serialized_engine: bytes, another object with a buffer, a `FileReader`, or a loader that
                returns one of these.
            runtime: the `tensorrt.Runtime`, or a loader of it (default: a new one).
            dla_workspace_allocation_strategy: the strategy of that runtime.
        """
        self._serialized = serialized_engine
        self._runtime = runtime
        self._strategy = dla_workspace_allocation_strategy

    def call_impl(self) -> Any:
        """Return the `tensorrt.ICudaEngine`.

        Raises:
            ModelError: the beginning shows that this is not a plan, or that the plan is incomplete.
            BackendError: TensorRT rejects the plan.
        """
        plan = evaluate(self._serialized)
        if isinstance(plan, (bytes, bytearray)):
            check_plan(bytes(plan[:HEADER_SIZE]), len(plan))
        engine = deserialize_plan(plan, self._runtime, self._strategy)
        record = record_of(plan)
        if record is not None:
            remember_record(engine, record)
        return engine


@mod.export(funcify=True)
class EngineFromPath(BaseLoader):
    """Creates an engine from a plan file, which is mapped, so that memory contains no
    second copy.
    """

    def __init__(
        self, path: str, runtime: Any = None, dla_workspace_allocation_strategy: Any = None
    ) -> None:
        """Create a loader of the engine in a file.

        Args:
            path: the plan.
            runtime: the `tensorrt.Runtime`, or a loader of it (default: a new one).
            dla_workspace_allocation_strategy: the strategy of that runtime.
        """
        self._path = path
        self._runtime = runtime
        self._strategy = dla_workspace_allocation_strategy

    def call_impl(self) -> Any:
        """Return the `tensorrt.ICudaEngine`; warn if it was built for a different version or GPU.

        Raises:
            FileError: the file is missing or empty.
            ModelError: the beginning shows that the file is not a plan, or that the plan is
                incomplete.
            BackendError: TensorRT rejects the plan.
        """
        path = readable_file(self._path, "Engine")
        G_LOGGER.progress(f"Loading bytes from {path.absolute()}")
        record = check_record(path)
        with (
            translate_os_errors(path, "read"),
            path.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as plan,
        ):
            check_plan(plan[:HEADER_SIZE], len(plan), path)
            engine = deserialize_plan(plan, self._runtime, self._strategy)
        if record is not None:
            remember_record(engine, record)
        return engine


@mod.export(funcify=True)
class BufferFromEngine(BaseLoader):
    """Serializes an engine into memory of TensorRT, without a copy in Python."""

    def __init__(self, engine: Deferred[Any]) -> None:
        """Create a loader that serializes an engine, or the engine from a loader."""
        self._engine = engine

    def call_impl(self) -> Any:
        """Return the plan, a `tensorrt.IHostMemory`; raise BackendError if TensorRT fails."""
        return _serialize_engine(evaluate(self._engine))


@mod.export(funcify=True)
class BytesFromEngine(BaseLoader):
    """Serializes an engine into bytes."""

    def __init__(self, engine: Deferred[Any]) -> None:
        """Create a loader that serializes an engine, or the engine from a loader."""
        self._engine = engine

    def call_impl(self) -> bytes:
        """Return the plan; raise BackendError if TensorRT cannot serialize the engine."""
        return bytes(_serialize_engine(evaluate(self._engine)))


@mod.export(funcify=True)
class SaveEngine(BaseLoader):
    """Writes an engine to a file and returns it. Its build record, if known, goes to
    ``<path>.build.json``."""

    def __init__(self, engine: Deferred[Any], path: PathOrFile) -> None:
        """Create a loader that saves an engine, or the engine from a loader, to a path or an open
        file.
        """
        self._engine = engine
        self._path = path

    def call_impl(self) -> Any:
        """Write the file atomically, and return the engine.

        Raises:
            BackendError: TensorRT cannot serialize the engine.
            FileError: the file cannot be written. This is checked before a loader builds the
                engine.
        """
        path = self._path
        if not isinstance(path, (str, Path)):
            engine = evaluate(self._engine)
            path.write(memoryview(_serialize_engine(engine)))
            path.flush()
            return engine
        check_writable(path)
        engine = evaluate(self._engine)
        content = memoryview(_serialize_engine(engine))
        G_LOGGER.info(f"Saving engine to: {Path(path).absolute()}")
        with atomic_file(path) as stream:
            stream.write(content)
        save_record(path, record_of(engine), content.nbytes)
        return engine


def _serialize_engine(engine: Any) -> Any:
    """Return the plan of an engine; raise BackendError if TensorRT fails."""
    if not hasattr(engine, "serialize"):  # The object is already a serialized engine.
        return engine
    with capture_log() as reasons:
        plan = engine.serialize()
        if plan is None:
            raise reasons.error_for("serialize the engine")
    return plan
