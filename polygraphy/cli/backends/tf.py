"""TensorFlow: how it loads and runs a model."""

from __future__ import annotations

from attrs import frozen

from polygraphy.cli.backends.built_in import BuiltIn
from polygraphy.cli.declare.kinds import Flag, Integer, Number, Text
from polygraphy.cli.declare.option import Options, option
from polygraphy.cli.shared.onnx import Outputs
from polygraphy.domain.catalog.formats import formats_of


@frozen
class TfLoadOptions(Options):
    """TensorFlow Model Loading: where the graph comes from, and its outputs."""

    ckpt: str | None = option(
        "--ckpt",
        kind=Text("NAME"),
        help="Name of the checkpoint, without extension, in the folder that MODEL is.",
    )
    tf_outputs: tuple[str, ...] = option(
        "--tf-outputs",
        kind=Outputs("NAME"),
        default=(),
        help="Tensors of the graph that become its outputs; '*' is every tensor.",
    )
    freeze_graph: bool = option(
        "--freeze-graph", kind=Flag(), help="Freeze the graph, and optimise it."
    )


@frozen
class TfSaveOptions(Options):
    """TensorFlow Model Saving: the graph as it is run."""

    save_pb: str | None = option("--save-pb", kind=Text("PATH"), help="Save the frozen graph.")
    save_tensorboard: str | None = option(
        "--save-tensorboard", kind=Text("DIR"), help="Save the graph for TensorBoard."
    )


@frozen
class TfTrtOptions(Options):
    """TensorFlow-TensorRT: parts of the graph that TensorRT runs."""

    tftrt: bool = option(
        "--tftrt", "--use-tftrt", kind=Flag(), help="Let TensorRT run what it can of the graph."
    )
    minimum_segment_size: int | None = option(
        "--minimum-segment-size",
        kind=Integer(minimum=1),
        help="Fewest nodes that become a TensorRT engine.",
    )
    dynamic_op: bool = option(
        "--dynamic-op", kind=Flag(), help="Build the TensorRT engines when the graph runs."
    )


@frozen
class TfRunnerOptions(Options):
    """TensorFlow Sessions: how TensorFlow runs the graph."""

    gpu_memory_fraction: float | None = option(
        "--gpu-memory-fraction",
        kind=Number(minimum=0, maximum=1),
        help="Share of the GPU's memory that TensorFlow may take.",
        otherwise="0.9",
    )
    allow_growth: bool = option(
        "--allow-growth", kind=Flag(), help="Take GPU memory as it is needed."
    )
    xla: bool = option("--xla", kind=Flag(), help="Compile the graph with XLA.")
    save_timeline: str | None = option(
        "--save-timeline",
        kind=Text("DIR"),
        help="Save a trace of each inference, for chrome://tracing.",
    )


@frozen
class TfOnnxOptions(Options):
    """TensorFlow to ONNX: how a TensorFlow graph becomes an ONNX model."""

    opset: int | None = option(
        "--opset",
        kind=Integer(minimum=1),
        help=(
            "Opset of the ONNX model that a TensorFlow graph becomes; convert"
            " rewrites ONNX models for it, too."
        ),
        otherwise="11",
    )


BACKENDS = (
    BuiltIn(
        name="tf",
        title="TensorFlow",
        help="Run the model in TensorFlow.",
        groups=(TfLoadOptions, TfSaveOptions, TfTrtOptions, TfRunnerOptions, TfOnnxOptions),
        model_types=formats_of("tensorflow"),
        marks_outputs=True,
    ),
)
