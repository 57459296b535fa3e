"""The TensorRT network or engine that `inspect model` shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polygraphy.cli.backends.built_in import InspectedModel, Inspection, RunnerModel
from polygraphy.cli.backends.trt.checks import NETWORK_GROUPS
from polygraphy.cli.backends.trt.engine_options import TrtLoadOptions
from polygraphy.cli.backends.trt.network_options import TrtNetworkOptions, TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions, TrtTypingOptions
from polygraphy.cli.declare.errors import CommandLineError, warn, warn_of_idle_flags
from polygraphy.cli.declare.option import Options, Values, non_default_flags
from polygraphy.cli.shared.model import ModelOptions, model_type, split_symbol
from polygraphy.codegen.source import Source

_SHOWN_GROUPS: tuple[type[Options], ...] = (*NETWORK_GROUPS, TrtTypingOptions)

_GROUPS: tuple[type[Options], ...] = (TrtPluginOptions, *_SHOWN_GROUPS, TrtLoadOptions)
"""Options about networks and engines that are shown."""

_NAME_OF_FUNCTION = "--trt-network-func-name"


def _steps_to_inspect(values: Values, model: ModelOptions, is_converted: bool) -> InspectedModel:
    """Return the statements that create the network or the engine of a model.

    Raises:
        CommandLineError: it is neither.
    """
    # Few commands use build options, and the module that turns them into a program is large.
    from polygraphy.cli.backends.trt.context import load_engine_model, network_of

    path, kind = model.model_file or "", model_type(model)
    is_script = kind == "trt-network-script"
    if kind == "engine":
        _warn_about(values, _SHOWN_GROUPS, "the network was already built")
        return InspectedModel(path, [], load_engine_model(values).load_call(RunnerModel.path))
    if not is_script and not is_converted:
        flags = ", ".join(non_default_flags(values, _GROUPS, besides=[_NAME_OF_FUNCTION]))
        raise CommandLineError(
            f"{flags}: has no effect, because {path} is shown as stored. Add --convert-to trt"
            " to see its TensorRT network."
        )
    _warn_about(values, [TrtLoadOptions], "no engine is loaded")
    typing = values[TrtTypingOptions]
    precision = TrtPrecisionOptions(
        layer_precisions=typing.layer_precisions, strongly_typed=typing.strongly_typed
    )
    replaced = values.replace_groups(precision, model)
    network = network_of(replaced, is_script=is_script)
    return InspectedModel(
        split_symbol(path)[0], network.steps_from(RunnerModel.path), Source("load_network")
    )


def _warn_about(values: Values, groups: Iterable[type[Options]], because: str) -> None:
    """Warn of options of some groups that have no effect, with the reason."""
    unused = non_default_flags(values, groups, besides=[_NAME_OF_FUNCTION])
    warn_of_idle_flags(unused, f", because {because}")


def _warn_without_script(values: Values, paths: Sequence[str]) -> None:
    """Warn that --trt-network-func has no effect if no model is a network script."""
    named = values[TrtNetworkOptions].trt_network_func_name
    if named is not None and not any(split_symbol(path)[0].endswith(".py") for path in paths):
        warn("--trt-network-func: has no effect, because no model is a network script.")


INSPECTION = Inspection(
    groups=_GROUPS, besides=(_NAME_OF_FUNCTION,), make=_steps_to_inspect, warn=_warn_without_script
)
