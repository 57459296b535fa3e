"""Builds networks into plans and engines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, Union

from attrs import evolve

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.build.build_progress import build_watched
from polygraphy.adapters.tensorrt.build.cached_tactics import tactics_kept
from polygraphy.adapters.tensorrt.build.config import CreateConfig, request_of
from polygraphy.adapters.tensorrt.build.config_settings import FLAGS
from polygraphy.adapters.tensorrt.build.timing_cache import ensure_timing_cache, save_timing_cache
from polygraphy.adapters.tensorrt.describe.build_record import (
    record_build,
    record_of,
    remember_record,
)
from polygraphy.adapters.tensorrt.describe.compute_dtypes import network_dtypes
from polygraphy.adapters.tensorrt.library.callbacks import raise_kept_errors
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.gpu import require_gpu
from polygraphy.adapters.tensorrt.library.logger import capture_log
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.library.setting import setting_of
from polygraphy.adapters.tensorrt.network.cast_fallback import network_with, recast
from polygraphy.adapters.tensorrt.network.network import NetworkParts
from polygraphy.adapters.tensorrt.network.network_source import source_of
from polygraphy.adapters.tensorrt.plan.deserialize import deserialized
from polygraphy.binding import resolve
from polygraphy.domain.errors import UsageError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device

engine_bytes_from_network: Callable[..., Any]
engine_from_network: Callable[..., Any]

_LEAN = (
    f"Leave the lean runtime out of the engine, {setting_of('exclude_lean_runtime')}, or install"
    " its library."
)

_CASTS = {"FP16": "--fp-to-fp16", "BF16": "--to-bf16"}
"""The flags that cast models."""

PathOrFile = Union[str, "Path", IO[bytes]]


@mod.export(funcify=True)
class EngineBytesFromNetwork(BaseLoader):
    """Builds a network into a serialised engine, a plan."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        config: Any = None,
        save_timing_cache: PathOrFile | None = None,
        *,
        device: int | None = None,
    ) -> None:
        """Set what is built.

        Args:
            network: builder, network and, where there is one, parser; or a loader that makes them.
            config: the `IBuilderConfig`, or something that takes a builder and a network and
                returns one (default: ``CreateConfig()``).
            save_timing_cache: the file to which what the build measured is added.
            device: index of the GPU to build on, and for (default: the one that the calling
                thread uses). A builder that exists stays where it was made: `network` must be a
                loader.
        """
        if device is not None and not callable(network):
            raise UsageError(
                f"device={device}: the builder of that network is on a GPU already.",
                hint="Give a loader of the network, or use polygraphy.cuda.use_device.",
            )
        self._network = network
        self._device = device
        self._config = CreateConfig() if config is None else config
        self._save_timing_cache = save_timing_cache

    def call_impl(self) -> Any:
        """Return the plan, a `tensorrt.IHostMemory`.

        Raises:
            BackendError: TensorRT cannot build the network, or not in the precision asked for.
            UsageError: the network has no outputs, a profile does not fit it, or there is no such
                GPU.
        """
        if self._device is None:  # Nothing is asked of CUDA then: TensorRT-RTX builds without.
            return self._build()
        with resolve(Device).use(self._device):
            return self._build()

    def _build(self) -> Any:
        parts = network_with(self._network, request_of(self._config))
        builder, network = parts[0], parts[1]
        config = self._config(builder, network) if callable(self._config) else self._config
        request = request_of(config)
        if request:
            parts = recast(self._network, parts, request)
            network = parts[1]
        _check(network, config)
        if self._save_timing_cache is not None:
            ensure_timing_cache(config)
        plan = _built(builder, network, config)
        origin = source_of(network)
        record = record_build(
            config,
            model=origin.model if origin else "",
            precision=str(origin.request) if origin and origin.request else "",
            plan_size=plan.nbytes,
        )
        dtypes = network_dtypes(network, record.flags)
        remember_record(plan, evolve(record, compute_dtypes=dtypes))
        if self._save_timing_cache is not None:
            save_timing_cache(config, self._save_timing_cache)
        return plan


