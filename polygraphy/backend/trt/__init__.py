"""TensorRT. Nothing of TensorRT is imported before it is used."""

from polygraphy.adapters.tensorrt.describe.describe_network import (
    OnnxLikeFromNetwork,
    onnx_like_from_network,
)
from polygraphy.adapters.tensorrt.engine.build import (
    EngineBytesFromNetwork,
    EngineFromNetwork,
    engine_bytes_from_network,
    engine_from_network,
)
from polygraphy.adapters.tensorrt.engine.config import (
    CreateConfig,
    PostprocessConfig,
    create_config,
    postprocess_config,
)
from polygraphy.adapters.tensorrt.engine.profile import Profile, ShapeTuple
from polygraphy.adapters.tensorrt.engine.tactics import (
    Algorithm,
    TacticRecorder,
    TacticReplayData,
    TacticReplayer,
    TensorInfo,
)
from polygraphy.adapters.tensorrt.library.module import (
    get_trt_logger,
    lazy_import_trt,
    tensorrt_module_and_version_string,
)
from polygraphy.adapters.tensorrt.network.network import (
    CreateNetwork,
    LoadPlugins,
    create_network,
    load_plugins,
    raisable_layers,
)
from polygraphy.adapters.tensorrt.network.network_edits import (
    MarkDebug,
    ModifyNetworkOutputs,
    PostprocessNetwork,
    SetDecomposableAttentions,
    SetLayerPrecisions,
    SetTensorDatatypes,
    SetTensorFormats,
    mark_debug,
    modify_network_outputs,
    postprocess_network,
    set_decomposable_attentions,
    set_layer_precisions,
    set_tensor_datatypes,
    set_tensor_formats,
)
from polygraphy.adapters.tensorrt.network.onnx_network import (
    NetworkFromOnnxBytes,
    NetworkFromOnnxModel,
    NetworkFromOnnxPath,
    network_from_onnx_bytes,
    network_from_onnx_model,
    network_from_onnx_path,
)
from polygraphy.adapters.tensorrt.party import TrtParty
from polygraphy.adapters.tensorrt.plan.engine import (
    BufferFromEngine,
    BytesFromEngine,
    EngineFromBytes,
    EngineFromPath,
    FileReader,
    LoadRuntime,
    SaveEngine,
    buffer_from_engine,
    bytes_from_engine,
    engine_from_bytes,
    engine_from_path,
    load_runtime,
    save_engine,
)
from polygraphy.adapters.tensorrt.precision.calibrator import Calibrator
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.mod.deferred import defer_names

__all__ = [
    "Algorithm",
    "BufferFromEngine",
    "BytesFromEngine",
    "Calibrator",
    "CreateConfig",
    "CreateNetwork",
    "EngineBytesFromNetwork",
    "EngineFromBytes",
    "EngineFromNetwork",
    "EngineFromPath",
    "FileReader",
    "LoadPlugins",
    "LoadRuntime",
    "MarkDebug",
    "ModifyNetworkOutputs",
    "NetworkFromOnnxBytes",
    "NetworkFromOnnxModel",
    "NetworkFromOnnxPath",
    "OnnxLikeFromNetwork",
    "PostprocessConfig",
    "PostprocessNetwork",
    "Profile",
    "SaveEngine",
    "SetDecomposableAttentions",
    "SetLayerPrecisions",
    "SetTensorDatatypes",
    "SetTensorFormats",
    "ShapeTuple",
    "TacticRecorder",
    "TacticReplayData",
    "TacticReplayer",
    "TensorInfo",
    "TrtParty",
    "TrtRunner",
    "buffer_from_engine",
    "bytes_from_engine",
    "create_config",
    "create_network",
    "engine_bytes_from_network",
    "engine_from_bytes",
    "engine_from_network",
    "engine_from_path",
    "get_trt_logger",
    "lazy_import_trt",
    "load_plugins",
    "load_runtime",
    "mark_debug",
    "modify_network_outputs",
    "network_from_onnx_bytes",
    "network_from_onnx_model",
    "network_from_onnx_path",
    "onnx_like_from_network",
    "postprocess_config",
    "postprocess_network",
    "raisable_layers",
    "save_engine",
    "set_decomposable_attentions",
    "set_layer_precisions",
    "set_tensor_datatypes",
    "set_tensor_formats",
    "tensorrt_module_and_version_string",
]

__getattr__ = defer_names(
    globals(),
    submodules=(
        "algorithm_selector",
        "calibrator",
        "config",
        "file_reader",
        "loader",
        "profile",
        "runner",
        "util",
    ),
)
