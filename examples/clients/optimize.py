"""Optimize an ONNX model before an engine is built: fold constants, infer shapes, choose outputs.

python optimize.py model.onnx optimized.onnx [OUTPUT ...]
"""

from __future__ import annotations

import sys

import onnx
import onnx_graphsurgeon as gs
from onnx import shape_inference

from polygraphy.backend.onnx.loader import fold_constants


class Optimizer:
    """Holds a graph, and changes it step by step."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = gs.import_onnx(model)
        self.steps = [("original", len(self.graph.nodes))]

    def cleanup(self) -> None:
        """Remove nodes that no output depends on."""
        self.graph.cleanup().toposort()
        self._note("cleanup")

    def select_outputs(self, names: list[str]) -> None:
        """Make some tensors the outputs."""
        tensors = self.graph.tensors()
        self.graph.outputs = [tensors[name] for name in names]
        self.cleanup()

    def fold_constants(self) -> None:
        """Compute nodes that do not depend on the inputs."""
        folded = fold_constants(gs.export_onnx(self.graph), allow_onnxruntime_shape_inference=True)
        self.graph = gs.import_onnx(folded)
        self._note("fold constants")

    def infer_shapes(self) -> None:
        """Write the shapes of the tensors into the model."""
        inferred = shape_inference.infer_shapes(gs.export_onnx(self.graph))
        self.graph = gs.import_onnx(inferred)
        self._note("infer shapes")

    def model(self) -> onnx.ModelProto:
        """Return the model as it is now."""
        return gs.export_onnx(self.graph)

    def _note(self, step: str) -> None:
        self.steps.append((step, len(self.graph.nodes)))


def main(source: str, target: str, *outputs: str) -> None:
    optimizer = Optimizer(onnx.load(source))
    optimizer.cleanup()
    optimizer.fold_constants()
    optimizer.infer_shapes()
    if outputs:
        optimizer.select_outputs(list(outputs))
    onnx.save(optimizer.model(), target)
    for step, nodes in optimizer.steps:
        print(f"{step}: {nodes} nodes")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python optimize.py model.onnx optimized.onnx [OUTPUT ...]")
    main(*sys.argv[1:])
