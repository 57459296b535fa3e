"""Builder configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.tensorrt.engine.config_settings import (
    CommonSettings,
    common_settings,
    set_flag,
)
from polygraphy.adapters.tensorrt.engine.profile import Profile
from polygraphy.adapters.tensorrt.engine.timing_cache import load_timing_cache
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, enum_value, require
from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.library.module import capture_log, mute_log, setting_of, trt
from polygraphy.adapters.tensorrt.network.onnx_network import source_of
from polygraphy.adapters.tensorrt.precision.casting import PrecisionRequest
from polygraphy.binding import UnboundPortError
from polygraphy.domain.catalog.precisions import PRECISIONS, REDUCED
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.ports import PathOrFile
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import find_facts

create_config: Callable[..., Any]
postprocess_config: Callable[..., Any]

_QUANTIZE_OPS = ("QUANTIZE", "DEQUANTIZE", "DYNAMIC_QUANTIZE")

# Requested precisions for which this TensorRT has no flag.
_requests: WeakKeyDictionary[Any, PrecisionRequest] = WeakKeyDictionary()


def request_of(source: Any) -> PrecisionRequest:
    """Return the precision that a configuration requests without a builder flag of TensorRT."""
    if isinstance(source, CreateConfig):
        return source.request()
    if isinstance(source, PostprocessConfig):
        return request_of(source.inner)
    return PrecisionRequest() if callable(source) else _requests.get(source, PrecisionRequest())


@mod.export(funcify=True)
class CreateConfig(BaseLoader):
    """Creates a TensorRT builder configuration."""

    def __init__(
        self,
        tf32: bool | None = None,
        fp16: bool | None = None,
        int8: bool | None = None,
        fp8: bool | None = None,
        bf16: bool | None = None,
        calibrator: Any = None,
        use_dla: bool | None = None,
        allow_gpu_fallback: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Set the options of the configuration.

        If networks are strongly typed (TensorRT 11, TensorRT-RTX), `fp16`, `bf16`, `fp8` and `int8`
        have no flag: the ONNX model is cast or quantized before it is built; see
        `EngineFromNetwork`.

        Args:
            tf32: whether matrices may be multiplied in TF32 (default: False).
            fp16: whether layers may compute in float16.
            int8: whether layers may compute in int8.
            fp8: whether layers may compute in float8.
            bf16: whether layers may compute in bfloat16.
            calibrator: finds the ranges of values for `int8`, and for `fp8` if the model is
                quantized. Not used if the network has Q/DQ layers.
            use_dla: whether layers run on the DLA if it supports them.
            allow_gpu_fallback: whether the other layers run on the GPU.
            **kwargs: see `CommonSettings`: `profiles`, `memory_pool_limits`, and so on.

        Raises:
            TypeError: the setting does not exist.
            UsageError: two settings contradict each other.
        """
        requested_values = {"tf32": tf32, "fp16": fp16, "int8": int8, "fp8": fp8, "bf16": bf16}
        self._precisions = [
            precision for precision in PRECISIONS.values() if requested_values[precision.name]
        ]
        self._calibrator = calibrator
        self._use_dla = bool(use_dla)
        self._allow_gpu_fallback = bool(allow_gpu_fallback)
        self._settings = common_settings(type(self).__name__, kwargs)

    @property
    def timing_cache_path(self) -> PathOrFile | None:
        """Return the file of the timing cache that builds start with; None without one."""
        return self._settings.load_timing_cache

    def request(self) -> PrecisionRequest:
        """Return the requested precision for which this TensorRT has no flag."""
        wanted = [precision for precision in self._precisions if precision.name in REDUCED]
        if not wanted or capabilities().has("weak_typing"):
            return PrecisionRequest()
        floats = [
            DataType[precision.dtype.upper()] for precision in wanted if not precision.is_quantized
        ]
        quantized = [
            DataType[precision.dtype.upper()] for precision in wanted if precision.is_quantized
        ]
        if len(floats) > 1:
            G_LOGGER.warning("Using fp16: this TensorRT cannot choose between fp16 and bf16.")
        return PrecisionRequest(
            floats=floats[0] if floats else None,
            quantized=quantized[0] if quantized else None,
            calibration=self._calibrator,
        )

    def call_impl(self, builder: Any, network: Any) -> Any:
        """Return the `tensorrt.IBuilderConfig`.

        Args:
            builder: the `tensorrt.Builder`.
            network: the network to build; None for a configuration without profiles that only a
                parser uses.

        Raises:
            BackendError: this TensorRT does not support a requested feature, or rejects a value.
            UsageError: a profile does not fit the network.
        """
        config = _new_config(builder)
        self._set_precisions(config)
        if self._use_dla:
            self._set_dla(builder, config)
        if self._allow_gpu_fallback:
            set_flag(config, "GPU_FALLBACK", setting_of("allow_gpu_fallback"))
        self._settings.apply(config)
        if network is not None:
            profiles = _add_profiles(builder, network, config, self._settings)
            self._set_calibrator(network, config, profiles)
        load_timing_cache(config, self.timing_cache_path)
        return config

    def _set_precisions(self, config: Any) -> None:
        """Set the flags of the requested precisions in a builder configuration."""
        config.clear_flag(trt.BuilderFlag.TF32)  # TensorRT enables TF32 by default.
        request = self.request()
        if request:
            _requests[config] = request
        for precision in self._precisions:
            if not request or precision.name not in REDUCED:
                set_flag(config, precision.name, setting_of(precision.name))

    def _set_dla(self, builder: Any, config: Any) -> None:
        """Set DLA as the device; raise an error if there is none and the GPU may not replace it."""
        if builder.num_DLA_cores == 0:
            message = f"{setting_of('use_dla')}: this machine has no DLA"
            if not self._allow_gpu_fallback:
                raise BackendError(
                    f"{message}.",
                    backend="tensorrt",
                    hint=f"Add {setting_of('allow_gpu_fallback')}.",
                )
            G_LOGGER.warning(f"{message}; every layer will run on the GPU.")
            return
        config.default_device_type = trt.DeviceType.DLA
        config.DLA_core = 0
        caps = capabilities()
        if caps.has("weak_typing") and self._settings.precision_constraints is None:
            set_flag(config, "PREFER_PRECISION_CONSTRAINTS", setting_of("use_dla"))
        if caps.has("weak_typing") and not self._allow_gpu_fallback:
            set_flag(config, "DIRECT_IO", setting_of("use_dla"))

    def _set_calibrator(self, network: Any, config: Any, profiles: list[Any]) -> None:
        """Set the calibrator and its profile, if int8 requires calibration."""
        calibrator = self._calibrator
        if calibrator is None or self.request():
            return
        if PRECISIONS["int8"] not in self._precisions:
            # Only versions without a flag for fp8 quantize the model, and need the calibrator for
            # that.
            if PRECISIONS["fp8"] in self._precisions:
                G_LOGGER.verbose("The calibrator is not used: it is for int8.")
                return
            G_LOGGER.warning("The calibrator is not used, because int8 is off.")
            return
        require("calibrators", "calibrator")
        if _has_quantization(network):
            G_LOGGER.verbose("The network has Q/DQ layers: the calibrator is not used.")
            return
        ranges = Profile(_last_profile(self._settings)).fill_defaults(network)
        if hasattr(calibrator, "set_input_metadata"):
            calibrator.set_input_metadata(_calibration_inputs(network, ranges))
        facts = _model_facts(network)
        if facts is not None and hasattr(calibrator, "set_model_facts"):
            calibrator.set_model_facts(facts)
        config.int8_calibrator = calibrator
        if not config.set_calibration_profile(profiles[-1]):
            raise BackendError("TensorRT rejected the profile for calibration.", backend="tensorrt")