def _check(network: Any, config: Any) -> None:
    if network.num_outputs == 0:
        raise UsageError(
            "The network has no outputs, so there is nothing to build.",
            hint="Mark an output, or see the log of the parser.",
        )
    caps = capabilities()
    if caps.has("compute_capability"):
        _check_rtx(config)
    if not (caps.has("weak_typing") and caps.has("strongly_typed")):
        return
    if not network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED):
        return
    for name in ("FP16", "BF16", "INT8", "FP8"):
        flag = getattr(trt.BuilderFlag, name, None)
        if flag is not None and config.get_flag(flag):
            raise UsageError(
                f"{name} has no effect on a strongly typed network, and TensorRT refuses it.",
                hint=f"Leave {setting_of('strongly_typed')} out{_instead(name)}.",
            )


def _instead(flag: str) -> str:
    """Return how else the parsed model comes to a precision, as the end of a sentence."""
    if flag not in _CASTS:
        return ""
    return f", or use cast={flag.lower()!r} ({_CASTS[flag]}) where the network is parsed"


def _check_rtx(config: Any) -> None:
    """Refuse what TensorRT-RTX asks a GPU for, where there is none: it would only report an
    internal error.
    """
    for argument in ("refittable", "strip_plan"):
        if config.get_flag(getattr(trt.BuilderFlag, FLAGS[argument][0])):
            require_gpu(f"Building with TensorRT-RTX and {setting_of(argument)}")
    chosen = [
        config.get_compute_capability(index) for index in range(config.num_compute_capabilities)
    ]
    if trt.ComputeCapability.CURRENT in chosen:
        require_gpu("Building with TensorRT-RTX for the GPU of this machine")


def _built(builder: Any, network: Any, config: Any) -> Any:
    G_LOGGER.start(
        f"Building engine: {network.num_layers} layers, {network.num_inputs} inputs,"
        f" {network.num_outputs} outputs, {config.num_optimization_profiles} profiles"
    )
    calibrator: Any = getattr(config, "int8_calibrator", None)
    try:
        with capture_log() as reasons, tactics_kept(config):
            build = partial(builder.build_serialized_network, network, config)
            plan = build_watched(config, build)
        raise_kept_errors(config)
    finally:
        if hasattr(calibrator, "free"):
            calibrator.free()
    if plan is None:
        raise reasons.failed("build the engine", hint=_LEAN if "_lean" in str(reasons) else "")
    G_LOGGER.finish(f"Finished engine building: {plan.nbytes} bytes")
    return plan


@mod.export(funcify=True)
class EngineFromNetwork(BaseLoader):
    """Builds a network into an engine.

    Where networks are strongly typed, ``CreateConfig(fp16=True)`` and its like cast the ONNX model
    that the network was parsed from: a loader is called inside of the cast, and a network that was
    parsed already is parsed again and edited in the same way as loaders of this package did. One
    that was edited otherwise is refused, because it would have to be built in float32.
    """

    def __init__(
        self,
        network: Deferred[NetworkParts],
        config: Any = None,
        save_timing_cache: PathOrFile | None = None,
        runtime: Any = None,
        dla_workspace_allocation_strategy: Any = None,
        *,
        device: int | None = None,
    ) -> None:
        """Set what is built.

        Args:
            network: builder, network and, where there is one, parser; or a loader that makes them.
            config: the `IBuilderConfig`, or something that takes a builder and a network and
                returns one (default: ``CreateConfig()``).
            save_timing_cache: the file to which what the build measured is added.
            runtime: the `tensorrt.Runtime`, or a loader of it (default: a new one).
            dla_workspace_allocation_strategy: the strategy of that runtime.
            device: index of the GPU to build and load on; see `EngineBytesFromNetwork`.
        """
        self.timing_cache_path = save_timing_cache
        self._plan = EngineBytesFromNetwork(network, config, save_timing_cache, device=device)
        self._device = device
        self._runtime = runtime
        self._strategy = dla_workspace_allocation_strategy

    def call_impl(self) -> Any:
        """Return the `tensorrt.ICudaEngine`.

        Raises:
            BackendError: TensorRT cannot build the network, or not load what it built.
        """
        plan = self._plan.call_impl()
        if self._device is None:
            engine = deserialized(plan, self._runtime, self._strategy)
        else:
            with resolve(Device).use(self._device):
                engine = deserialized(plan, self._runtime, self._strategy)
        record = record_of(plan)
        if record is not None:
            remember_record(engine, record)
        return engine
