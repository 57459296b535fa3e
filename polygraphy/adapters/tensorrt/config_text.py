"""What a builder configuration asks for, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from polygraphy.adapters.tensorrt.logger import asking
from polygraphy.adapters.tensorrt.module import trt

__all__ = ["config_lines"]

_WIDTH = 22


def config_lines(config: Any) -> Iterator[str]:
    """Yield a line for each kind of setting of an `IBuilderConfig` that says something."""
    for title, value in _settings(config):
        if value:
            yield f"{title:{_WIDTH}} | {value}"


def _settings(config: Any) -> Iterator[tuple[str, Any]]:
    yield "Flags", _listed(name for name, flag in _members("BuilderFlag") if config.get_flag(flag))
    yield "Engine Capability", config.engine_capability
    with asking():  # Some pools are of hardware that is not there.
        pools = [
            (name, config.get_memory_pool_limit(pool)) for name, pool in _members("MemoryPoolType")
        ]
    yield (
        "Memory Pools",
        _listed(f"{name}: {size / (1 << 20):.2f} MiB" for name, size in pools if size > 0),
    )
    sources = int(config.get_tactic_sources())
    names = [name for name, source in _members("TacticSource") if sources & (1 << int(source))]
    yield "Tactic Sources", f"[{', '.join(names)}]"
    if config.default_device_type != trt.DeviceType.GPU:
        where = f"Default Device Type: {config.default_device_type}, Core: {config.DLA_core}"
        yield "DLA", where
    yield "Profiling Verbosity", config.profiling_verbosity
    count = config.num_optimization_profiles
    yield "Optimization Profiles", f"{count} profile(s)" if count > 1 else ""
    features = _members("PreviewFeature")
    yield "Preview Features", _listed(
        name for name, it in features if config.get_preview_feature(it)
    )
    yield "Calibrator", getattr(config, "int8_calibrator", None)
    flags = _members("QuantizationFlag")
    yield "Quantization Flags", _listed(
        name for name, it in flags if config.get_quantization_flag(it)
    )


def _members(enum: str) -> list[tuple[str, Any]]:
    """Return the members of one of TensorRT's enums; none if this version does not have it."""
    members = getattr(getattr(trt, enum, None), "__members__", {})
    return list(members.items())


def _listed(words: Iterator[str]) -> str:
    text = ", ".join(words)
    return f"[{text}]" if text else ""
