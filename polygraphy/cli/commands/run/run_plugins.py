"""Backends of other packages in the command `run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polygraphy.cli.backends.foreign import BrokenPlugin, PluggedBackend
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import OrderedFlags
from polygraphy.cli.declare.option import Option
from polygraphy.cli.shared.model import NamedModel


def with_flags(option: Option, plugins: Sequence[PluggedBackend]) -> Option:
    """Return the option that selects runners, with the flags of further backends."""
    assert isinstance(option.kind, OrderedFlags)
    extended = Option(
        (*option.flags, *(plugin.flag for plugin in plugins)),
        option.kind.extend(
            {plugin.flag: plugin.name for plugin in plugins},
            {plugin.flag: plugin.declared.help for plugin in plugins},
        ),
        option.help,
        option.default,
    )
    extended.name = option.name
    return extended


def check_types(model: NamedModel, kind: str, plugins: Sequence[PluggedBackend]) -> None:
    """Raise CommandLineError if a backend of another package cannot run the model.

    Args:
        model: the model.
        kind: its type; those of TensorFlow count as ``onnx``, which they are converted to.
        plugins: the backends that run it.
    """
    for plugin in plugins:
        types = plugin.declared.model_types
        if types and kind not in types:
            raise CommandLineError(
                f"{model.model_file} is a model of type {kind}, which {plugin.flag} cannot run:"
                f" it runs {' and '.join(types)}. If the type is wrong, set --model-type."
            )


def render_checked(render: Callable[[], str], plugins: Sequence[PluggedBackend]) -> str:
    """Return a rendered program; raise an error if a template of another package made it invalid.

    Raises:
        BrokenPlugin: the program is invalid.
    """
    try:
        source = render()
        compile(source, "<program>", "exec")
    except Exception as error:
        packages = " or ".join(dict.fromkeys(plugin.package for plugin in plugins))
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise BrokenPlugin(
            f"the package {packages} adds invalid code to the program: {reason}. Repair or"
            " uninstall that package."
        ) from error
    return source
