"""Small questions to TensorFlow graphs, at the address that scripts use."""

from __future__ import annotations

from collections import defaultdict
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
    "map_node_outputs",
    "str_from_graph",
]


def load_graph(path: str) -> Any:
    """Return the `tensorflow.Graph` in the file of a frozen graph."""
    graph, _ = graph_from_frozen(path)
    return graph


def find_nodes_by_ops(graphdef: Any, ops: Collection[str]) -> list[Any]:
    """Return the nodes of a `GraphDef` that are of one of these types."""
    return [node for node in graphdef.node if node.op in ops]


def map_node_outputs(graphdef: Any) -> dict[str, list[Any]]:
    """Return, by the name of a node of a `GraphDef`, the nodes that read what it computes or wait
    for it, each once.
    """
    readers: dict[str, list[Any]] = defaultdict(list)
    for node in graphdef.node:
        names = [name.removeprefix("^").partition(":")[0] for name in node.input]
        for name in dict.fromkeys(names):
            readers[name].append(node)
    return readers


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


def str_from_graph(
    graph: Any,
    show_layers: bool | None = None,
    show_attrs: bool | None = None,
    show_weights: bool | None = None,
) -> str:
    """Return what a `tensorflow.Graph` consists of as text, as `polygraphy inspect model` shows it.

    Args:
        graph: the graph.
        show_layers: whether operations are shown (default: no).
        show_attrs: whether the attributes of operations that are shown are (default: no).
        show_weights: whether the elements of constants are (default: no).
    """
    from polygraphy.adapters.console.models.onnx_text import graph_lines
    from polygraphy.adapters.tensorflow.reading import describe_graph
    from polygraphy.domain.model import Detail

    detail = Detail(layers=bool(show_layers), attrs=bool(show_attrs), weights=bool(show_weights))
    return "\n".join(graph_lines(describe_graph(graph, final_tensors(graph), "", detail), detail))
