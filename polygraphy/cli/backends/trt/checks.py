"""Warnings about TensorRT options without effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from polygraphy.cli.backends.trt.config_options import (
    TrtConfigOptions,
    TrtDeviceOptions,
    TrtPlanOptions,
    TrtScriptOptions,
)
from polygraphy.cli.backends.trt.engine_options import (
    TrtLoadOptions,
    TrtRunnerOptions,
    TrtSaveOptions,
)
from polygraphy.cli.backends.trt.names import DATA_TYPES
from polygraphy.cli.backends.trt.network_options import (
    TrtNetworkOptions,
    TrtParserOptions,
    TrtPluginOptions,
)
from polygraphy.cli.backends.trt.precision_options import (
    TrtCalibrationOptions,
    TrtPrecisionOptions,
    TrtTensorOptions,
)
from polygraphy.cli.backends.trt.profiles import TrtProfileOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions
from polygraphy.cli.declare.errors import warn_of_idle_flags
from polygraphy.cli.declare.option import (
    Options,
    Values,
    non_default_flags,
    non_default_flags_for_calls,
)
from polygraphy.domain.catalog.precisions import PRECISIONS

NETWORK_GROUPS: tuple[type[Options], ...] = (TrtParserOptions, TrtNetworkOptions, TrtTensorOptions)
"""Options for the network of an engine."""


CONFIG_GROUPS: tuple[type[Options], ...] = (
    TrtProfileOptions,
    TrtPrecisionOptions,
    TrtCalibrationOptions,
    TrtTacticOptions,
    TrtConfigOptions,
    TrtPlanOptions,
    TrtDeviceOptions,
    TrtScriptOptions,
)
"""Options for the build of an engine."""

BUILD_GROUPS = (*CONFIG_GROUPS, *NETWORK_GROUPS)

LOAD_GROUPS: tuple[type[Options], ...] = (TrtLoadOptions, TrtRunnerOptions)
"""Options for loading and running an engine."""

CONFIG_CALLS = ("CreateConfig", "CreateConfigRTX", "Calibrator")
"""Calls that create a configuration, which a script can replace."""

_LEGACY = ("--quantile", "--regression-cutoff")
"""Options of the legacy calibrator only."""


def warn_about_groups(
    values: Values, *, builds: bool, loads: bool, saves: bool = True, because: str = ""
) -> None:
    """Log a warning about options without effect, because nothing is built or nothing runs.

    Args:
        values: the options.
        builds: whether an engine is built.
        loads: whether an engine is run.
        saves: whether the command has options about saving and running engines at all.
        because: the reason why nothing is built.
    """
    groups: list[type[Options]] = [] if builds else [*BUILD_GROUPS]
    if saves and not builds:
        groups.append(TrtSaveOptions)
    if not (builds or loads):
        groups.append(TrtPluginOptions)
    if saves and not loads:
        groups += LOAD_GROUPS
    warn_of_idle_flags(
        non_default_flags(values, groups, besides=["--fp32"]), f", because {because}"
    )


def warn_about_unused(values: Values) -> None:
    """Log warnings about build options that others override, or that need others."""
    for reason, flags in _flags_without_effect(values):
        warn_of_idle_flags(flags, reason)


def _flags_without_effect(values: Values) -> Iterator[tuple[str, list[str]]]:
    """Yield flags without effect, each with the reason as the rest of a sentence."""
    calibrating = non_default_flags_for_calls(values, ["Calibrator"])
    if values[TrtScriptOptions].trt_config_script is not None:
        feeding = non_default_flags_for_calls(values, CONFIG_CALLS)
        yield ", because --trt-config-script creates the configuration", feeding
        return
    build, tactics, tensors = (
        values[TrtConfigOptions],
        values[TrtTacticOptions],
        values[TrtTensorOptions],
    )
    if build.workspace is not None and "workspace" in (build.pool_limit or {}):
        yield ", because --pool-limit workspace: overrides it", ["--workspace"]
    if tactics.timing_cache is not None and tactics.load_timing_cache and tactics.save_timing_cache:
        outranking = "--load-timing-cache and --save-timing-cache override it"
        yield f", because {outranking}", ["--timing-cache"]
    if tensors.all_tensor_dtypes is not None and tensors.tensor_dtypes is not None:
        yield ", because --all-tensor-dtypes overrides it", ["--tensor-dtypes"]
    if tensors.all_tensor_formats is not None and tensors.tensor_formats is not None:
        yield ", because --all-tensor-formats overrides it", ["--tensor-formats"]
    if not is_calibrated(values[TrtPrecisionOptions]):
        yield " without --int8 or --fp8", calibrating
    elif values[TrtCalibrationOptions].calib_base_cls != "IInt8LegacyCalibrator":
        legacy = [flag for flag in _LEGACY if flag in calibrating]
        yield " without --calib-base-cls IInt8LegacyCalibrator", legacy


def is_calibrated(options: TrtPrecisionOptions) -> bool:
    """Return whether the build computes in 8 bits, for which value ranges may need calibration."""
    constraints = options.precision_constraints
    layers = {
        *(options.layer_precisions or {}).values(),
        *(constraints.values() if isinstance(constraints, Mapping) else ()),
    }
    quantized = [precision for precision in PRECISIONS.values() if precision.is_quantized]
    return any(getattr(options, precision.name) for precision in quantized) or any(
        DATA_TYPES[precision.dtype] in layers for precision in quantized
    )
