"""TensorRT's names of choices, in all versions from 8.6 to 11.x and RTX.

Rendering a program needs no TensorRT, so names are checked against this table; names that the
installed version lacks are errors when the program runs.
"""

from __future__ import annotations

NAMES: dict[str, tuple[str, ...]] = {
    "DLAWorkspaceAllocationStrategy": ("default", "shared_static"),
    "EngineCapability": ("standard", "safety", "dla_standalone", "default", "safe_dla", "safe_gpu"),
    "HardwareCompatibilityLevel": ("none", "ampere_plus", "same_compute_capability"),
    "MemoryPoolType": (
        "workspace",
        "dla_managed_sram",
        "dla_local_dram",
        "dla_global_dram",
        "tactic_dram",
        "tactic_shared_memory",
    ),
    "OnnxParserFlag": (
        "native_instancenorm",
        "enable_uint8_and_asymmetric_quantization_dla",
        "report_capability_dla",
        "enable_plugin_override",
        "adjust_for_dla",
    ),
    "PreviewFeature": (
        "profile_sharing_0806",
        "aliased_plugin_io_10_03",
        "runtime_activation_resize_10_10",
        "multidevice_runtime_10_16",
        "faster_dynamic_shapes_0805",
        "disable_external_tactic_sources_for_core_0805",
    ),
    "ProfilingVerbosity": ("layer_names_only", "detailed", "none", "default", "verbose"),
    "QuantizationFlag": ("calibrate_before_fusion",),
    "RuntimePlatform": ("same_as_build", "windows_amd64"),
    "TacticSource": ("cublas", "cublas_lt", "cudnn", "edge_mask_convolutions", "jit_convolutions"),
    "TensorFormat": (
        "linear",
        "chw2",
        "hwc8",
        "chw4",
        "chw16",
        "chw32",
        "dhwc8",
        "cdhw32",
        "hwc",
        "dla_linear",
        "dla_hwc4",
        "hwc16",
        "dhwc",
    ),
    "TilingOptimizationLevel": ("none", "fast", "moderate", "full"),
}
"""Members by the name of their enumeration, in lower case."""

CALIBRATORS = (
    "IInt8EntropyCalibrator2",
    "IInt8EntropyCalibrator",
    "IInt8MinMaxCalibrator",
    "IInt8LegacyCalibrator",
)
"""Base classes of calibrators, in TensorRT 8.6 to 10.x."""

DATA_TYPES: dict[str, str] = {
    "float32": "float32",
    "float": "float32",
    "fp32": "float32",
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float8": "float8",
    "fp8": "float8",
    "float8e4m3fn": "float8",
    "float4": "float4",
    "fp4": "float4",
    "int64": "int64",
    "int32": "int32",
    "int8": "int8",
    "int4": "int4",
    "uint8": "uint8",
    "bool": "bool",
}
"""Spellings of data types, and the one that is used from there on."""
