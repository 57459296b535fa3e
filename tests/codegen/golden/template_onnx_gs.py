#!/usr/bin/env python3
"""Edit folder/model.onnx with onnx-graphsurgeon.

polygraphy template onnx-gs folder/model.onnx --shape-inference --onnx-outputs a b --fp-to-fp16 -o -
"""

from onnx_graphsurgeon import Graph, export_onnx

from polygraphy import program
from polygraphy.backend.onnx import (
    convert_to_fp16,
    gs_from_onnx,
    infer_shapes,
    modify_outputs,
    onnx_from_path,
    save_onnx,
)
from polygraphy.surgeon import check_model

MODEL = "folder/model.onnx"


def edit(graph: Graph) -> None:
    """Change the graph in place, and return nothing."""
    # graph.inputs and graph.outputs are lists of tensors, and can be assigned.
    # graph.tensors() is a dictionary from names to tensors.
    # graph.nodes is a list: each node has name, op, attrs, inputs and outputs.


def main() -> None:
    model = convert_to_fp16(modify_outputs(infer_shapes(onnx_from_path(MODEL)), outputs=["a", "b"]))
    graph = gs_from_onnx(model)
    edit(graph)
    graph.cleanup().toposort()
    model = export_onnx(graph)
    check_model(model)
    save_onnx(model, path="folder/model_updated.onnx")


if __name__ == "__main__":
    program.run(main, banner=False)
