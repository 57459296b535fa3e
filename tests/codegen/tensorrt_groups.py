"""Option groups about TensorRT and TensorFlow in which every option that takes text has one."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.backends.tf import (
    TfRunnerOptions,
    TfSaveOptions,
    TfTrtOptions,
)
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
from polygraphy.cli.shared.model import TfLoadOptions, TfOnnxOptions

__all__ = ["tensorrt_groups"]


def tensorrt_groups(first: str, second: str, third: str, fourth: str) -> dict[Any, Any]:
    """Return the groups of `run`, without a configuration script."""
    shapes = ({first: ((1, 2),)},)
    return {
        TrtProfileOptions: TrtProfileOptions(shapes, shapes, shapes),
        TrtPrecisionOptions: TrtPrecisionOptions(
            int8=True,
            precision_constraints={second: "float16"},
            layer_precisions={third: "float32"},
        ),
        TrtTensorOptions: TrtTensorOptions(
            tensor_dtypes={fourth: "float16"}, tensor_formats={first: ("linear",)}
        ),
        TrtCalibrationOptions: TrtCalibrationOptions(calibration_cache=first),
        TrtTacticOptions: TrtTacticOptions(
            load_timing_cache=second,
            save_timing_cache=third,
            save_tactics=fourth,
            exclude_tactics=first,
        ),
        TrtConfigOptions: TrtConfigOptions(),
        TrtPlanOptions: TrtPlanOptions(),
        TrtDeviceOptions: TrtDeviceOptions(),
        TrtScriptOptions: TrtScriptOptions(
            trt_config_postprocess_script=(second, "postprocess_config")
        ),
        TrtParserOptions: TrtParserOptions(),
        TrtNetworkOptions: TrtNetworkOptions(
            trt_outputs=(first, second),
            trt_exclude_outputs=(third,),
            trt_outputs_by_type=(fourth,),
            trt_network_postprocess_script=((first, "postprocess"),),
            mark_debug=(second,),
        ),
        TrtPluginOptions: TrtPluginOptions(plugins=(third,)),
        TrtSaveOptions: TrtSaveOptions(save_engine=fourth),
        TrtLoadOptions: TrtLoadOptions(load_runtime=first),
        TrtRunnerOptions: TrtRunnerOptions(),
        TfLoadOptions: TfLoadOptions(),
        TfSaveOptions: TfSaveOptions(),
        TfTrtOptions: TfTrtOptions(),
        TfRunnerOptions: TfRunnerOptions(),
        TfOnnxOptions: TfOnnxOptions(),
    }
