"""Small questions to TensorFlow graphs, at the address that scripts use."""

from collections.abc import Collection
from typing import Any

from polygraphy.adapters.tensorflow.frozen import graph_from_frozen
from polygraphy.adapters.tensorflow.graphs import computed_tensors, final_tensors, input_tensors
from polygraphy.adapters.tensorflow.graphs import describe as get_tensor_metadata
from polygraphy.domain.tensors.metadata import TensorMetadata

__all__ = [
    "find_nodes_by_ops",
    "get_graph_output_names",
    "get_input_metadata",
    "get_output_metadata",
    "get_tensor_metadata",
    "load_graph",
]


def load_graph(path: str) -> Any:
    """Return the `tensorflow.Graph` in the file of a frozen graph."""
    graph, _ = graph_from_frozen(path)
    return graph


def find_nodes_by_ops(graphdef: Any, ops: Collection[str]) -> list[Any]:
    """Return the nodes of a `GraphDef` that are of one of these types."""
    return [node for node in graphdef.node if node.op in ops]


def get_graph_output_names(graph: Any) -> list[str]:
    """Return the names of the tensors of a graph that no other is computed from."""
    return final_tensors(graph)


def get_input_metadata(graph: Any) -> TensorMetadata:
    """Return the names, data types and shapes of a graph's inputs."""
    return get_tensor_metadata(input_tensors(graph))


def get_output_metadata(graph: Any, layerwise: bool = False) -> TensorMetadata:
    """Return the names, data types and shapes of a graph's outputs; `layerwise` of all tensors that
    it computes.
    """
    names = computed_tensors(graph) if layerwise else final_tensors(graph)
    return get_tensor_metadata(graph.get_tensor_by_name(name) for name in names)
