"""Plans that TensorRT reads from a file itself, piece by piece."""

from __future__ import annotations

import io
from typing import Any

from polygraphy.adapters.os.paths import readable_file, translated_os_errors
from polygraphy.adapters.tensorrt.library.callbacks import guarded, raise_kept_error
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, require
from polygraphy.adapters.tensorrt.library.module import trt

_WHENCE = {"SET": io.SEEK_SET, "CUR": io.SEEK_CUR, "END": io.SEEK_END}


def FileReader(filepath: str, BaseClass: Any = None) -> Any:
    """Return a stream reader for `Runtime.deserialize_cuda_engine`, a context manager.

    An error while TensorRT reads is the end of the file for it, and raised by `EngineFromBytes` or,
    where that is not used, when the block ends.

    Args:
        filepath: the plan.
        BaseClass: `tensorrt.IStreamReader` or `tensorrt.IStreamReaderV2`
            (default: the newest that there is).

    Raises:
        FileError: the file is missing or empty.
        BackendError: this TensorRT has no stream readers; `EngineFromPath` needs none.
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
            base.__init__(self)
            with translated_os_errors(path, "open"):
                self._stream = path.open("rb")

        @guarded(b"")
        def read(self, size: int, stream: int | None = None) -> bytes:
            """Return the next `size` bytes, fewer at the end of the file."""
            with translated_os_errors(path, "read"):
                return self._stream.read(size)

        def free(self) -> None:
            """Close the file."""
            self._stream.close()

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *exc_info: object) -> None:
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
