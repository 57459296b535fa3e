"""How many of an engine's weights stay on the device while others are streamed to it."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorrt.library.logger import capture_log
from polygraphy.adapters.tensorrt.library.setting import setting_of
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.logger import G_LOGGER

_AUTOMATIC = -1
_ALL = -2


def set_weight_budget(engine: Any, budget: int | None, percent: float | None) -> None:
    """Limit the device memory for streamable weights. An engine takes that before it has contexts.

    Args:
        engine: an `ICudaEngine`.
        budget: in bytes; -1 to let TensorRT choose, -2 to keep all weights on the device.
        percent: of the streamable weights, from 0 to 100, instead of `budget`.

    Raises:
        UsageError: both are given, or one is out of range.
        BackendError: this TensorRT or this engine does not stream weights, or refuses.
    """
    _check(budget, percent)
    if budget is None and percent is None:
        return
    size = int(getattr(engine, "streamable_weights_size", 0))
    if not size:
        if budget == _ALL or percent == 100:
            return  # All weights are on the device as it is.
        raise BackendError(
            "The engine has no weights to stream.",
            backend="tensorrt",
            hint=f"Build it with {setting_of('weight_streaming')}, with TensorRT 10.0 or later.",
        )
    wanted = _bytes(engine, size, budget, percent)
    with capture_log() as reasons:
        if hasattr(engine, "weight_streaming_budget_v2"):
            engine.weight_streaming_budget_v2 = wanted
            got = engine.weight_streaming_budget_v2
        else:
            wanted = _for_first_version(engine, wanted, size)
            engine.weight_streaming_budget = wanted
            got = engine.weight_streaming_budget
    if got != wanted:
        raise reasons.failed(f"set the weight streaming budget to {wanted} bytes (it is {got})")
    G_LOGGER.info(f"Weight streaming: {wanted} of {size} bytes of weights stay on the device")


def _check(budget: int | None, percent: float | None) -> None:
    if budget is not None and percent is not None:
        raise UsageError("A weight streaming budget is given in bytes or in percent, not in both.")
    if percent is not None and not 0 <= percent <= 100:
        raise UsageError(f"A weight streaming budget of {percent}% is not between 0 and 100.")
    if budget is not None and budget < _ALL:
        raise UsageError(
            f"A weight streaming budget of {budget} bytes has no meaning.",
            hint="Give bytes, or -1 to let TensorRT choose, or -2 to keep all weights on the GPU.",
        )


def _bytes(engine: Any, size: int, budget: int | None, percent: float | None) -> int:
    if percent is not None:
        return int(size * percent / 100)
    assert budget is not None
    if budget == _ALL:
        return size
    if budget == _AUTOMATIC:
        if hasattr(engine, "get_weight_streaming_automatic_budget"):
            return int(engine.get_weight_streaming_automatic_budget())
        return _AUTOMATIC  # TensorRT 10.0 knows the number itself.
    return min(budget, size)


def _for_first_version(engine: Any, wanted: int, size: int) -> int:
    """Translate for TensorRT 10.0, where 0 means that nothing is streamed, and some memory is
    needed where something is.
    """
    if wanted == _AUTOMATIC:
        return wanted
    return 0 if wanted >= size else max(wanted, int(engine.minimum_weight_streaming_budget), 1)
