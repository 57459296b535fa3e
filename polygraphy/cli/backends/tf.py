"""TensorFlow: how it loads and runs a model."""

from __future__ import annotations

from functools import partial

from polygraphy.cli.backends.built_in import (
    BackendUsage,
    BuiltInBackend,
    RunnerModel,
    backends_by_name,
)
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Integer, Number, Text
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    non_default_flags,
    option,
    option_group,
)
from polygraphy.cli.shared.model import TfLoadOptions, TfOnnxOptions, graph_of, kind_of_model
from polygraphy.codegen.source import Call, nest_calls
from polygraphy.domain.catalog.formats import formats_of


@option_group
class TfSaveOptions(Options):
    """TensorFlow Model Saving: the graph that runs."""

    save_pb: str | None = option(
        "--save-pb", feeds="SaveGraph.path", writes=True, help="Save the frozen graph."
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
        "--tftrt", "--use-tftrt", help="Let TensorRT run the parts of the graph that it supports."
    )
    minimum_segment_size: int | None = option(
        "--minimum-segment-size",
        feeds="UseTfTrt.minimum_segment_size",
        kind=Integer(minimum=1),
        help="Minimum number of nodes in a TensorRT engine.",
    )
    dynamic_op: bool = option(
        "--dynamic-op",
        feeds="UseTfTrt.is_dynamic_op",
        help="Build the TensorRT engines when the graph runs.",
    )


@option_group
class TfRunnerOptions(Options):
    """TensorFlow Sessions: how TensorFlow runs the graph."""

    gpu_memory_fraction: float | None = option(
        "--gpu-memory-fraction",
        feeds="CreateTfConfig.gpu_memory_fraction",
        kind=Number(minimum=0, maximum=1),
        help="Fraction of the GPU memory that TensorFlow may use.",
        otherwise="0.9",
    )
    allow_growth: bool = option(
        "--allow-growth",
        feeds="CreateTfConfig.allow_growth",
        help="Allocate GPU memory on demand.",
    )
    xla: bool = option("--xla", feeds="CreateTfConfig.use_xla", help="Compile the graph with XLA.")
    save_timeline: str | None = option(
        "--save-timeline",
        feeds="TfRunner.timeline_dir",
        kind=Text("DIR"),
        help="Save a trace of each inference, for chrome://tracing.",
    )


def _runner_call(values: Values, model: RunnerModel) -> Call:
    """Return the call that creates the TensorFlow runner."""
    graph = [*graph_of(values, kind_of_model(values, unknown="frozen")), *_graph_changes(values)]
    config = call_of("CreateTfConfig", values)
    session = Call(
        "SessionFromGraph",
        [nest_calls(model.path, graph)],
        {"config": config if config.kwargs else None},
    )
    return call_of("TfRunner", values, session)


def _graph_changes(values: Values) -> list[Call]:
    """Return the calls that change a graph for TensorFlow itself."""
    save = call_of("SaveGraph", values)
    return [
        *([_tensorrt_conversion(values)] if values[TfTrtOptions].tftrt else ()),
        *([save] if save.kwargs else ()),
    ]


def _tensorrt_conversion(values: Values) -> Call:
    """Return the call that lets TensorRT run parts of a graph."""
    from polygraphy.cli.backends.trt.config_options import (
        TrtConfigOptions,
    )  # Imported here, because the TensorRT backend may be missing.

    pools = values[TrtConfigOptions].pool_limit or {}
    workspace = {"max_workspace_size": pools["workspace"]} if "workspace" in pools else {}
    return call_of("UseTfTrt", values, **workspace)


def _choose(values: Values, kind: str) -> BackendUsage:
    """Return how a program uses TensorFlow, after checking the options."""
    _check_tensorrt(values)
    return BackendUsage(runner=partial(_runner_call, values))


def _check_tensorrt(values: Values) -> None:
    """Raise CommandLineError for options about TensorRT in TensorFlow without --trt-from-tf."""
    given_names = non_default_flags(values, [TfTrtOptions])
    if given_names and not values[TfTrtOptions].tftrt:
        raise CommandLineError(f"{given_names[0]} requires --tftrt.")
    if given_names and "trt" not in backends_by_name():
        raise CommandLineError(
            "--tftrt requires the TensorRT backend, which is not available. Remove --tftrt."
        )


BACKENDS = (
    BuiltInBackend(
        name="tf",
        title="TensorFlow",
        help="Run the model in TensorFlow.",
        groups=lambda: (TfLoadOptions, TfSaveOptions, TfTrtOptions, TfRunnerOptions, TfOnnxOptions),
        model_types=formats_of("tensorflow"),
        shared=(TfLoadOptions, TfOnnxOptions),
        idle="nothing runs in TensorFlow",
        marks_outputs=True,
        choose=_choose,
    ),
)
