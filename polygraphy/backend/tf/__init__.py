"""TensorFlow."""

from polygraphy.adapters.tensorflow.checkpoint import GraphFromCkpt, graph_from_ckpt
from polygraphy.adapters.tensorflow.frozen import GraphFromFrozen, graph_from_frozen
from polygraphy.adapters.tensorflow.keras import GraphFromKeras, graph_from_keras
from polygraphy.adapters.tensorflow.module import register_logger_callback
from polygraphy.adapters.tensorflow.optimizing import OptimizeGraph, optimize_graph
from polygraphy.adapters.tensorflow.outputs import ModifyGraphOutputs, modify_graph_outputs
from polygraphy.adapters.tensorflow.runner import TfRunner
from polygraphy.adapters.tensorflow.saved_model import GraphFromSavedModel, graph_from_saved_model
from polygraphy.adapters.tensorflow.saving import SaveGraph, save_graph
from polygraphy.adapters.tensorflow.session import (
    CreateConfig,
    SessionFromGraph,
    create_config,
    session_from_graph,
)
from polygraphy.adapters.tensorflow.tftrt import UseTfTrt, use_tf_trt
from polygraphy.mod.deferred import deferred_names

__all__ = [
    "CreateConfig",
    "GraphFromCkpt",
    "GraphFromFrozen",
    "GraphFromKeras",
    "GraphFromSavedModel",
    "ModifyGraphOutputs",
    "OptimizeGraph",
    "SaveGraph",
    "SessionFromGraph",
    "TfRunner",
    "UseTfTrt",
    "create_config",
    "graph_from_ckpt",
    "graph_from_frozen",
    "graph_from_keras",
    "graph_from_saved_model",
    "modify_graph_outputs",
    "optimize_graph",
    "register_logger_callback",
    "save_graph",
    "session_from_graph",
    "use_tf_trt",
]

__getattr__ = deferred_names(globals(), submodules=("loader", "runner", "util"))
