"""Helpers that no script is known to use are gone; what replaces them is said."""

from polygraphy.mod.deferred import defer_names

__all__: list[str] = []
__getattr__ = defer_names(
    globals(),
    removed_names={
        "find_nodes_by_ops": "[node for node in graphdef.node if node.op in ops]",
        "get_graph_output_names": "the output names that loaders such as GraphFromFrozen return",
        "get_input_metadata": "get_input_metadata() of an active TfRunner",
        "get_output_metadata": "the outputs that an active TfRunner infers",
        "get_tensor_metadata": "tensor.name, tensor.dtype and tensor.shape",
        "load_graph": "GraphFromFrozen(path)()[0]",
        "map_node_outputs": "op.outputs and tensor.consumers() of the graph",
        "str_from_graph": "polygraphy.inspect.inspect_model(path)",
    },
)
