"""From options to the context of a program: which backends run what, and how."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from polygraphy.cli.backends.built_in import BuiltIn, Chosen
from polygraphy.cli.backends.foreign import PluggedBackend
from polygraphy.cli.backends.registry import built_in, named_in
from polygraphy.cli.backends.runners import RunnerOptions
from polygraphy.cli.commands.run.run_plugins import check_types
from polygraphy.cli.declare.errors import CommandLineError, warn_idle
from polygraphy.cli.declare.values import Values, flags_given
from polygraphy.cli.shared.graph import TF_TYPES, TfLoadOptions, TfOnnxOptions, graph_of
from polygraphy.cli.shared.model import ModelOptions, model_type
from polygraphy.cli.shared.onnx_model import OnnxModel, onnx_of
from polygraphy.domain.catalog.formats import formats_of

_REMOVED, _LOADED = formats_of(""), formats_of("onnx", "tensorflow")


@frozen
class Backends:
    """The backends of a program, and the model that they run.

    Attributes:
        runners: the name of each runner's backend, and what its flag names, if anything.
        chosen: how the program uses each backend, by name.
        onnx: how the ONNX model comes to be, for those that take one.
        accepting: the names of the backends that do.
    """

    runners: Sequence[tuple[str, str]]
    chosen: Mapping[str, Chosen]
    onnx: OnnxModel
    accepting: Collection[str]

    @property
    def shares_onnx(self) -> bool:
        """Whether several runners take the ONNX model, so that it is loaded once, before them."""
        return len([name for name, text in self.runners if name in self.accepting and not text]) > 1

    @property
    def excluded(self) -> list[str]:
        """The outputs that are compared in no runner."""
        names = [*self.onnx.outputs.get("exclude_outputs", ())]
        names += [name for each in self.chosen.values() for name in each.excluded]
        return list(dict.fromkeys(names))


def backends_of(
    values: Values, declared: Iterable[BuiltIn], plugins: Sequence[PluggedBackend] = ()
) -> Backends:
    """Return how the model is loaded, built and run in the backends that are chosen.

    Args:
        values: the options.
        declared: the backends whose options are among them.
        plugins: the backends of other packages that are chosen.

    Raises:
        CommandLineError: a backend cannot run such a model, or options do not fit together.
    """
    runners = values[RunnerOptions].runners
    chosen = named_in(runners)
    names = set(chosen)
    options = values[ModelOptions]
    takes_graphs = [set(each.model_types) <= {*TF_TYPES} for each in chosen.values()]
    is_graph = bool(takes_graphs) and all(takes_graphs)
    kind = kind_of_model(values, unknown="frozen" if is_graph else "onnx")
    if any(not each.text for each in chosen.values()):
        check_model_type(options.model_file or "", kind, names)
    if plugins:
        check_types(options.model_file or "", "onnx" if kind in TF_TYPES else kind, plugins)
    accepting = {
        *(plugin.name for plugin in plugins if "onnx" in plugin.declared.model_types),
        *(name for name, each in chosen.items() if "onnx" in each.model_types),
    }
    is_loaded = bool(accepting) and kind in _LOADED
    for each in declared:
        each.warn(values, names, kind)
    _warn_about_graphs(values, kind)
    used = {name: each.chosen(values, kind) for name, each in chosen.items()}
    is_tensorflow = kind in TF_TYPES
    onnx = onnx_of(
        values,
        is_loaded=is_loaded,
        has_others=any(each.marks_outputs for each in chosen.values())
        or (any(each.builds for each in used.values()) and not is_loaded),
        graph=graph_of(values, kind) if is_tensorflow else (),
        opset=values[TfOnnxOptions].opset if is_tensorflow else None,
    )
    return Backends(
        runners=[(name, text) for name, _, text in (each.partition(":") for each in runners)],
        chosen={**used, **{plugin.name: plugin.chosen(values) for plugin in plugins}},
        onnx=onnx,
        accepting=accepting,
    )


def kind_of_model(values: Values, *, unknown: str = "onnx") -> str:
    """Return the type of the model; `unknown` where nothing tells."""
    kind = model_type(values[ModelOptions])
    if kind is None and values[TfLoadOptions].ckpt is not None:
        return "ckpt"
    return kind or unknown


def check_model_type(
    path: str, kind: str, names: Iterable[str], offered: Iterable[str] | None = None
) -> None:
    """Refuse a model that a backend cannot run; `offered` are the backends of the command, by
    default all that run the model of the command line.
    """
    if kind in _REMOVED:
        raise CommandLineError(
            f"{path} is a model of type {kind}, which no TensorRT of today reads. Convert it to"
            " ONNX with the tools of its framework, and give that."
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
            f" cannot run; {' and '.join(able)} can. --model-type tells if the type is another."
        )


def _warn_about_graphs(values: Values, kind: str) -> None:
    """Log which options are about graphs of TensorFlow, and the model is none."""
    if kind not in TF_TYPES:
        unused = flags_given(values, [TfLoadOptions, TfOnnxOptions])
        warn_idle(unused, ", because the model is none of TensorFlow")
