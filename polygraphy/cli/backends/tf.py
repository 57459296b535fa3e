"""TensorFlow: how it loads and runs a model."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltIn, RunnerModel
from polygraphy.cli.backends.trt.config_options import TrtConfigOptions
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.kinds import Flag, Integer, Number, Text
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.model import ModelOptions, model_type
from polygraphy.cli.shared.onnx import EVERY_TENSOR, OutputOptions, Outputs
from polygraphy.codegen.call import Call, in_turn
from polygraphy.domain.catalog.formats import formats_of

TF_TYPES = formats_of("tensorflow")
"""Types of models that TensorFlow loads."""

_LOADERS = {
    "keras": "GraphFromKeras",
    "saved-model": "GraphFromSavedModel",
    "ckpt": "GraphFromCkpt",
    "frozen": "GraphFromFrozen",
}


@option_group
class TfLoadOptions(Options):
    """TensorFlow Model Loading: where the graph comes from, and its outputs."""

    ckpt: str | None = option(
        "--ckpt",
        feeds="GraphFromCkpt.name",
        kind=Text("NAME"),
        help="Name of the checkpoint, without extension, in the folder that MODEL is.",
    )
    tf_outputs: tuple[str, ...] = option(
        "--tf-outputs",
        feeds="ModifyGraphOutputs.outputs",
        kind=Outputs("NAME"),
        default=(),
        help="Tensors of the graph that become its outputs; '*' is every tensor.",
    )
    freeze_graph: bool = option(
        "--freeze-graph", kind=Flag(), help="Freeze the graph, and optimise it."
    )


@option_group
class TfSaveOptions(Options):
    """TensorFlow Model Saving: the graph as it is run."""

    save_pb: str | None = option(
        "--save-pb",
        feeds="SaveGraph.path",
        writes=True,
        kind=Text("PATH"),
        help="Save the frozen graph.",
    )
    save_tensorboard: str | None = option(
        "--save-tensorboard",
        feeds="SaveGraph.tensorboard_dir",
        kind=Text("DIR"),
        help="Save the graph for TensorBoard.",
    )


@option_group
class TfTrtOptions(Options):
    """TensorFlow-TensorRT: parts of the graph that TensorRT runs."""

    tftrt: bool = option(
        "--tftrt", "--use-tftrt", kind=Flag(), help="Let TensorRT run what it can of the graph."
    )
    minimum_segment_size: int | None = option(
        "--minimum-segment-size",
        feeds="UseTfTrt.minimum_segment_size",
        kind=Integer(minimum=1),
        help="Fewest nodes that become a TensorRT engine.",
    )
    dynamic_op: bool = option(
        "--dynamic-op",
        feeds="UseTfTrt.is_dynamic_op",
        kind=Flag(),
        help="Build the TensorRT engines when the graph runs.",
    )


@option_group
class TfRunnerOptions(Options):
    """TensorFlow Sessions: how TensorFlow runs the graph."""

    gpu_memory_fraction: float | None = option(
        "--gpu-memory-fraction",
        feeds="CreateTfConfig.gpu_memory_fraction",
        kind=Number(minimum=0, maximum=1),
        help="Share of the GPU's memory that TensorFlow may take.",
        otherwise="0.9",
    )
    allow_growth: bool = option(
        "--allow-growth",
        feeds="CreateTfConfig.allow_growth",
        kind=Flag(),
        help="Take GPU memory as it is needed.",
    )
    xla: bool = option(
        "--xla", feeds="CreateTfConfig.use_xla", kind=Flag(), help="Compile the graph with XLA."
    )
    save_timeline: str | None = option(
        "--save-timeline",
        feeds="TfRunner.timeline_dir",
        kind=Text("DIR"),
        help="Save a trace of each inference, for chrome://tracing.",
    )


@option_group
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


GRAPH_GROUPS: tuple[type[Options], ...] = (TfLoadOptions,)
SESSION_GROUPS: tuple[type[Options], ...] = (TfTrtOptions, TfSaveOptions, TfRunnerOptions)


def graph_of(values: Values, kind: str, usage: str) -> tuple[Call, ...]:
    """Return what loads a graph: calls of which the first one takes the path, and each other what
    the one before gives.

    Args:
        values: the options; those about outputs are as if left out where the command lacks them.
        kind: the type of the model, one of `TF_TYPES`.
        usage: the command, for messages.

    Raises:
        CommandLineError: a checkpoint is named, and the model is none.
    """
    load = values[TfLoadOptions]
    every = next((group for group in values if isinstance(group, OutputOptions)), OutputOptions())
    if load.ckpt is not None and kind != "ckpt":
        raise CommandLineError(
            f"--ckpt names a checkpoint, but the model is of type {kind}. Give the folder of the"
            " checkpoint as MODEL.",
            usage,
        )
    outputs = call_of("ModifyGraphOutputs", values)
    if every.mark_all:
        outputs = outputs.of(outputs=Outputs("NAME").argument(EVERY_TENSOR))
    return (
        call_of(_LOADERS[kind], values),
        *([outputs] if outputs.kwargs else ()),
        *([Call("OptimizeGraph")] if load.freeze_graph else ()),
    )


def kind_of_graph(values: Values) -> str:
    """Return the type of a model that TensorFlow runs."""
    kind = model_type(values[ModelOptions])
    return kind or ("frozen" if values[TfLoadOptions].ckpt is None else "ckpt")


def _runner(values: Values, model: RunnerModel) -> Call:
    graph = [*graph_of(values, kind_of_graph(values), ""), *_in_session(values)]
    config = call_of("CreateTfConfig", values)
    session = Call(
        "SessionFromGraph",
        [in_turn(model.path, graph)],
        {"config": config if config.kwargs else None},
    )
    return call_of("TfRunner", values, session)


def _in_session(values: Values) -> list[Call]:
    """Return what happens to a graph that TensorFlow runs itself."""
    groups = {type(group) for group in values}
    if not groups >= {TfTrtOptions, TfSaveOptions}:
        return []
    save, pools = call_of("SaveGraph", values), values[TrtConfigOptions].pool_limit or {}
    workspace = {"max_workspace_size": pools["workspace"]} if "workspace" in pools else {}
    return [
        *([call_of("UseTfTrt", values, **workspace)] if values[TfTrtOptions].tftrt else ()),
        *([save] if save.kwargs else ()),
    ]


def check_tensorrt(values: Values, usage: str) -> None:
    """Refuse options about TensorRT in TensorFlow without it.

    Raises:
        CommandLineError: there are such.
    """
    given = flags_given(values, [TfTrtOptions])
    if given and not values[TfTrtOptions].tftrt:
        raise CommandLineError(f"{given[0]} needs --tftrt, which it is about.", usage)


BACKENDS = (
    BuiltIn(
        name="tf",
        title="TensorFlow",
        help="Run the model in TensorFlow.",
        groups=(TfLoadOptions, TfSaveOptions, TfTrtOptions, TfRunnerOptions, TfOnnxOptions),
        model_types=formats_of("tensorflow"),
        marks_outputs=True,
        call=_runner,
    ),
)
