"""TensorFlow."""

from polygraphy.adapters.tensorflow.graphs import (
    ModifyGraphOutputs,
    OptimizeGraph,
    modify_graph_outputs,
    optimize_graph,
)
from polygraphy.adapters.tensorflow.module import register_logger_callback
from polygraphy.adapters.tensorflow.reading import (
    GraphFromCkpt,
    GraphFromFrozen,
    GraphFromKeras,
    GraphFromSavedModel,
    graph_from_ckpt,
    graph_from_frozen,
    graph_from_keras,
    graph_from_saved_model,
)
from polygraphy.adapters.tensorflow.runner import (
    CreateConfig,
    SessionFromGraph,
    TfRunner,
    create_config,
    session_from_graph,
)
from polygraphy.adapters.tensorflow.saving import SaveGraph, UseTfTrt, save_graph, use_tf_trt
from polygraphy.mod.deferred import defer_names

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

__getattr__ = defer_names(globals(), submodules=("loader", "runner", "util"))
