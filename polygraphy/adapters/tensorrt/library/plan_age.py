"""Whether an engine comes from a plan of an older TensorRT, which can do less than this one."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorrt.library.logger import capture_log, mute_log
from polygraphy.domain.errors import BackendError


def is_of_older_version(engine: Any) -> bool:
    """Return whether a later TensorRT runs a version-compatible plan of TensorRT 8.

    Much of what is new then answers with an error, and some of it ends the process, so that it is
    not even tried; debug tensors are what both are safe to be asked about.
    """
    if not hasattr(engine, "is_debug_tensor"):  # TensorRT 8 itself.
        return False
    with mute_log(), capture_log() as reasons:
        engine.is_debug_tensor(engine.get_tensor_name(0))
    return bool(str(reasons))


def require_output_allocators(engine: Any, name: str) -> None:
    """Do nothing if the engine can be given an allocator for an output.

    Raises:
        BackendError: it cannot; TensorRT would end the process.
    """
    if is_of_older_version(engine):
        raise BackendError(
            f"Output {name!r} has a shape that depends on the data, and the plan was built by an"
            " older TensorRT, whose plans get no memory for such outputs here.",
            backend="tensorrt",
            hint="Build the engine with this version of TensorRT, or run it with the one that built"
            " it.",
        )
