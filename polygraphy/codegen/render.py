"""Renders templates into programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha1
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    DictLoader,
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    ModuleLoader,
    StrictUndefined,
    Undefined,
    pass_context,
)
from jinja2.bccache import Bucket
from jinja2.runtime import Context

from polygraphy.codegen.source import Expression, Source, docstring, literal


class BytecodeBeside(FileSystemBytecodeCache):
    """Caches compiled templates in the folder where Python caches modules, under the same
    conditions.

    The cache key includes the versions of Python and Jinja2, and the template texts, so a stale
    entry is never used.
    """

    def __init__(self, package: Path, modules: Iterable[Path]) -> None:
        """Set the package that the templates belong to.

        Args:
            package: its folder.
            modules: the modules that affect how templates are compiled.
        """
        super().__init__(str(package / "__pycache__"))
        digest = sha1(jinja2.__version__.encode(), usedforsecurity=False)
        for path in modules:
            digest.update(path.read_bytes())
        self._compiler = digest.hexdigest()

    def get_source_checksum(self, source: str) -> str:
        """Return a checksum of a template and its compilation settings."""
        return super().get_source_checksum(self._compiler + source)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load the compiled template, if it exists and is current."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # A damaged file can raise anything.
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store the compiled template, if files may be written."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)


LINE_LENGTH = 100
_OURS = "polygraphy"
_FOLDER = Path(__file__).parent
TEMPLATES = _FOLDER / "templates"
COMPILED = _FOLDER / "compiled"


class _Imports:
    """Collects the imports of a program while its body is rendered."""

    def __init__(self) -> None:
        """Start without imports."""
        self._names: dict[str, set[str]] = {}

    def use(self, module: str, name: str, alias: str = "") -> Source:
        """Return the name of an import, and add the import."""
        self._names.setdefault(module, set()).add(f"{name} as {alias}" if alias else name)
        return Source(alias or name or module)

    def lines(self) -> Source:
        """Return the import statements: the standard library, other packages, this package."""
        groups: tuple[list[str], list[str], list[str]] = ([], [], [])
        for module, names in sorted(self._names.items()):
            package = module.partition(".")[0]
            group = 2 if package == _OURS else int(package not in sys.stdlib_module_names)
            groups[group].extend(_lines(module, names))
        return Source("\n\n".join("\n".join(group) for group in groups if group))


def _lines(module: str, names: set[str]) -> list[str]:
    """Return the statements that import names from a module."""
    plain = sorted((name for name in names if name and " as " not in name), key=_import_order)
    renamed = sorted(names.difference(plain, [""]))
    whole_names = [f"import {module}"] if "" in names else []
    listed = [*renamed, ", ".join(plain)]
    return whole_names + [f"from {module} import {name}" for name in listed if name]


def _import_order(name: str) -> tuple[int, str]:
    """Return the sort key of an imported name: constants, classes, functions, as isort sorts."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def _arguments_source(*positional: Any, **keywords: Any) -> Source:
    """Return the source of the arguments of a call, without those that are None.
    Templates of other packages write some without names."""
    named = [*(("", value) for value in positional), *keywords.items()]
    return Source(
        ", ".join(
            (f"{name}=" if name else "") + (value if isinstance(value, Source) else literal(value))
            for name, value in named
            if value is not None
        )
    )


_LEVELS = re.compile(r"[A-Z]+(_[A-Z]+)?")
_WORDS = frozenset((
    "KNOWN", "MODEL", "None", "PLAN", "PLUGINS", "bool", "build_engine", "iterations",
    "make_runner", "matches", "model", "models", "part.bad", "path", "reduction.bad",
    "reduction.good", "results", "runners", "runs",
))  # fmt: skip


def _level(name: str) -> Source:
    """Return the name of a log level as source."""
    if not _LEVELS.fullmatch(name):
        raise ValueError(f"{name!r} is not a log level.")
    return Source(name)


