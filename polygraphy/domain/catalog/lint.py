"""The rules of `check lint`: what it looks for, by id."""

from __future__ import annotations

RULES = {
    "graph/cycle": "Nodes wait for each other, so that none can be computed first.",
    "graph/duplicate-name": "Two nodes have one name, which tools take for the same node.",
    "graph/duplicate-tensor": "Two nodes, inputs or weights make a tensor of one name.",
    "graph/order": "A node reads what only a later node computes.",
    "graph/undefined-input": "A node reads a tensor that nothing makes.",
    "graph/undefined-output": "An output of the model is computed by no node.",
    "graph/unused-input": "No output depends on an input of the model.",
    "graph/unused-node": "No output depends on a node.",
    "graph/unused-opset": "An operator set is imported, and no node is of it.",
    "graph/unused-weight": "No output depends on an initializer.",
    "model/checker": "The checker of the onnx package refuses a node, or the model.",
    "model/lfs-pointer": "The file is a pointer of Git LFS, and not the model.",
    "model/shapes": "Shapes or data types of a node contradict its operator.",
    "model/unreadable": "The file is no ONNX model, or too large for other programs.",
    "runtime/fails": "ONNX Runtime does not run a node, or the model.",
    "runtime/not-tried": "A node, or the model, was not run, and why.",
    "runtime/unusual": "ONNX Runtime was not given a node that it is known to take badly.",
    "weights/int32-range": "A weight of int64 holds numbers that int32 has not.",
    "weights/fp16-range": "A weight holds numbers that float16 has not.",
    "weights/non-finite": "A weight holds NaN or infinity.",
}
"""What each rule finds. Ids are stable: reports, and options that leave rules out, name them."""
