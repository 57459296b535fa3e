"""Backends of other packages in the command `run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.cli.backends.foreign import BrokenPlugin, PluggedBackend
from polygraphy.cli.backends.registry import built_in
from polygraphy.cli.declare.backend import Backend
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Ordered
from polygraphy.cli.declare.option import Option, options_of
from polygraphy.codegen.parts.plugged import PluggedRunner
from polygraphy.codegen.scripts.script import RunScript


def with_flags(option: Option, plugins: Sequence[PluggedBackend]) -> Option:
    """Return the option that chooses runners with the flags of some backends."""
    assert isinstance(option.kind, Ordered)
    extended = Option(
        (*option.flags, *(plugin.flag for plugin in plugins)),
        option.kind.extended(
            {plugin.flag: plugin.name for plugin in plugins},
            {plugin.flag: plugin.declared.help for plugin in plugins},
        ),
        option.help,
        option.default,
    )
    extended.name = option.name
    return extended


def titles_of(plugins: Sequence[PluggedBackend]) -> dict[str, str]:
    """Return what people call each backend, by name."""
    own = {name: each.title for name, each in built_in().items()}
    return {**own, **{plugin.name: plugin.declared.title for plugin in plugins}}


def plugged_of(values: Values, plugins: Sequence[PluggedBackend]) -> dict[str, PluggedRunner]:
    """Return what the program needs to know of each backend, by name."""
    return {
        plugin.name: PluggedRunner(
            partial=plugin.partial,
            options=_options(plugin.declared, values),
            loads_onnx="onnx" in plugin.declared.model_types,
        )
        for plugin in plugins
    }


def _options(declared: Backend, values: Values) -> Any:
    """Return what the partial of a backend gets."""
    options = values[declared.options] if declared.options else None
    if not declared.runner:
        return options
    module, _, name = declared.runner.partition(":")
    given = {
        row.name: getattr(options, row.name)
        for row in (options_of(declared.options) if declared.options else ())
        if getattr(options, row.name) != row.default
    }
    return {"module": module, "name": name, "arguments": given}


def check_types(path: str, kind: str, plugins: Sequence[PluggedBackend], usage: str) -> None:
    """Refuse a model that a backend cannot run.

    Args:
        path: the model.
        kind: its type; those of TensorFlow count as ``onnx``, which they are converted to.
        plugins: the backends that are to run it.
        usage: the command, for messages.

    Raises:
        CommandLineError: one of them cannot.
    """
    for plugin in plugins:
        types = plugin.declared.model_types
        if types and kind not in types:
            raise CommandLineError(
                f"{path} is a model of type {kind}, which {plugin.flag} cannot run: it runs"
                f" {' and '.join(types)}. --model-type tells if the type is another.",
                usage,
            )


def rendered(script: RunScript, plugins: Sequence[PluggedBackend]) -> str:
    """Return the program, and see to it that it is one: partials are anybody's.

    Raises:
        BrokenPlugin: it is not.
    """
    if not plugins:
        return script.render()
    try:
        source = script.render()
        compile(source, "<program>", "exec")
    except Exception as error:
        packages = " or ".join(dict.fromkeys(plugin.package for plugin in plugins))
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise BrokenPlugin(
            f"what the package {packages} contributes to the program is wrong: {reason}. Repair or"
            " uninstall that package."
        ) from error
    return source
