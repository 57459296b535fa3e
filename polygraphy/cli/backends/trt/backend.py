"""TensorRT: engines that are built, and saved ones."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltIn
from polygraphy.cli.backends.trt.checks import BUILD_GROUPS, LOAD_GROUPS
from polygraphy.cli.backends.trt.engine_options import TrtSaveOptions
from polygraphy.cli.backends.trt.network_options import TrtPluginOptions
from polygraphy.domain.catalog.formats import formats_of

BACKENDS = (
    BuiltIn(
        name="trt",
        title="TensorRT",
        help=(
            "Run the model in TensorRT: build an engine from an ONNX model or a network script, or"
            " load the engine that the model is."
        ),
        groups=(*BUILD_GROUPS, TrtPluginOptions, TrtSaveOptions, *LOAD_GROUPS),
        model_types=formats_of("onnx", "tensorrt", "tensorflow"),
        runs_parts=True,
        modules=("polygraphy.backend.trt",),
    ),
    BuiltIn(
        name="trt_engine",
        title="TensorRT",
        help="Run a saved TensorRT engine, besides what runs the model.",
        text="PATH",
        model_types=(),
    ),
)
