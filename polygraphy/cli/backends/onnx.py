"""The reference evaluator of the onnx package."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltInBackend, RunnerModel
from polygraphy.cli.declare.option import Values
from polygraphy.codegen.source import Call
from polygraphy.domain.catalog.formats import formats_of


def _runner_call(values: Values, model: RunnerModel) -> Call:
    """Return the call that creates the reference runner."""
    loader = Call("OnnxFromPath", [model.source]) if model.is_path else model.source
    return Call("OnnxReferenceRunner", [loader])


BACKENDS = (
    BuiltInBackend(
        name="onnx",
        title="the ONNX reference evaluator",
        help=(
            "Run the model in the reference evaluator of the onnx package, which is slow but"
            " follows the ONNX specification."
        ),
        model_types=formats_of("onnx", "tensorflow"),
        runs_parts=True,
        call=_runner_call,
        party=lambda values: Call("OnnxParty"),
        modules=("onnx", "polygraphy.backend.onnx"),
    ),
)
