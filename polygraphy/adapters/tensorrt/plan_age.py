"""Whether an engine comes from a plan of an older TensorRT, which can do less than this one."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorrt.logger import asking, watching
from polygraphy.domain.errors import BackendError

__all__ = ["require_output_allocators"]


def require_output_allocators(engine: Any, name: str) -> None:
    """Do nothing if the engine can be given an allocator for an output.

    TensorRT 10 runs version-compatible plans of 8, and ends the process when such a plan asks an
    allocator for memory. It tells them apart by what they do not support.

    Raises:
        BackendError: it cannot; TensorRT would end the process.
    """
    if not hasattr(engine, "is_debug_tensor"):  # TensorRT 8 itself.
        return
    with asking(), watching() as reasons:
        engine.is_debug_tensor(name)
    if str(reasons):
        raise BackendError(
            f"Output {name!r} has a shape that depends on the data, and the plan was built by an"
            " older TensorRT, whose plans get no memory for such outputs here.",
            backend="tensorrt",
            hint="Build the engine with this version of TensorRT, or run it with the one that built"
            " it.",
        )
