"""The files that a command line reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import isfile, normpath, realpath
from pathlib import Path
from typing import Any

from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Option, Options, Values
from polygraphy.domain.errors import UnknownNameError, UsageError, close_matches

_UPDATED = {
    "--load-timing-cache": "--save-timing-cache",
    "--load-debug-replay": "--save-debug-replay",
}
"""Pairs of options that may name one file, which is read and then replaced."""
_LATE = ("--log-file", "--gen-script", "--report")
"""Options of files that every command can write."""
_LIBRARY = "Library"
_MODELS = ("Model", "Model of the first step", "Reference")
_DEFINE_MORE = frozenset({"exec", "eval", "globals", "vars", "setattr"})
"""If a script contains one of these names, its text does not show all its definitions."""

NamedPaths = Iterable[tuple[str, str | None]]


def check_paths(read: NamedPaths, written: NamedPaths) -> None:
    """Raise CommandLineError if an input would be overwritten, or two outputs have the same path.

    Args:
        read: the files that are read: a flag or another name, and the path.
        written: the files that are written, in the same form.

    Raises:
        CommandLineError: two of them name the same path, also through a link.
    """
    flags = {_resolve_path(path): flag for flag, path in read if path is not None}
    for flag, path in written:
        if path is None:
            continue
        other_name = flags.setdefault(_resolve_path(path), flag)
        if other_name != flag:
            raise CommandLineError(
                f"{other_name} and {flag} have the same path, {path}. Choose a different path."
            )


def check_files(values: Values, *, written: NamedPaths = ()) -> None:
    """Raise CommandLineError if options name an input as an output, or the same output twice.

    Args:
        values: the options of any command.
        written: other files that are written; see `check_paths`.

    Raises:
        CommandLineError: two of them name the same path.
    """
    written = [*_files_of_options(values, lambda row: row.writes), *written]
    check_paths(files_read(values), written)


def _files_of_options(
    values: Values, is_one: Callable[[Option], object]
) -> Iterator[tuple[str, str]]:
    """Yield the files that options name, each with the flag; standard output is not a file."""
    for label, _, row, value in _options_with_values(values):
        if value and is_one(row):
            paths = [path for path, _ in row.kind.files(value) if path != "-"]
            flags = row.kind.flags_of(value) or [row.spelling] * len(paths)
            yield from zip((f"{flag}{label}" for flag in flags), paths)


def _options_with_values(values: Values) -> Iterator[tuple[str, Options, Option, Any]]:
    """Yield label, group, option and value of each option that differs from its default.
    Options of named runners are included.
    """
    yield from (("", *row) for row in values.non_default_options)
    for name, own_values in values.nested.items():
        yield from ((f" of {name}", *row) for row in own_values.non_default_options)


def check_log_and_program(values: Values) -> None:
    """Raise CommandLineError if the log, the program or a report would overwrite a file named
    elsewhere.

    Args:
        values: the options of any command.

    Raises:
        CommandLineError: another option also names the file; for the log and the program, only
            existing files count.
    """
    written: list[tuple[str, str]] = []
    named: set[str] = set()
    for _, _, row, value in _options_with_values(values):
        texts = _texts(value) if isinstance(value, (str, Mapping, tuple, list)) else ()
        if row.spelling in _LATE:
            written += [(row.spelling, text) for text in texts]
        else:
            named.update(map(_resolve_path, texts))
    other_names: set[str] = set()
    for flag, path in written:
        resolved = _resolve_path(path)
        # A report is written last, so it would overwrite a file that the program saves earlier.
        # `os.path.isfile`, because `Path.is_file` raises an error for long names.
        is_there = flag == "--report" or isfile(resolved)  # noqa: PTH113
        is_taken = (resolved in named and is_there) or resolved in other_names
        other_names.add(resolved)
        if is_taken:
            raise CommandLineError(
                f"{flag} would overwrite {path}, which is also used elsewhere on the command"
                " line. Choose a different file."
            )


def check_read(values: Values) -> None:
    """Raise an error if a required input file, or a function of a script, does not exist.

    Raises:
        UsageError: it does not exist.
    """
    for _, _, row, value in _options_with_values(values):
        if row.reads is None or row.may_be_missing or not value:
            continue
        for path, symbol in row.kind.files(value):
            _check_file(row.reads, path)
            if symbol is not None and path.endswith(".py"):
                _check_symbol(path, symbol)


def files_read(values: Values) -> list[tuple[str, str]]:
    """Return the input files with the flags that name them."""
    saved = dict(_files_of_options(values, lambda row: row.writes))

    def is_updated(label: str, path: str) -> bool:
        """Return whether a file is read and written by the same pair of options."""
        flag, of, name = label.partition(" of ")
        return flag in _UPDATED and saved.get(f"{_UPDATED[flag]}{of}{name}") == path

    return [
        (label, path)
        for label, path in _files_of_options(values, lambda row: row.reads is not None)
        if not is_updated(label, path)
    ]


def _check_file(what: str, path: str) -> None:
    """Raise UsageError if a file does not exist, with a similar name as hint."""
    file = Path(path)
    try:
        if what in _MODELS and file.is_fifo():
            # Not opened: that would wait for a writer, and several parts of a command read models.
            raise UsageError(
                f"{what} {path} is a pipe, which can be read only once.",
                hint="Save its content to a file first.",
            )
        if file.exists() or _is_prefix(file) or (what == _LIBRARY and file.name == path):
            return  # A library without a folder is searched for in the folders of the system.
        names = [path.name for path in file.parent.iterdir()]
        if file.is_symlink():
            # Without an error for links that lead to themselves, the result is still a link.
            reason = "leads back to it" if Path(realpath(path)).is_symlink() else "does not exist"
            raise UsageError(
                f"{what} {path} is a link to {file.readlink()}, which {reason}.",
                hint="Fix the link, or use the path of the file itself.",
            )
    except FileNotFoundError:
        names = []  # The folder does not exist.
    except (OSError, ValueError):
        return  # Opening the file reports whether it exists.
    matches = close_matches(file.name, names, limit=1, cutoff=0.8)
    hint = f"Did you mean {file.parent / matches[0]}?" if matches else ""
    if not names and not file.parent.exists():
        hint = f"The folder {file.parent} does not exist either."
    raise UsageError(f"{what} {path} does not exist.", hint=hint)


def _is_prefix(path: Path) -> bool:
    """Return whether a path is the prefix of a TensorFlow checkpoint."""
    return path.with_name(f"{path.name}.index").exists()


def _check_symbol(path: str, symbol: str) -> None:
    """Raise an error if a script does not define a name, as far as its text shows."""
    import ast

    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # Running the script reports its errors.
    known_names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            known_names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known_names.add(node.id)
        elif isinstance(node, ast.alias):
            known_names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and node.id in _DEFINE_MORE:
            return
    defined = [getattr(node, "name", "_") for node in tree.body]
    public = [name for name in defined if not name.startswith("_")]
    if public and not known_names & {symbol, "*", "__getattr__"}:
        # Otherwise, running the script may give a better error.
        raise UnknownNameError(f"In the script {path}, the name", symbol, public)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in the value of an option."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _texts(inner)


def _resolve_path(path: str) -> str:
    """Return a path with links resolved."""
    try:
        return realpath(path)
    except (OSError, ValueError):  # The path is invalid, so no file exists there.
        return normpath(path)
