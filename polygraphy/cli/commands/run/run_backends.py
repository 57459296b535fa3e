"""From options to the context of a program: which backends run what, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from attrs import evolve, frozen

from polygraphy.cli.backends.foreign import PluggedBackend
from polygraphy.cli.backends.registry import built_in, named_in
from polygraphy.cli.backends.runners import RunnerOptions
from polygraphy.cli.backends.tf import TfLoadOptions, TfOnnxOptions
from polygraphy.cli.backends.tf_context import (
    GRAPH_GROUPS,
    SESSION_GROUPS,
    TF_TYPES,
    graph_of,
    opset_of,
    session_of,
)
from polygraphy.cli.backends.trt.checks import warn_about_groups
from polygraphy.cli.backends.trt.context import build_of, loading_of, plugins_of, running_of
from polygraphy.cli.backends.trt.engine_options import (
    TrtLoadOptions,
    TrtRunnerOptions,
    TrtSaveOptions,
)
from polygraphy.cli.commands.run.run_plugins import check_types
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.shared.model import ModelOptions, model_type, split_symbol
from polygraphy.cli.shared.onnx import OnnxCastOptions
from polygraphy.cli.shared.onnx_context import cast_of, onnx_of
from polygraphy.codegen.call import Call
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.parts.plugged import RunnerModel
from polygraphy.codegen.parts.tf_graph import TfGraph
from polygraphy.codegen.parts.trt_model import TrtModel, TrtNetwork
from polygraphy.domain.catalog.formats import formats_of

_ENGINE, _SCRIPT = "engine", "trt-network-script"
_REMOVED = formats_of("")


@frozen
class Backends:
    """How the model comes to be in the form that each backend takes."""

    model: str | None
    onnx: OnnxModel
    trt: TrtModel
    tf: TfGraph
    calls: Mapping[str, Callable[[RunnerModel], Call]]


def backends_of(values: Values, usage: str, plugins: Sequence[PluggedBackend] = ()) -> Backends:
    """Return how the model is loaded, built and run in the backends that are chosen.

    Args:
        values: the options.
        usage: the command, for messages.
        plugins: the backends of other packages that are chosen.

    Raises:
        CommandLineError: a backend cannot run such a model, or options do not fit together.
    """
    chosen = named_in(values[RunnerOptions].runners)
    names = set(chosen)
    options = values[ModelOptions]
    only_tf = names == {"tf"}
    kind = kind_of_model(values, unknown="frozen" if only_tf else "onnx")
    if any(not each.text for each in chosen.values()):
        check_model_type(options.model_file or "", kind, names, usage)
    check_types(options.model_file or "", "onnx" if kind in TF_TYPES else kind, plugins, usage)
    takers = {
        *(plugin.name for plugin in plugins if "onnx" in plugin.declared.model_types),
        *(name for name, each in chosen.items() if "onnx" in each.model_types),
    }
    builds = "trt" in names and kind != _ENGINE
    parses = builds and kind != _SCRIPT
    graph = graph_of(values, kind, usage) if kind in TF_TYPES else None
    _warn_about_unused(values, names, kind, builds=builds)
    onnx = onnx_of(
        values,
        usage,
        is_loaded=parses or bool(takers - {"trt"}),
        has_others=any(each.marks_outputs for each in chosen.values()) or (builds and not parses),
        cast=cast_of(values[OnnxCastOptions], usage),
        graph=graph,
        opset=opset_of(values) if kind in TF_TYPES else None,
    )
    return Backends(
        model=split_symbol(options.model_file)[0] if options.model_file else None,
        onnx=onnx,
        trt=_trt(values, usage, builds=builds, is_script=kind == _SCRIPT, names=names),
        tf=session_of(graph, values, usage) if graph is not None and "tf" in names else TfGraph(),
        calls={name: partial(each.call, values) for name, each in chosen.items() if each.call},
    )


def kind_of_model(values: Values, *, unknown: str = "onnx") -> str:
    """Return the type of the model; `unknown` where nothing tells."""
    kind = model_type(values[ModelOptions])
    if kind is None and values[TfLoadOptions].ckpt is not None:
        return "ckpt"
    return kind or unknown


def check_model_type(
    path: str, kind: str, names: Iterable[str], usage: str, offered: Iterable[str] | None = None
) -> None:
    """Refuse a model that a backend cannot run; `offered` are the backends of the command, by
    default all that run the model of the command line.

    Raises:
        CommandLineError: it cannot.
    """
    if kind in _REMOVED:
        raise CommandLineError(
            f"{path} is a model of type {kind}, which no TensorRT of today reads. Convert it to"
            " ONNX with the tools of its framework, and give that.",
            usage,
        )
    unable = [
        each.flag
        for each in named_in(names).values()
        if each.model_types and kind not in each.model_types
    ]
    if unable:
        able = [
            each.flag
            for each in named_in(built_in() if offered is None else offered).values()
            if kind in each.model_types
        ]
        raise CommandLineError(
            f"{path} is a model of type {kind}, which {' and '.join(unable)}"
            f" cannot run; {' and '.join(able)} can. --model-type tells if the type is another.",
            usage,
        )


def _trt(values: Values, usage: str, *, builds: bool, is_script: bool, names: set[str]) -> TrtModel:
    running = running_of(values[TrtRunnerOptions])
    loading = loading_of(values[TrtLoadOptions])
    if builds:
        built = build_of(values, usage, is_script=is_script)
        return evolve(built, save=values[TrtSaveOptions].save_engine, runner=running, load=loading)
    if not names & {"trt", "trt_engine"}:
        return TrtModel()
    plugins = TrtNetwork(plugins=plugins_of(values))
    return TrtModel(is_engine=True, network=plugins, runner=running, load=loading)


def _warn_about_unused(values: Values, names: set[str], kind: str, *, builds: bool) -> None:
    """Say in one line each which options are about backends or models that take no part."""
    loads = bool(names & {"trt", "trt_engine"})
    tftrt = "tf" in names
    if not (tftrt and loads):
        because = "the engine is built already" if loads else "nothing runs in TensorRT: see --trt"
        warn_about_groups(values, builds=builds or tftrt, loads=loads or tftrt, because=because)
    if "tf" not in names:
        unused = flags_given(values, SESSION_GROUPS)
        if unused:
            warn(f"{', '.join(unused)}: without effect, because nothing runs in TensorFlow.")
    if kind not in TF_TYPES:
        unused = flags_given(values, [*GRAPH_GROUPS, TfOnnxOptions])
        if unused:
            warn(f"{', '.join(unused)}: without effect, because the model is none of TensorFlow.")