def _source(word: str) -> Source:
    """Return a word as source.
    Raise an error unless it is a word that templates may write as an expression.
    """
    if word not in _WORDS:
        raise ValueError(f"{word!r} is not one of the words that templates may write.")
    return Source(word)


def environment(
    loader: BaseLoader | None = None, partials: Mapping[str, str] | None = None
) -> Environment:
    """Return the environment that compiles and renders templates:
    those of this package and, if there are any, of others."""
    is_compiled = (COMPILED / "__init__.py").exists()
    shipped = ModuleLoader(COMPILED) if is_compiled else FileSystemLoader(TEMPLATES)
    made_of = [_FOLDER / name for name in ("render.py", "source.py")]
    new_environment = Environment(
        loader=loader or (ChoiceLoader([shipped, DictLoader(partials)]) if partials else shipped),
        bytecode_cache=None if is_compiled else BytecodeBeside(_FOLDER, made_of),
        finalize=finalize_in,
        undefined=StrictUndefined,
        autoescape=True,  # Makes macros return Source; after `finalize` nothing is left to escape.
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    new_environment.filters["literal"] = literal
    new_environment.globals.update(arguments=_arguments_source, level=_level, source=_source)
    return new_environment


_shared = lru_cache(maxsize=1)(environment)
"""The environment of this process, which keeps the templates that it has compiled."""


def render(
    template: str,
    summary: str,
    command: str,
    partials: Mapping[str, str] | None = None,
    **context: Any,
) -> str:
    """Return the source of a program.

    Args:
        template: name of the template, such as ``run.py.j2``.
        summary: the first line of the program's docstring; printable text.
        command: the command line of the program, as `quote_command` writes it.
        partials: templates of other packages that it may import: their texts by name.
        context: values for the template.

    Returns:
        Valid but unformatted Python source; see `format_source`.
    """
    imports = _Imports()
    use: Callable[..., Source] = imports.use
    chosen = environment(partials=partials) if partials else _shared()
    return chosen.get_template(template).render(
        use=use, imports=imports, header=docstring(summary, command), **context
    )


def render_list(steps: Iterable[Expression], name: str, items: Iterable[Expression]) -> str:
    """Return statements that create a list of expressions, without a program around them.

    Args:
        steps: statements before.
        name: name of the list.
        items: its contents.
    """
    imports = _Imports()
    before = [step.to_source(imports.use) for step in steps]
    listed = ", ".join(item.to_source(imports.use) for item in items)
    return "\n".join([imports.lines(), *before, f"{name} = [{listed}]", ""])


def format_source(source: str) -> str:
    """Return a program in the format of black."""
    import black

    return black.format_str(source, mode=black.Mode(line_length=LINE_LENGTH))


def write_compiled(folder: Path) -> None:
    """Write the compiled templates below `folder`, the package's folder in the build,
    so that running a command compiles nothing.
    """
    target = folder / "codegen" / "compiled"
    target.mkdir(parents=True, exist_ok=True)
    environment(FileSystemLoader(TEMPLATES)).compile_templates(
        target, zip=None, ignore_errors=False
    )
    (target / "__init__.py").write_text(
        '"""Templates, compiled from ../templates."""\n', encoding="utf-8"
    )


def finalize(value: Any) -> Source:
    """Return a value as source code; every expression of a template passes through this function.

    Raises:
        TypeError: `value` is a bare string, or has no literal.
    """
    if isinstance(value, Source):
        return value
    if isinstance(value, Undefined):
        str(value)  # Raises the error of StrictUndefined.
    if isinstance(value, str):
        raise TypeError(f"A template wrote the bare string {value!r}: make it a literal.")
    return literal(value)


@pass_context
def finalize_in(context: Context, value: Any) -> Source:
    """Return a value as source code, and add the imports that an expression needs."""
    return value.to_source(context["use"]) if isinstance(value, Expression) else finalize(value)
