"""The settings of a builder configuration that TensorRT and TensorRT-RTX share, and the call for
each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Union

from attrs import field, fields, fields_dict, frozen

from polygraphy import mod
from polygraphy.adapters.tensorrt.engine.tactics import CachedTactics
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, enum_value, require
from polygraphy.adapters.tensorrt.library.module import capture_log, mute_log, setting_of, trt
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.logger import G_LOGGER

PathOrFile = Union[str, "Path", IO[bytes]]


def _flag(name: str, feature: str = "") -> Any:
    """Return the field of a setting that is a builder flag.

    Args:
        name: its name in TensorRT.
        feature: the feature that it needs, if not every TensorRT has it.
    """
    return field(default=None, metadata={"flag": (name, feature)})


def _attribute(enum: str = "", feature: str = "") -> Any:
    """Return the field of a setting that is an attribute of the configuration.

    Args:
        enum: the enum of its values; empty for numbers.
        feature: the feature that it needs, if not every TensorRT has it.
    """
    return field(default=None, metadata={"attribute": (enum, feature)})


@frozen
class CommonSettings:
    """Settings of a builder configuration; None always means TensorRT's default. Members of enums
    may be given by name.

    Attributes:
        profiles: one `Profile` per optimization profile (default: a single one with default
            shapes).
        precision_constraints: ``obey``, ``prefer`` or ``none``: how strictly the precisions of
            layers are enforced.
        load_timing_cache: a path or open file with the times of earlier builds.
        algorithm_selector: chooses, or records, tactics.
        sparse_weights: whether kernels for 2:4 sparse weights may be used.
        tactic_sources: the only `TacticSource` members that may be used.
        restricted: whether only features of the safety runtime may be used.
        profiling_verbosity: the amount of detail about layers in the engine (default: DETAILED).
        memory_pool_limits: bytes per `MemoryPoolType`.
        refittable: whether weights can be exchanged later.
        strip_plan: whether refittable weights are omitted from the plan.
        preview_features: the `PreviewFeature` members that are on; all others are off.
        engine_capability: the kind of engine to build.
        direct_io: whether inputs and outputs may not be reformatted.
        builder_optimization_level: the search effort of the builder, 0 to 5.
        hardware_compatibility_level: the other GPUs that the engine supports.
        max_aux_streams: number of additional streams that the engine may use.
        version_compatible: whether later versions can run the engine.
        exclude_lean_runtime: whether the plan omits the runtime for later versions.
        quantization_flags: the `QuantizationFlag` members that are on; all others are off.
        error_on_timing_cache_miss: whether a tactic that the timing cache lacks is an error.
        disable_compilation_cache: whether compiled code is not kept in the timing cache.
        progress_monitor: a `tensorrt.IProgressMonitor`.
        weight_streaming: whether weights can be streamed from the host.
        runtime_platform: the platform on which the engine will run.
        tiling_optimization_level: the search effort for tilings.
    """

    profiles: Sequence[Any] | None = None
    precision_constraints: str | None = None
    load_timing_cache: PathOrFile | None = None
    algorithm_selector: Any = None
    sparse_weights: bool | None = _flag("SPARSE_WEIGHTS")
    tactic_sources: Sequence[Any] | None = None
    restricted: bool | None = _flag("SAFETY_SCOPE")
    profiling_verbosity: Any = None
    memory_pool_limits: Mapping[Any, int] | None = None
    refittable: bool | None = _flag("REFIT")
    strip_plan: bool | None = _flag("STRIP_PLAN", "strip_plan")
    preview_features: Sequence[Any] | None = None
    engine_capability: Any = _attribute("EngineCapability")
    direct_io: bool | None = _flag("DIRECT_IO")
    builder_optimization_level: int | None = _attribute()
    hardware_compatibility_level: Any = _attribute(
        "HardwareCompatibilityLevel", "hardware_compatibility"
    )
    max_aux_streams: int | None = _attribute()
    version_compatible: bool | None = _flag("VERSION_COMPATIBLE")
    exclude_lean_runtime: bool | None = _flag("EXCLUDE_LEAN_RUNTIME")
    quantization_flags: Sequence[Any] | None = None
    error_on_timing_cache_miss: bool | None = _flag(
        "ERROR_ON_TIMING_CACHE_MISS", "error_on_timing_cache_miss"
    )
    disable_compilation_cache: bool | None = _flag(
        "DISABLE_COMPILATION_CACHE", "disable_compilation_cache"
    )
    progress_monitor: Any = None
    weight_streaming: bool | None = _flag("WEIGHT_STREAMING", "weight_streaming")
    runtime_platform: Any = _attribute("RuntimePlatform", "runtime_platform")
    tiling_optimization_level: Any = _attribute(
        "TilingOptimizationLevel", "tiling_optimization_level"
    )

    def __attrs_post_init__(self) -> None:
        """Raise UsageError for contradicting settings."""
        if self.exclude_lean_runtime and not self.version_compatible:
            raise UsageError(
                "exclude_lean_runtime requires version_compatible: no other engine contains a"
                " lean runtime.",
                hint="Set both or neither.",
            )
        known_row = (None, "obey", "prefer", "none")
        if self.precision_constraints not in known_row:
            raise UsageError(
                f"precision_constraints={self.precision_constraints!r} is unknown.",
                hint="Available: obey, prefer, none.",
            )

    def apply(self, config: Any) -> None:
        """Set all settings but profiles and caches in an `IBuilderConfig`.

        Raises:
            BackendError: this TensorRT lacks a feature, or rejects a value.
        """
        for name, (flag, feature) in FLAGS.items():
            if getattr(self, name):
                if feature:
                    require(feature, setting_of(name))
                set_flag(config, flag, setting_of(name))
        for name, (enum, feature) in ATTRIBUTES.items():
            value = getattr(self, name)
            if value is not None:
                if feature:
                    require(feature, setting_of(name, _spell(value)))
                wanted = _enum_member(enum, value, name) if enum else value
                with capture_log() as reasons:  # TensorRT only logs rejected values.
                    setattr(config, name, wanted)
                if str(reasons):
                    raise reasons.error_for(f"take {setting_of(name, _spell(value))}")
        config.profiling_verbosity = _enum_member(
            "ProfilingVerbosity", self.profiling_verbosity or "DETAILED", "profiling_verbosity"
        )
        self._apply_constraints(config)
        self._apply_sets(config)
        self._apply_pools(config)
        self._apply_objects(config)

    def _apply_constraints(self, config: Any) -> None:
        """Set how strictly layer precisions are enforced."""
        constraint = self.precision_constraints
        if constraint in (None, "none"):
            return
        if not capabilities().has("precision_constraints"):
            G_LOGGER.verbose(
                f"precision_constraints={constraint!r}: has no effect, because this TensorRT"
                " uses strongly typed networks and always obeys precisions."
            )
            return
        set_flag(
            config,
            f"{str(constraint).upper()}_PRECISION_CONSTRAINTS",
            setting_of("precision_constraints", constraint),
        )

    def _apply_sets(self, config: Any) -> None:
        """Set exactly the requested members of each enumeration, and clear the others."""
        if self.tactic_sources is not None:
            mask = 0
            for item in self.tactic_sources:
                mask |= 1 << int(_enum_member("TacticSource", item, "tactic_sources"))
            if not config.set_tactic_sources(mask):
                raise BackendError(
                    f"TensorRT rejected the tactic sources {_spell_all(self.tactic_sources)}.",
                    backend="tensorrt",
                )
        if self.preview_features is not None:
            wanted = [
                _enum_member("PreviewFeature", preview_feature, "preview_features")
                for preview_feature in self.preview_features
            ]
            for feature in trt.PreviewFeature.__members__.values():
                config.set_preview_feature(feature, feature in wanted)
        if self.quantization_flags is not None:
            self._apply_quantization_flags(config, self.quantization_flags)

    def _apply_quantization_flags(self, config: Any, flags: Sequence[Any]) -> None:
        """Set the given quantization flags, and clear the rest."""
        if not flags and not capabilities().has("quantization_flags"):
            return
        require("quantization_flags", setting_of("quantization_flags", _spell_all(flags)))
        wanted = [_enum_member("QuantizationFlag", item, "quantization_flags") for item in flags]
        for flag in trt.QuantizationFlag.__members__.values():
            (config.set_quantization_flag if flag in wanted else config.clear_quantization_flag)(
                flag
            )

    def _apply_pools(self, config: Any) -> None:
        """Set the limits of the memory pools; warn of those without effect."""
        for pool, size in (self.memory_pool_limits or {}).items():
            member = _enum_member("MemoryPoolType", pool, "memory_pool_limits")
            with capture_log() as reasons, mute_log():
                config.set_memory_pool_limit(member, int(size))
            if str(reasons):  # A command may name pools that this machine does not use.
                G_LOGGER.warning(
                    f"{setting_of('memory_pool_limits', f'{_spell(pool)}:{size}')} has no effect"
                    f" here: {reasons}"
                )

    def _apply_objects(self, config: Any) -> None:
        """Set the progress monitor, the algorithm selector and the timing cache."""
        if self.progress_monitor is not None:
            require("progress_monitor", "progress_monitor")
            config.progress_monitor = self.progress_monitor
        if isinstance(self.algorithm_selector, CachedTactics):
            self.algorithm_selector.attach(config)
        elif self.algorithm_selector is not None:
            require("algorithm_selector", "algorithm_selector")
            config.algorithm_selector = self.algorithm_selector
            if self.load_timing_cache is None:
                # The builder would not call the selector for tactics that are in its cache.
                set_flag(config, "DISABLE_TIMING_CACHE", "algorithm_selector")


def _settings_by_kind(kind: str) -> dict[str, tuple[str, str]]:
    """Return name and enumeration in TensorRT of each setting of a kind, by our name.

    They are in the order of application.
    """
    declared_settings = {
        attribute.name: attribute.metadata[kind]
        for attribute in fields(CommonSettings)
        if kind in attribute.metadata
    }
    # Set the flags first on which others depend.
    return dict(
        sorted(declared_settings.items(), key=lambda datas: datas[0] != "version_compatible")
    )


FLAGS, ATTRIBUTES = _settings_by_kind("flag"), _settings_by_kind("attribute")
"""Settings that are builder flags, and those that are attributes of the configuration."""


def common_settings(owner: str, settings: Mapping[str, Any]) -> CommonSettings:
    """Return keyword arguments as settings; raise UsageError for an unknown one.

    Raises:
        TypeError: the setting does not exist.
    """
    settings = _rename_old_settings(settings)
    attributes = fields_dict(CommonSettings)
    for name in settings:
        if name not in attributes:
            raise TypeError(f"{owner}() got an unexpected keyword argument {name!r}")
    return CommonSettings(**settings)


def _rename_old_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings with the old names replaced by the current ones."""
    old_settings = dict(settings)
    for name in ("strict_types", "obey_precision_constraints"):
        if old_settings.pop(name, None):
            mod.warn_deprecated(name, "precision_constraints='obey'", "2.0")
            old_settings["precision_constraints"] = "obey"
    workspace = old_settings.pop("max_workspace_size", None)
    if workspace is not None:
        mod.warn_deprecated("max_workspace_size", "memory_pool_limits", "2.0")
        limits = old_settings.get("memory_pool_limits") or {}
        if not any(_spell(pool) == "WORKSPACE" for pool in limits):
            old_settings["memory_pool_limits"] = {**limits, "WORKSPACE": workspace}
    return old_settings


def set_flag(config: Any, name: str, requested_name: str) -> None:
    """Set a builder flag by name; raise BackendError if this TensorRT does not have it."""
    config.set_flag(enum_value("BuilderFlag", name, requested_name))


def _enum_member(enum: str, value: Any, setting: str) -> Any:
    """Return a member of an enumeration, given as such or by name."""
    return enum_value(enum, _spell(value), setting_of(setting, _spell(value)))


def _spell(value: Any) -> str:
    """Return the name of an enumeration member; a text is unchanged."""
    return value if isinstance(value, str) else str(getattr(value, "name", value))


def _spell_all(values: Sequence[Any]) -> str:
    """Return the names of values, separated by commas; ``none`` if there are no values."""
    return ", ".join(_spell(value) for value in values) or "none"
