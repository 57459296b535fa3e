"""The reference evaluator of the onnx package."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltIn
from polygraphy.codegen.call import Call
from polygraphy.domain.catalog.formats import formats_of

BACKENDS = (
    BuiltIn(
        name="onnx",
        title="the ONNX reference evaluator",
        help=(
            "Run the model in the reference evaluator of the onnx package: slow, and true to the"
            " standard."
        ),
        model_types=formats_of("onnx", "tensorflow"),
        runs_parts=True,
        party=lambda values: Call("OnnxParty"),
        modules=("onnx", "polygraphy.backend.onnx"),
    ),
)
