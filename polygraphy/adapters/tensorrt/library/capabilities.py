"""Features of the TensorRT in use, found by looking for classes, members and enum values.

Versions are never compared: the same feature came, went and was renumbered at different places in
TensorRT and in TensorRT-RTX. One table lists for each feature how to detect it, which versions have
it, and the alternative; all checks and error messages use that table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attrs import frozen

from polygraphy.adapters.tensorrt.library.module import ModuleKey, tensorrt_module
from polygraphy.domain.errors import BackendError

_TO_10 = "TensorRT 8.6 to 10.x support it"
_FROM_10 = "TensorRT 10.0 and later, and TensorRT-RTX, support it"
_FROM_10_LATE = "later TensorRT 10.x, 11.x and TensorRT-RTX support it"
_FROM_11 = "TensorRT 11.x and TensorRT-RTX support it"
_ONLY_8 = "TensorRT 8.6 supports it"
_ONLY_RTX = "only TensorRT-RTX supports it"
_STRONGLY_TYPED = (
    "Its networks are always strongly typed: set the data types in the model, for example with"
    " NetworkFromOnnxPath(path, cast='fp16') (--fp-to-fp16)."
)


@frozen
class Feature:
    """A feature of TensorRT, with the names and versions by which it is recognized.

    Attributes:
        signs: dotted names in the module; the feature is there if one of them exists.
        label: the name of the feature, as the end of "... needs".
        where: the versions that have it, as a clause.
        instead: the alternative, a sentence; empty if there is none.
    """

    signs: tuple[str, ...]
    label: str
    where: str
    instead: str = ""


FEATURES: dict[str, Feature] = {
    "algorithm_selector": Feature(
        ("IAlgorithmSelector",),
        "algorithm selectors",
        _TO_10,
        "Late releases of 10.x, and 11.x, keep tactics in an editable timing cache; TensorRT-RTX"
        " chooses kernels on the machine that runs the engine.",
    ),
    "aliased_io": Feature(
        ("ICudaEngine.get_aliased_input_tensor",), "aliased inputs and outputs", _FROM_10_LATE
    ),
    "allocation_strategies": Feature(
        ("ExecutionContextAllocationStrategy",),
        "allocation strategies of execution contexts",
        _FROM_10,
        "Use allocation_strategy='static' (--allocation-strategy).",
    ),
    "attention": Feature(("INetworkDefinition.add_attention",), "attention layers", _FROM_10_LATE),
    "calibrators": Feature(
        ("IInt8Calibrator",),
        "INT8 calibrators",
        _TO_10,
        "Quantize the model instead (Q/DQ nodes), and build that.",
    ),
    "compute_capability": Feature(
        ("ComputeCapability",),
        "a choice of compute capabilities",
        _ONLY_RTX,
        "TensorRT builds for the GPU of this machine; see hardware_compatibility_level"
        " (--hardware-compatibility-level).",
    ),
    "cuda_graph_strategy": Feature(("CudaGraphStrategy",), "CUDA graphs in the runtime", _ONLY_RTX),
    "data_dependent_outputs": Feature(
        ("IOutputAllocator",), "output allocators", "TensorRT 8.6 and later support it"
    ),
    "debug_tensors": Feature(
        ("INetworkDefinition.mark_debug",),
        "debug tensors",
        _FROM_10,
        "Mark the tensors as outputs instead.",
    ),
    "device_memory_size_v2": Feature(
        ("ICudaEngine.device_memory_size_v2",), "64-bit sizes of activations", _FROM_10_LATE
    ),
    "disable_compilation_cache": Feature(
        ("BuilderFlag.DISABLE_COMPILATION_CACHE",), "a compilation cache", _FROM_10
    ),
    "dla_workspace_allocation_strategy": Feature(
        ("DLAWorkspaceAllocationStrategy",), "allocation strategies of DLA workspaces", _FROM_11
    ),
    "editable_timing_cache": Feature(
        ("BuilderFlag.EDITABLE_TIMING_CACHE",),
        "an editable timing cache",
        _FROM_10_LATE,
        "Earlier ones choose tactics through an algorithm selector.",
    ),
    "engine_inspector": Feature(
        ("EngineInspector",), "engine inspectors", "TensorRT 8.6 and later support it"
    ),
    "error_on_timing_cache_miss": Feature(
        ("BuilderFlag.ERROR_ON_TIMING_CACHE_MISS",), "errors for timing cache misses", _FROM_10
    ),
    "explicit_batch": Feature(
        ("NetworkDefinitionCreationFlag.EXPLICIT_BATCH",), "the explicit-batch flag", _TO_10
    ),
    "hardware_compatibility": Feature(
        ("HardwareCompatibilityLevel",),
        "hardware compatibility levels",
        "TensorRT 8.6 and later support it",
    ),
    "implicit_batch": Feature(
        ("Builder.max_batch_size",), "implicit batch dimensions", "only TensorRT 8.x supports it"
    ),
    "layer_precisions": Feature(
        ("ILayer.precision",), "precisions of layers", _TO_10, _STRONGLY_TYPED
    ),
    "lean_runtime": Feature(
        ("Runtime.load_runtime",), "lean runtimes", "TensorRT 8.6 and later support it"
    ),
    "marked_unfused_tensors": Feature(
        ("INetworkDefinition.mark_unfused_tensors_as_debug_tensors",),
        "marking of unfused tensors",
        _FROM_10_LATE,
        "Name the tensors with MarkDebug (--mark-debug), or mark them as outputs.",
    ),
    "opset_18": Feature(("OnnxParserFlag",), "models with opset 18", _FROM_10),
    "parser_flags": Feature(("OnnxParserFlag",), "flags of the ONNX parser", _FROM_10),
    "parser_builder_config": Feature(
        ("OnnxParser.set_builder_config",), "a parser that knows the configuration", _FROM_10_LATE
    ),
    "parser_external_model": Feature(
        ("OnnxParser.load_model_proto",), "ONNX models with initializers in memory", _FROM_10_LATE
    ),
    "parser_subgraph_query": Feature(
        ("OnnxParser.supports_model_v2",), "queries about parts of a model", _FROM_10_LATE
    ),
    "plugins_v3": Feature(("IPluginV3",), "plugins of version 3", _FROM_10),
    "precision_constraints": Feature(
        ("BuilderFlag.OBEY_PRECISION_CONSTRAINTS",),
        "precision constraints",
        _TO_10,
        _STRONGLY_TYPED,
    ),
    "progress_monitor": Feature(("IProgressMonitor",), "progress monitors", _FROM_10),
    "quantization_flags": Feature(("QuantizationFlag",), "quantization flags", _TO_10),
    "refit_individual": Feature(
        ("BuilderFlag.REFIT_INDIVIDUAL",),
        "refitting of chosen weights",
        _FROM_10_LATE,
        "Use refittable=True (--refittable).",
    ),
    "rejecting_empty_algorithms": Feature(
        ("BuilderFlag.REJECT_EMPTY_ALGORITHMS",), "errors for empty tactic choices", _TO_10
    ),
    "runtime_cache": Feature(("IRuntimeCache",), "runtime caches", _ONLY_RTX),
    "runtime_config": Feature(
        ("ICudaEngine.create_runtime_config",), "runtime configurations", _FROM_10_LATE
    ),
    "runtime_platform": Feature(
        ("RuntimePlatform",), "a choice of the target platform", _FROM_10_LATE
    ),
    "serialization_flags": Feature(
        ("ICudaEngine.serialize_with_config",), "serialization without weights", _FROM_10
    ),
    "stream_reader": Feature(("IStreamReader",), "stream readers", "TensorRT 10.x supports it"),
    "stream_reader_v2": Feature(("IStreamReaderV2",), "seekable stream readers", _FROM_10_LATE),
    "strip_plan": Feature(("BuilderFlag.STRIP_PLAN",), "plans without weights", _FROM_10),
    "strongly_typed": Feature(
        ("NetworkDefinitionCreationFlag.STRONGLY_TYPED",),
        "strongly typed networks",
        _FROM_10,
        "Its networks are weakly typed: use options such as fp16=True (--fp16).",
    ),
    "tensor_dtype": Feature(
        ("BuilderFlag.FP16",), "data types of tensors that can be set", _TO_10, _STRONGLY_TYPED
    ),
    "tiling_optimization_level": Feature(
        ("TilingOptimizationLevel",), "tiling optimization", _FROM_10_LATE
    ),
    "weak_typing": Feature(("BuilderFlag.FP16",), "automatic precision", _TO_10, _STRONGLY_TYPED),
    "weight_streaming": Feature(("BuilderFlag.WEIGHT_STREAMING",), "weight streaming", _FROM_10),
    "weight_streaming_v2": Feature(
        ("ICudaEngine.weight_streaming_budget_v2",),
        "weight streaming with automatic budgets",
        _FROM_10_LATE,
    ),
    "weights_manager": Feature(("IWeightsManager",), "weights loaded separately", _ONLY_RTX),
}
"""All features, by name."""

MEMBERS: dict[str, str] = {
    "EngineCapability.DEFAULT": _ONLY_8,
    "EngineCapability.SAFE_DLA": _ONLY_8,
    "EngineCapability.SAFE_GPU": _ONLY_8,
    "HardwareCompatibilityLevel.SAME_COMPUTE_CAPABILITY": _FROM_10_LATE,
    "MemoryPoolType.TACTIC_SHARED_MEMORY": _FROM_10,
    "OnnxParserFlag.ADJUST_FOR_DLA": _FROM_10_LATE,
    "OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE": _FROM_10_LATE,
    "OnnxParserFlag.ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA": _FROM_10_LATE,
    "OnnxParserFlag.REPORT_CAPABILITY_DLA": _FROM_10_LATE,
    "PreviewFeature.ALIASED_PLUGIN_IO_10_03": _FROM_10_LATE,
    "PreviewFeature.DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805": _ONLY_8,
    "PreviewFeature.FASTER_DYNAMIC_SHAPES_0805": _ONLY_8,
    "PreviewFeature.PROFILE_SHARING_0806": _TO_10,
    "PreviewFeature.RUNTIME_ACTIVATION_RESIZE_10_10": _FROM_10_LATE,
    "TacticSource.CUBLAS": _TO_10,
    "TacticSource.CUBLAS_LT": _TO_10,
    "TacticSource.CUDNN": _TO_10,
}
"""The versions that have enum members that others lack."""


@frozen
class Capabilities:
    """The features of a TensorRT module.

    Attributes:
        name: ``TensorRT`` or ``TensorRT-RTX``.
        version: the version of the module, such as ``10.16.1.11``.
        features: the names of its features; see `FEATURES`.
    """

    name: str
    version: str
    features: frozenset[str]

    def has(self, feature: str) -> bool:
        """Return whether the module has a feature; `feature` is a key of `features.FEATURES`."""
        FEATURES[feature]  # A misspelled name must not look like a missing feature.
        return feature in self.features

    def require(self, feature: str, requested_name: str) -> None:
        """Raise an error unless the module has a feature.

        Args:
            feature: a key of `features.FEATURES`.
            requested_name: the request, as users write it: ``use_dla=True``, ``--int8``.

        Raises:
            BackendError: it lacks the feature; the message names the versions that have it, and the
                alternative.
        """
        if self.has(feature):
            return
        wanted = FEATURES[feature]
        raise BackendError(
            f"{requested_name} requires {wanted.label}, which {self.name} {self.version} does not"
            f" support: {wanted.where}.",
            backend="tensorrt",
            hint=wanted.instead,
        )


def capabilities() -> Capabilities:
    """Return the features of the TensorRT module in use; they are looked up once.

    Raises:
        MissingDependencyError: TensorRT is not installed.
    """
    return capabilities_of(tensorrt_module())


def capabilities_of(module: Any) -> Capabilities:
    """Return the features of a TensorRT module, in use or not; they are looked up once."""
    return _find_capabilities(ModuleKey(module))


def require(feature: str, requested_name: str) -> None:
    """Raise unless the module in use has a feature: see `Capabilities.require`."""
    capabilities().require(feature, requested_name)


def enum_value(enum: str, name: str, requested_name: str) -> Any:
    """Return a member of an enum of the module in use, by name in any case.

    Args:
        enum: the name of the enum: ``BuilderFlag``.
        name: the name of the member: ``fp16``.
        requested_name: the request, as users write it: ``use_dla=True``, ``--int8``.

    Raises:
        BackendError: there is no such member or enum; the message lists the members.
    """
    module = tensorrt_module()
    value = getattr(getattr(module, enum, None), name.upper(), None)
    if value is not None:
        return value
    known_items = sorted(getattr(getattr(module, enum, None), "__members__", ()))
    caps = capabilities()
    where = MEMBERS.get(f"{enum}.{name.upper()}", "")
    has_it = f": {where}." if where else "."
    raise BackendError(
        f"{requested_name} requires {enum}.{name.upper()}, which {caps.name} {caps.version} does"
        f" not have{has_it}",
        backend="tensorrt",
        hint=f"Available: {', '.join(known_items)}." if known_items else f"It has no {enum}.",
    )


@lru_cache(maxsize=8)
def _find_capabilities(key: ModuleKey) -> Capabilities:
    """Return the features of a TensorRT module."""
    module = key.module
    is_rtx = str(getattr(module, "__name__", "")) == "tensorrt_rtx"
    return Capabilities(
        name="TensorRT-RTX" if is_rtx else "TensorRT",
        version=str(getattr(module, "__version__", "of unknown version")),
        features=frozenset(
            name for name, wanted in FEATURES.items() if _has_feature(module, wanted)
        ),
    )


def _has_feature(module: Any, feature: Feature) -> bool:
    """Return whether a module has the names by which a feature is recognized."""
    return any(_exists(module, path) for path in feature.signs)


def _exists(module: Any, path: str) -> bool:
    """Return whether a dotted name, such as ``BuilderFlag.FP16``, exists in a module."""
    owner = module
    for part in path.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
