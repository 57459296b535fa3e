"""The rules of `check lint`: what it looks for, by id."""

from __future__ import annotations

RULES = {
    "graph/cycle": "Nodes depend on each other in a cycle.",
    "graph/duplicate-name": "Two nodes share the same name, so tools confuse them.",
    "graph/duplicate-tensor": "Two nodes, inputs or weights define a tensor with the same name.",
    "graph/order": "A node reads a tensor that a later node computes.",
    "graph/random": "A node generates random numbers.",
    "graph/states": "The graph and the names pair a state output with different inputs.",
    "graph/state-scales": "A quantized state is written with one scale and read with another.",
    "graph/training": "A node computes in training mode.",
    "graph/undefined-input": "A node reads a tensor that does not exist.",
    "graph/undefined-output": "No node computes an output of the model.",
    "graph/unused-input": "No output depends on an input of the model.",
    "graph/unused-node": "No output depends on a node.",
    "graph/unused-opset": "An operator set is imported, but no node uses it.",
    "graph/unused-weight": "No output depends on an initializer.",
    "model/checker": "The onnx checker rejects a node or the model.",
    "model/lfs-pointer": "The file is a Git LFS pointer file instead of the model.",
    "model/opset-import": "A node belongs to an operator set that the model does not import.",
    "model/shapes": "The shapes or data types of a node contradict its operator.",
    "model/unreadable": "The file is not an ONNX model, or is too large for other programs.",
    "runtime/fails": "ONNX Runtime cannot run a node or the model.",
    "runtime/not-tried": "A node or the model was not run, for the stated reason.",
    "runtime/unusual": "A node crashes ONNX Runtime, or fails with generated numbers.",
    "weights/int32-range": "An int64 weight has values outside the int32 range.",
    "weights/fp16-range": "A weight has values outside the float16 range.",
    "weights/non-finite": "A weight contains NaN or infinity.",
    "weights/scale": "A scale of a quantized tensor is zero, negative, infinite or NaN.",
}
"""The finding of each rule. IDs are stable, because reports and options name them."""
