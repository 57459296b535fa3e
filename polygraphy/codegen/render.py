"""Renders templates into programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, FileSystemLoader, ModuleLoader, StrictUndefined

from polygraphy.codegen.docstring import docstring
from polygraphy.codegen.source import Source, finalize, literal

__all__ = ["LINE_LENGTH", "environment", "formatted", "render"]

LINE_LENGTH = 100
_FOLDER = Path(__file__).parent
TEMPLATES = _FOLDER / "templates"
COMPILED = _FOLDER / "compiled"


class _Imports:
    """Collects what a program imports while its body is rendered."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def use(self, module: str, name: str) -> Source:
        """Return a name that the program imports from a module."""
        self._names.setdefault(module, set()).add(name)
        return Source(name)

    def lines(self) -> Source:
        """Return the import statements."""
        return Source(
            "\n".join(
                f"from {module} import {', '.join(sorted(names, key=_import_order))}"
                for module, names in sorted(self._names.items())
            )
        )


def _import_order(name: str) -> tuple[int, str]:
    """Order names as isort does: constants, classes, functions."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def _arguments(*positional: Any, **keywords: Any) -> Source:
    """Return the arguments of a call; those that are None are left out, because None is what
    leaving out means.
    """
    sources: list[str] = [finalize_argument(value) for value in positional if value is not None]
    sources += [
        f"{name}={finalize_argument(value)}"
        for name, value in keywords.items()
        if value is not None
    ]
    return Source(", ".join(sources))


def finalize_argument(value: Any) -> Source:
    """Return an argument as source: what is source already as it is, anything else as a literal."""
    return value if isinstance(value, Source) else literal(value)


_LEVELS = re.compile(r"[A-Z]+(_[A-Z]+)?")
_WORDS = frozenset(
    {
        "MODEL",
        "None",
        "bool",
        "data_loader",
        "load_model",
        "model",
        "results",
        "runners",
        "runs",
        "verdicts",
    }
)


def _level(name: str) -> Source:
    """Return the name of a log level as source."""
    if not _LEVELS.fullmatch(name):
        raise ValueError(f"{name!r} is no log level.")
    return Source(name)


def _source(word: str) -> Source:
    """Return one of the few words that templates may write through an expression."""
    if word not in _WORDS:
        raise ValueError(f"{word!r} is not one of the words that templates may write.")
    return Source(word)


def environment(loader: BaseLoader | None = None) -> Environment:
    """Return the environment in which templates are compiled and rendered."""
    if loader is None:
        compiled = (COMPILED / "__init__.py").exists()
        loader = ModuleLoader(COMPILED) if compiled else FileSystemLoader(TEMPLATES)
    made = Environment(
        loader=loader,
        finalize=finalize,
        undefined=StrictUndefined,
        autoescape=True,  # Makes macros return Source; after `finalize` nothing is left to escape.
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["literal"] = literal
    made.globals.update(arguments=_arguments, level=_level, source=_source)
    return made


@lru_cache(maxsize=1)
def shared_environment() -> Environment:
    """Return the environment of this process, which keeps the templates that it has compiled."""
    return environment()


def render(template: str, summary: str, command: Sequence[str], **context: Any) -> str:
    """Render a program.

    Args:
        template: name of the template, such as ``run.py.j2``.
        summary: the first line of the program's docstring; printable text.
        command: the words of the command line that the program stands for.
        context: values for the template.

    Returns:
        Python source; valid, but not pretty: see `formatted`.
    """
    imports = _Imports()
    use: Callable[[str, str], Source] = imports.use
    return (
        shared_environment()
        .get_template(template)
        .render(use=use, imports=imports, header=docstring(summary, command), **context)
    )


def formatted(source: str) -> str:
    """Return the same program as black writes it."""
    import black

    return black.format_str(source, mode=black.Mode(line_length=LINE_LENGTH))