def _new_config(builder: Any) -> Any:
    """Return an empty `tensorrt.IBuilderConfig`."""
    with capture_log() as reasons:
        config = builder.create_builder_config()
    if config is None:
        raise reasons.error_for("create a builder configuration")
    return config


def _add_profiles(builder: Any, network: Any, config: Any, settings: CommonSettings) -> list[Any]:
    """Add the optimization profiles of the settings, or default ones; return them as TensorRT's
    objects.

    Raises:
        UsageError: a profile does not fit the network.
        BackendError: TensorRT refuses a profile.
    """
    profiles, used = [], []
    with G_LOGGER.indent():
        for profile in settings.profiles or [Profile()]:
            filled = Profile(profile).fill_defaults(network)
            native = filled.to_trt(builder, network)
            with capture_log() as reasons:
                index = config.add_optimization_profile(native)
            if index < 0:
                raise reasons.error_for(f"use the profile {filled}")
            profiles.append(native)
            used.append(str(filled))
    if settings.profiles:
        G_LOGGER.progress(f"Configuring with profiles: [{', '.join(used)}]")
    return profiles


def _last_profile(settings: CommonSettings) -> Any:
    """Return the last optimization profile of the settings; an empty one if there is none."""
    return settings.profiles[-1] if settings.profiles else Profile()


def _has_quantization(network: Any) -> bool:
    """Return whether a network has layers that quantize or dequantize."""
    kinds = (network.get_layer(index).type.name for index in range(network.num_layers))
    return any(kind in _QUANTIZE_OPS for kind in kinds)


def _calibration_inputs(network: Any, ranges: Profile) -> TensorMetadata:
    """Return the names, data types and shapes that calibration data must have."""
    metadata = TensorMetadata()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        dtype = TensorrtDataTypes().from_native(tensor.dtype)
        shape = tuple(tensor.shape) if tensor.is_shape_tensor else ranges[tensor.name].opt
        metadata.add(tensor.name, dtype=dtype, shape=shape)
    return metadata


def _model_facts(network: Any) -> Facts | None:
    """Return the facts about the file that a network was parsed from; None if it was not parsed."""
    origin = source_of(network)
    if origin is None or not origin.model:
        return None
    try:
        return find_facts(origin.model)
    except UnboundPortError:
        return None


