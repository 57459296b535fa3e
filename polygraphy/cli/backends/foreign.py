"""Backends that other packages add to the command line.

A backend is loaded when its flag is on the command line, or when help lists all. If one cannot be
loaded, a warning names it; only a command that uses it fails.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from inspect import isclass
from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy.cli.backends.built_in import Backend, BackendUsage, RunnerModel, flag_of
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.kinds import Kind
from polygraphy.cli.declare.option import Options, Values, options_of
from polygraphy.codegen.source import Expression, ForeignCall, TemplateExpression
from polygraphy.domain.tensors.naming import with_article
from polygraphy.mod.plugins import BACKENDS, OTHERS_BACKENDS, entry_points_of, package_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_RUNNER = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


class BrokenPlugin(CommandLineError):
    """A backend of another package that cannot be used: exit code 3."""

    exit_code = 3


@frozen
class PluggedBackend:
    """A loaded backend of another package: its entry point, declaration, template text, and
    package."""

    name: str
    declared: Backend
    partial: str
    package: str

    @property
    def flag(self) -> str:
        """Return the flag that selects it."""
        return flag_of(self.name)

    @property
    def template(self) -> str:
        """Return the name of its template among the templates of a program."""
        return f"runners/{self.name}.py.j2"

    def usage(self, values: Values) -> BackendUsage:
        """Return how a program uses the backend of another package."""
        declared = self.declared
        options = values[declared.options] if declared.options else None

        def runner(model: RunnerModel) -> Expression:
            """Return the expression that creates the runner for a model."""
            is_path = model.is_path or "onnx" not in declared.model_types
            source = model.path if is_path else model.source
            if not declared.runner:
                return TemplateExpression(self.template, (options, source, is_path))
            module, _, name = declared.runner.partition(":")
            return ForeignCall(module, name, [source], _non_default_options(options))

        return BackendUsage(runner=runner)

    @property
    def option_flags(self) -> list[str]:
        """Return the flags of its own options."""
        return _option_flags(self.declared.options)


def warn_of_unsupported_packages() -> None:
    """Warn of installed packages that extend only NVIDIA's command line."""
    packages = list(dict.fromkeys(package_of(entry) for entry in entry_points_of(OTHERS_BACKENDS)))
    if packages:
        warn(
            f"{', '.join(packages)}: Polygraphy ignores entry points of the group"
            f" {OTHERS_BACKENDS}; it reads those of {BACKENDS}."
        )


def backends_with_flags(
    flags: Collection[str], taken_flags: Collection[str]
) -> list[PluggedBackend]:
    """Return the backends of other packages whose flags are in a command line.
    Others are not imported.

    Args:
        flags: the flags of the command line.
        taken_flags: existing flags.

    Raises:
        BrokenPlugin: one of them cannot be loaded.
    """
    if set(flags) <= set(taken_flags):
        return []
    return [
        _load_plugin(plugin, taken_flags)
        for plugin in entry_points_of(BACKENDS)
        if flag_of(plugin.name) in flags and flag_of(plugin.name) not in taken_flags
    ]


def all_backends(taken_flags: Collection[str]) -> list[PluggedBackend]:
    """Return every backend of other packages that can be loaded; warn of the rest.

    Args:
        taken_flags: existing flags.
    """
    backends: list[PluggedBackend] = []
    flags = set(taken_flags)
    for plugin in entry_points_of(BACKENDS):
        try:
            backend = _load_plugin(plugin, flags)
        except BrokenPlugin as error:
            warn(str(error))
            continue
        flags.update((backend.flag, *backend.option_flags))
        backends.append(backend)
    return backends


def _load_plugin(plugin: EntryPoint, taken_flags: Collection[str]) -> PluggedBackend:
    """Return the backend of another package.
    Raise BrokenPlugin if it cannot be loaded or conflicts."""
    try:
        declared = plugin.load()
        _check(plugin.name, declared, taken_flags)
        partial = "" if declared.runner else _template_text(plugin.module, declared.partial)
    except Exception as error:  # Code of another package can raise anything.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise BrokenPlugin(
            f"the backend {plugin.name!r} of the package {package_of(plugin)} cannot be used:"
            f" {reason.rstrip('.')}. Repair or uninstall that package."
        ) from error
    return PluggedBackend(plugin.name, declared, partial, package_of(plugin))


def _check(name: str, declared: object, taken_flags: Collection[str]) -> None:
    """Raise BrokenPlugin if the options of a backend conflict with those of the command line."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a valid backend name: lower-case letters, digits and _ are"
        )
    if not isinstance(declared, Backend):
        raise TypeError(
            f"it is {with_article(type(declared).__name__)}, not a polygraphy.extension.Backend"
        )
    if declared.runner and not _RUNNER.fullmatch(declared.runner):
        raise ValueError(f"its runner {declared.runner!r} is not of the form package.module:Name")
    options = declared.options
    is_group = isclass(options) and issubclass(options, Options)
    if options is not None and not (is_group and hasattr(options, "__attrs_attrs__")):
        raise TypeError(
            "its options are not an attrs class derived from polygraphy.extension.Options"
        )
    for row in [] if options is None else options_of(options):
        if not isinstance(row.kind, Kind):
            raise TypeError(
                f"the kind of its option {row.name} is {row.kind!r}, not an object such as Number()"
            )
    clashes = [flag for flag in (flag_of(name), *_option_flags(options)) if flag in taken_flags]
    if clashes:
        raise ValueError(f"{', '.join(clashes)} already has a different meaning")


def _non_default_options(options: Options | None) -> dict[str, Any]:
    """Return the options that differ from their defaults, by field name."""
    rows = [] if options is None else options_of(type(options))
    values = {row.name: getattr(options, row.name) for row in rows}
    return {row.name: values[row.name] for row in rows if values[row.name] != row.default}


def _template_text(module: str, name: str) -> str:
    """Return the text of a template file next to a module."""
    from importlib.resources import files
    from importlib.util import find_spec

    spec = find_spec(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    package = module if is_package else module.rpartition(".")[0]
    if not package:
        raise ValueError(f"the module {module} is not in a package, so it has no files next to it")
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _option_flags(options: type[Options] | None) -> list[str]:
    """Return all flags of a group of options; empty without a group."""
    return [flag for option in options_of(options) for flag in option.flags] if options else []
