"""ONNX models, and the reference evaluator of the `onnx` package."""

from typing import TYPE_CHECKING

from polygraphy.mod.deferred import defer_names

if TYPE_CHECKING:
    from polygraphy.adapters.onnx.cast.precision import (
        ConvertToBf16,
        ConvertToFp16,
        convert_to_bf16,
        convert_to_fp16,
    )
    from polygraphy.adapters.onnx.edit.bounding import SetUpperBound, set_upper_bound
    from polygraphy.adapters.onnx.edit.extraction import ExtractSubgraph, extract_subgraph
    from polygraphy.adapters.onnx.edit.opset import ConvertOpset, convert_opset
    from polygraphy.adapters.onnx.edit.outputs import ModifyOutputs, modify_outputs
    from polygraphy.adapters.onnx.fold.folding import FoldConstants, fold_constants
    from polygraphy.adapters.onnx.graph.graphsurgeon import GsFromOnnx, gs_from_onnx
    from polygraphy.adapters.onnx.graph.shapes import InferShapes, infer_shapes
    from polygraphy.adapters.onnx.run.reference import OnnxParty, OnnxReferenceRunner
    from polygraphy.adapters.onnx.storage.model import (
        BytesFromOnnx,
        OnnxFromBytes,
        OnnxFromPath,
        bytes_from_onnx,
        onnx_from_bytes,
        onnx_from_path,
    )
    from polygraphy.adapters.onnx.storage.saving import SaveOnnx, save_onnx
    from polygraphy.adapters.tensorflow.saving import OnnxFromTfGraph, onnx_from_tf_graph

__all__ = [
    "BytesFromOnnx",
    "ConvertOpset",
    "ConvertToBf16",
    "ConvertToFp16",
    "ExtractSubgraph",
    "FoldConstants",
    "GsFromOnnx",
    "InferShapes",
    "ModifyOutputs",
    "OnnxFromBytes",
    "OnnxFromPath",
    "OnnxFromTfGraph",
    "OnnxParty",
    "OnnxReferenceRunner",
    "SaveOnnx",
    "SetUpperBound",
    "bytes_from_onnx",
    "convert_opset",
    "convert_to_bf16",
    "convert_to_fp16",
    "extract_subgraph",
    "fold_constants",
    "gs_from_onnx",
    "infer_shapes",
    "modify_outputs",
    "onnx_from_bytes",
    "onnx_from_path",
    "onnx_from_tf_graph",
    "save_onnx",
    "set_upper_bound",
]

_HOMES = {
    "onnx.cast.precision": "ConvertToBf16 ConvertToFp16 convert_to_bf16 convert_to_fp16",
    "onnx.edit.bounding": "SetUpperBound set_upper_bound",
    "onnx.edit.extraction": "ExtractSubgraph extract_subgraph",
    "onnx.edit.opset": "ConvertOpset convert_opset",
    "onnx.edit.outputs": "ModifyOutputs modify_outputs",
    "onnx.fold.folding": "FoldConstants fold_constants",
    "onnx.graph.graphsurgeon": "GsFromOnnx gs_from_onnx",
    "onnx.graph.shapes": "InferShapes infer_shapes",
    "onnx.run.reference": "OnnxParty OnnxReferenceRunner",
    "onnx.storage.model": (
        "BytesFromOnnx OnnxFromBytes OnnxFromPath bytes_from_onnx onnx_from_bytes onnx_from_path"
    ),
    "onnx.storage.saving": "SaveOnnx save_onnx",
    "tensorflow.saving": "OnnxFromTfGraph onnx_from_tf_graph",
}

__getattr__ = defer_names(
    globals(),
    {
        name: f"polygraphy.adapters.{home}"
        for home, names in _HOMES.items()
        for name in names.split()
    },
    submodules=("loader", "util"),
)
