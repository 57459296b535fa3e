"""Editing ONNX models. Loaders and functions change the model that they are given in place."""

from polygraphy.adapters.onnx.checking import CheckModel, check_model
from polygraphy.adapters.onnx.extracting import Extract, extract
from polygraphy.adapters.onnx.inserting import InsertNode, insert_node
from polygraphy.adapters.onnx.observing import ObserveShapes, observe_shapes
from polygraphy.adapters.onnx.overriding import OverrideInputShapes, override_input_shapes
from polygraphy.adapters.onnx.pruning import PruneWeights, prune_weights
from polygraphy.adapters.onnx.removing import RemoveNodes, remove_nodes
from polygraphy.adapters.onnx.stripping import (
    ReconstructWeights,
    RestoreWeights,
    StripWeights,
    reconstruct_weights,
    restore_weights,
    strip_weights,
)
from polygraphy.adapters.onnx.tidying import CleanUp, SortNodes, clean_up, sort_nodes
from polygraphy.application.edit_reports import show_edited, show_original
from polygraphy.application.verification import verify, verify_runs

__all__ = [
    "CheckModel",
    "CleanUp",
    "Extract",
    "InsertNode",
    "ObserveShapes",
    "OverrideInputShapes",
    "PruneWeights",
    "ReconstructWeights",
    "RemoveNodes",
    "RestoreWeights",
    "SortNodes",
    "StripWeights",
    "check_model",
    "clean_up",
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
    "sort_nodes",
    "strip_weights",
    "verify",
    "verify_runs",
]
