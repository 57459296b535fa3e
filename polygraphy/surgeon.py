"""Edit ONNX models. Loaders and functions change the model in place."""

from polygraphy.adapters.onnx.edit.bounding import OverrideInputShapes, override_input_shapes
from polygraphy.adapters.onnx.edit.copying import CopyNodes, copy_nodes
from polygraphy.adapters.onnx.edit.extraction import Extract, extract
from polygraphy.adapters.onnx.edit.inserting import (
    CleanUp,
    InsertNode,
    RemoveNodes,
    SortNodes,
    clean_up,
    insert_node,
    remove_nodes,
    sort_nodes,
)
from polygraphy.adapters.onnx.edit.outputs import ObserveShapes, observe_shapes
from polygraphy.adapters.onnx.edit.stripping import (
    PruneWeights,
    ReconstructWeights,
    RestoreWeights,
    StripWeights,
    prune_weights,
    reconstruct_weights,
    restore_weights,
    strip_weights,
)
from polygraphy.adapters.onnx.fold.folding import Simplify, simplify
from polygraphy.adapters.onnx.graph.editing import CheckModel, check_model
from polygraphy.application.compare.verification import verify, verify_runs
from polygraphy.application.models.model_inspection import show_edited, show_original

__all__ = [
    "CheckModel",
    "CleanUp",
    "CopyNodes",
    "Extract",
    "InsertNode",
    "ObserveShapes",
    "OverrideInputShapes",
    "PruneWeights",
    "ReconstructWeights",
    "RemoveNodes",
    "RestoreWeights",
    "Simplify",
    "SortNodes",
    "StripWeights",
    "check_model",
    "clean_up",
    "copy_nodes",
    "extract",
    "insert_node",
    "observe_shapes",
    "override_input_shapes",
    "prune_weights",
    "reconstruct_weights",
    "remove_nodes",
    "restore_weights",
    "show_edited",
    "show_original",
    "simplify",
    "sort_nodes",
    "strip_weights",
    "verify",
    "verify_runs",
]