@mod.export(funcify=True)
class PostprocessConfig(BaseLoader):
    """Calls a user's function that changes a configuration."""

    def __init__(self, config: Any, func: Callable[..., Any]) -> None:
        """Create a loader that calls a function with a configuration, or the one from a loader.

        Args:
            config: an `IBuilderConfig`, or a callable that receives a builder and a network and
                returns one.
            func: a function that is called with the keyword arguments `builder`, `network` and
                `config`. Its return value is ignored.
        """
        self.inner = config
        self._func = func

    def call_impl(self, builder: Any, network: Any) -> Any:
        """Return the `tensorrt.IBuilderConfig`; the function is not called without a network."""
        config = self.inner(builder, network) if callable(self.inner) else self.inner
        if network is not None:
            self._func(builder=builder, network=network, config=config)
        return config


create_config_rtx: Callable[..., Any]


@mod.export(funcify=True, func_name="create_config_rtx")
class CreateConfigRTX(CreateConfig):
    """Creates a builder configuration of TensorRT-RTX."""

    def __init__(
        self,
        use_gpu: bool | None = None,
        compute_capabilities: Sequence[tuple[int, int]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Set the options of the configuration.

        Args:
            use_gpu: whether the engine is only for the GPU of this machine.
            compute_capabilities: the compute capabilities, as ``(major, minor)``, that the engine
                is for (default: TensorRT-RTX decides).
            **kwargs: see `CreateConfig` and `CommonSettings`.

        Raises:
            TypeError: the setting does not exist.
            UsageError: two settings contradict each other.
        """
        if use_gpu and compute_capabilities:
            raise UsageError(
                "use_gpu and compute_capabilities cannot be combined.",
                hint="Use only one of them.",
            )
        self._use_gpu = bool(use_gpu)
        self._compute_capabilities = list(compute_capabilities or ())
        super().__init__(**kwargs)

    def call_impl(self, builder: Any, network: Any) -> Any:
        """Return the `tensorrt_rtx.IBuilderConfig`; without profiles if `network` is None.

        Raises:
            BackendError: TensorRT-RTX is not in use, or rejects a value.
            UsageError: a profile does not fit the network.
        """
        require("compute_capability", "CreateConfigRTX")
        config = super().call_impl(builder, network)
        names = [f"SM{major}{minor}" for major, minor in self._compute_capabilities]
        if self._use_gpu:
            names = ["CURRENT"]
        if names:
            config.num_compute_capabilities = len(names)
        for index, name in enumerate(names):
            member = enum_value("ComputeCapability", name, f"compute capability {name}")
            if not config.set_compute_capability(member, index):
                raise UsageError(f"TensorRT-RTX does not build for {name}.")
        return config


_WIDTH = 22
_ALWAYS = "Flags"
"""What is shown in any case, first."""


def config_lines(config: Any) -> Iterator[str]:
    """Yield one line for each kind of setting of an `IBuilderConfig` that differs from its
    default."""
    for title, value in _settings(config):
        if value or title == _ALWAYS:
            yield f"{title:{_WIDTH}} | {value}"


def _settings(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield the title and the value of each setting of a configuration."""
    uses_dla = config.default_device_type == trt.DeviceType.DLA
    sources = int(config.get_tactic_sources())
    yield _ALWAYS, _member_names("BuilderFlag", config.get_flag) or "[]"
    yield "Engine Capability", config.engine_capability
    yield "Memory Pools", _pools(config, uses_dla=uses_dla)
    yield "Tactic Sources", _member_names(
        "TacticSource", lambda value: sources & (1 << int(value))
    ) or "[]"
    if uses_dla:
        where = f"Default Device Type: {config.default_device_type}, Core: {config.DLA_core}"
        yield "DLA", where
    yield "Profiling Verbosity", config.profiling_verbosity
    count = config.num_optimization_profiles
    yield "Optimization Profiles", f"{count} profile(s)" if count > 1 else ""
    yield "Preview Features", _member_names("PreviewFeature", config.get_preview_feature)
    yield "Calibrator", getattr(config, "int8_calibrator", None)
    yield "Quantization Flags", _member_names(
        "QuantizationFlag", getattr(config, "get_quantization_flag", bool)
    )


def _pools(config: Any, *, uses_dla: bool) -> str:
    """Return the limits of the memory pools as text."""
    with mute_log():  # Some pools belong to hardware that this machine does not have.
        sizes = {
            name: config.get_memory_pool_limit(pool)
            for name, pool in _enum_members("MemoryPoolType")
            if uses_dla or not name.startswith("DLA")
        }
    return _list_text(
        f"{name}: {size / (1 << 20):.2f} MiB" for name, size in sizes.items() if size > 0
    )


def _member_names(enum: str, is_on: Callable[[Any], object]) -> str:
    """Return the names of the members of an enumeration that are enabled, as text."""
    return _list_text(name for name, member in _enum_members(enum) if is_on(member))


def _enum_members(enum: str) -> list[tuple[str, Any]]:
    """Return names and values of one of TensorRT's enumerations; empty if this version lacks it."""
    members = getattr(getattr(trt, enum, None), "__members__", {})
    return list(members.items())


def _list_text(words: Iterable[str]) -> str:
    """Return words as a list in brackets."""
    text = ", ".join(words)
    return f"[{text}]" if text else ""
