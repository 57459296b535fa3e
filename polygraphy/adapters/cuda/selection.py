"""Which GPU the calling thread uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polygraphy.adapters.cuda.wrapper import wrapper
from polygraphy.domain.errors import UsageError


@contextmanager
def use_device(index: int | None) -> Iterator[None]:
    """Make the calling thread use GPU `index` inside the block, and the one before after it.

    What is made inside - memory, streams, engines - stays on that GPU.

    Args:
        index: of the GPU, from 0, among those that CUDA_VISIBLE_DEVICES shows; None to change
            nothing, for which no GPU is needed.

    Raises:
        UsageError: there is no such GPU.
        BackendError: CUDA cannot be used.
    """
    if index is None:
        yield
        return
    cuda = wrapper()
    count = cuda.device_count()
    if not 0 <= index < count:
        raise UsageError(
            f"There is no GPU {index}: there are {count}, and the first one is 0.",
            hint="See nvidia-smi and CUDA_VISIBLE_DEVICES.",
        )
    before = cuda.get_device()
    cuda.set_device(index)
    try:
        yield
    finally:
        cuda.set_device(before)
