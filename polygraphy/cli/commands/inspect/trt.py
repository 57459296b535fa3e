"""From options to how `inspect model` makes the TensorRT network or engine that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polygraphy.cli.backends.trt.engine_options import TrtLoadOptions
from polygraphy.cli.backends.trt.network_groups import NETWORK_GROUPS
from polygraphy.cli.backends.trt.network_options import TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions, TrtTypingOptions
from polygraphy.cli.commands.inspect.model_options import InspectedModelOptions, PageOptions
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.option import Options
from polygraphy.cli.shared.model import ModelOptions, model_type, split_symbol

if TYPE_CHECKING:
    from polygraphy.cli.backends.trt.model import TrtModel


_SHOWN_GROUPS: tuple[type[Options], ...] = (*NETWORK_GROUPS, TrtTypingOptions)

INSPECTED_GROUPS: tuple[type[Options], ...] = (TrtPluginOptions, *_SHOWN_GROUPS, TrtLoadOptions)
"""What may be said about networks and engines that are shown."""

_NAME_OF_FUNCTION = "--trt-network-func-name"


def made_of(values: Values, usage: str) -> tuple[str, TrtModel] | None:
    """Return the path of the model, and how a network or an engine is made of it; None where
    nothing is said about that.

    Args:
        values: the options of `inspect model`.
        usage: the command, for messages.

    Raises:
        CommandLineError: there are several models, or it is neither a network nor an engine.
    """
    given = flags_given(values, INSPECTED_GROUPS, besides=[_NAME_OF_FUNCTION])
    if not given:
        return None
    # Few say anything about builds, and what turns that into a program is large.
    from polygraphy.cli.backends.trt.context import loaded_of, network_of
    from polygraphy.cli.backends.trt.model import TrtModel

    models, flags = values[InspectedModelOptions], ", ".join(given)
    if len(models.paths) != 1:
        raise CommandLineError(
            f"{flags}: there are {len(models.paths)} models, and this is about one of them. Show"
            " them one at a time.",
            usage,
        )
    if values[PageOptions].visual or values[PageOptions].save_visual is not None:
        raise CommandLineError(
            f"{flags}: pages show models as they are in their files. Leave --visual and"
            " --save-visual out.",
            usage,
        )
    model = ModelOptions(model_file=models.paths[0], model_type=models.model_type)
    kind = model_type(model)
    is_script = kind == "trt-network-script"
    if kind == "engine":
        _warn(values, _SHOWN_GROUPS, "the network was built already")
        return models.paths[0], loaded_of(values)
    if not is_script and models.display_as is None:
        raise CommandLineError(
            f"{flags}: {models.paths[0]} is shown as it is in its file. Add --convert-to trt to see"
            " the network that TensorRT makes of it.",
            usage,
        )
    _warn(values, [TrtLoadOptions], "no engine is loaded")
    groups: tuple[type[Options], ...] = (TrtPluginOptions, *_SHOWN_GROUPS)
    network = network_of(_whole(model, values, groups), usage, is_script=is_script)
    return split_symbol(models.paths[0])[0], TrtModel(network=network)


def _warn(values: Values, groups: Any, because: str) -> None:
    unused = flags_given(values, groups, besides=[_NAME_OF_FUNCTION])
    if unused:
        warn(f"{', '.join(unused)}: without effect, because {because}.")


def _whole(model: ModelOptions, values: Values, groups: tuple[type[Options], ...]) -> Values:
    """Return the options of some groups, and those of all others about builds as if they had been
    left out.
    """
    from polygraphy.cli.backends.trt.context import with_build_defaults

    whole: dict[Any, Any] = {group: values[group] for group in groups}
    if TrtTypingOptions in groups:
        typing = values[TrtTypingOptions]
        whole[TrtPrecisionOptions] = TrtPrecisionOptions(
            layer_precisions=typing.layer_precisions, strongly_typed=typing.strongly_typed
        )
    return with_build_defaults(Values({**whole, ModelOptions: model}))
