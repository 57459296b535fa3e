"""The precision in which TensorRT computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

from polygraphy.cli.backends.trt.kinds import Constraints, DataType, Members, PerNameOnly
from polygraphy.cli.backends.trt.names import CALIBRATORS
from polygraphy.cli.declare.kinds import Choice, Number
from polygraphy.cli.declare.option import Options, option, option_group

TF32: Any = option(
    "--tf32",
    feeds=("CreateConfig.tf32", "TrtParty.tf32"),
    help="Allow TF32 in fp32 products if that is faster.",
)


_LAYER_PRECISIONS: Any = option(
    "--layer-precisions",
    feeds="SetLayerPrecisions.layer_precisions",
    kind=PerNameOnly(DataType(), "LAYER"),
    help="Data types of layers, as in --layer-precisions conv1:float16.",
)


def _strongly_typed_option(effect: str) -> Any:
    """Return the declaration of --strongly-typed; its help begins with the effect."""
    return option(
        "--strongly-typed",
        feeds=("NetworkFromOnnxPath.strongly_typed", "CreateNetwork.strongly_typed"),
        help=f"{effect} exactly the data types of the model.",
    )


@option_group
class TrtPrecisionOptions(Options):
    """TensorRT Precision: data types in which the engine computes."""

    fp32: bool = option(
        "--fp32",
        help="Compute in fp32. No effect (fp32 is the default); accepted for loops over"
        " precisions.",
    )
    tf32: bool = TF32
    fp16: bool = option(
        "--fp16",
        feeds=("CreateConfig.fp16", "UseTfTrt.fp16"),
        help="Compute in fp16 if that is faster.",
    )
    bf16: bool = option(
        "--bf16", feeds="CreateConfig.bf16", help="Compute in bf16 if that is faster."
    )
    fp8: bool = option(
        "--fp8",
        feeds="CreateConfig.fp8",
        help="Compute in fp8 if that is faster. If TensorRT takes types from the model, the"
        " model is quantized as for --int8.",
    )
    int8: bool = option(
        "--int8",
        feeds=("CreateConfig.int8", "UseTfTrt.int8"),
        help="Compute in int8 if that is faster. A model without Q/DQ nodes is calibrated with"
        " the input data, or with --calibration-cache.",
    )
    precision_constraints: Union[str, Mapping[str, str], None] = option(
        "--precision-constraints",
        feeds="CreateConfig.precision_constraints",
        kind=Constraints(),
        help="Policy for the data types of layers: none, prefer (when possible) or obey."
        " LAYER:DTYPE ... sets data types, like --layer-precisions, and obeys them.",
    )
    layer_precisions: Mapping[str, str] | None = _LAYER_PRECISIONS
    strongly_typed: bool = _strongly_typed_option("Compute in")


@option_group
class TrtTypingOptions(Options):
    """TensorRT Precision: data types of a network that is shown."""

    layer_precisions: Mapping[str, str] | None = _LAYER_PRECISIONS
    strongly_typed: bool = _strongly_typed_option("Show the network that computes in")


@option_group
class TrtTensorOptions(Options):
    """TensorRT Inputs and Outputs: data types and formats of inputs and outputs."""

    tensor_dtypes: Mapping[str, str] | None = option(
        "--tensor-dtypes",
        "--tensor-datatypes",
        feeds="SetTensorDatatypes.tensor_datatypes",
        kind=PerNameOnly(DataType(), "TENSOR"),
        help="Data types of inputs and outputs, as in --tensor-dtypes image:float16.",
    )
    all_tensor_dtypes: str | None = option(
        "--all-tensor-dtypes",
        "--all-tensor-datatypes",
        feeds="SetTensorDatatypes.tensor_datatypes",
        kind=DataType(),
        help="Data type of all inputs and outputs.",
    )
    tensor_formats: Mapping[str, tuple[str, ...]] | None = option(
        "--tensor-formats",
        feeds="SetTensorFormats.tensor_formats",
        kind=PerNameOnly(Members("TensorFormat", "FORMAT"), "TENSOR"),
        help="Allowed formats of inputs and outputs, as in --tensor-formats x:[linear,chw4].",
    )
    all_tensor_formats: tuple[str, ...] | None = option(
        "--all-tensor-formats",
        feeds="SetTensorFormats.tensor_formats",
        kind=Members("TensorFormat", "FORMAT", nargs="+"),
        help="Allowed formats of all inputs and outputs.",
    )


@option_group
class TrtCalibrationOptions(Options):
    """TensorRT Calibration: int8 ranges."""

    calibration_cache: str | None = option(
        "--calibration-cache",
        feeds="Calibrator.cache",
        writes=True,
        help="Calibration cache: loaded if the file exists, else written.",
    )
    calib_base_cls: str | None = option(
        "--calib-base-cls",
        "--calibration-base-class",
        feeds="Calibrator.BaseClass",
        kind=Choice(*CALIBRATORS, metavar="CLASS", in_any_case=True),
        help=f"Calibrator that determines the ranges: {', '.join(CALIBRATORS)}.",
        otherwise=CALIBRATORS[0],
    )
    quantile: float | None = option(
        "--quantile",
        feeds="Calibrator.quantile",
        kind=Number(minimum=0, maximum=1),
        help="Quantile for IInt8LegacyCalibrator.",
        otherwise="0.5",
    )
    regression_cutoff: float | None = option(
        "--regression-cutoff",
        feeds="Calibrator.regression_cutoff",
        kind=Number(minimum=0, maximum=1),
        help="Regression cutoff for IInt8LegacyCalibrator.",
        otherwise="0.5",
    )
    quantization_flags: tuple[str, ...] | None = option(
        "--quantization-flags",
        feeds="CreateConfig.quantization_flags",
        kind=Members("QuantizationFlag", "FLAG"),
        help="Quantization flags to enable, such as calibrate_before_fusion; all others are"
        " disabled.",
    )
