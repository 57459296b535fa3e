"""What a builder configuration asks for, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from polygraphy.adapters.tensorrt.library.logger import mute_log
from polygraphy.adapters.tensorrt.library.module import trt

_WIDTH = 22
_ALWAYS = "Flags"
"""What is shown in any case, first."""


def config_lines(config: Any) -> Iterator[str]:
    """Yield a line for each kind of setting of an `IBuilderConfig` that says something."""
    for title, value in _settings(config):
        if value or title == _ALWAYS:
            yield f"{title:{_WIDTH}} | {value}"


def _settings(config: Any) -> Iterator[tuple[str, Any]]:
    uses_dla = config.default_device_type == trt.DeviceType.DLA
    sources = int(config.get_tactic_sources())
    yield _ALWAYS, _on("BuilderFlag", config.get_flag) or "[]"
    yield "Engine Capability", config.engine_capability
    yield "Memory Pools", _pools(config, uses_dla=uses_dla)
    yield "Tactic Sources", _on("TacticSource", lambda it: sources & (1 << int(it))) or "[]"
    if uses_dla:
        where = f"Default Device Type: {config.default_device_type}, Core: {config.DLA_core}"
        yield "DLA", where
    yield "Profiling Verbosity", config.profiling_verbosity
    count = config.num_optimization_profiles
    yield "Optimization Profiles", f"{count} profile(s)" if count > 1 else ""
    yield "Preview Features", _on("PreviewFeature", config.get_preview_feature)
    yield "Calibrator", getattr(config, "int8_calibrator", None)
    yield "Quantization Flags", _on(
        "QuantizationFlag", getattr(config, "get_quantization_flag", bool)
    )


def _pools(config: Any, *, uses_dla: bool) -> str:
    with mute_log():  # Some pools are of hardware that is not there.
        sizes = {
            name: config.get_memory_pool_limit(pool)
            for name, pool in _members("MemoryPoolType")
            if uses_dla or not name.startswith("DLA")
        }
    return _listed(
        f"{name}: {size / (1 << 20):.2f} MiB" for name, size in sizes.items() if size > 0
    )


def _on(enum: str, is_on: Callable[[Any], object]) -> str:
    """Return the names of the members of an enum that are on; empty if none is."""
    return _listed(name for name, member in _members(enum) if is_on(member))


def _members(enum: str) -> list[tuple[str, Any]]:
    """Return the members of one of TensorRT's enums; none if this version does not have it."""
    members = getattr(getattr(trt, enum, None), "__members__", {})
    return list(members.items())


def _listed(words: Iterable[str]) -> str:
    text = ", ".join(words)
    return f"[{text}]" if text else ""
