"""The files that a user's script reads, as far as its source code names them."""

from __future__ import annotations

import ast
import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_LONGEST_NAME = 256
"""Longer strings of a script are texts, not names of files."""
_OURS = "polygraphy"
_MODULES = (".py", ".so", ".pyd")
_IMPORTING = ("import_module", "__import__")
_LISTING = {"iterdir": "*", "listdir": "*", "scandir": "*", "rglob": "**/*", "walk": "**/*"}
"""Functions that list a folder, and a pattern of what they list."""
_WRITING = ("dump", "save", "to_", "write")
"""Beginnings of the names of functions that write the file that they name."""


def files_of_script(script: Path, root: Path) -> set[Path]:
    """Return the modules that a script imports, directly or through others, and the files that a
    string in one of them names. Modules are found in the folder of the script and in folders of
    PYTHONPATH into which no package is installed; files also in `root`.
    """
    found: set[Path] = set()
    waiting = [script] if script.suffix == ".py" else []
    importing = (script.parent, *_folders_of_python_path())
    while waiting:
        module = waiting.pop()
        try:
            tree = ast.parse(module.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        folders = [*dict.fromkeys((module.parent, script.parent, root))]
        found.update(_files_in_strings(tree, folders))
        for name in _modules_of_imports(tree):
            for path in _files_of_module(name, importing):
                if path not in found and path != script:
                    found.add(path)
                    waiting.append(path)
    return found


def _folders_of_python_path() -> Iterator[Path]:
    """Yield the folders of PYTHONPATH into which no package is installed."""
    for text in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if os.path.isabs(text) and not any(Path(text).glob("*.dist-info")):  # noqa: PTH117
            yield Path(text)


def _files_of_module(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of a module and its package in some folders."""
    package = name.partition(".")[0]
    if not package or package == _OURS:
        return
    for folder in folders:
        yield from (
            path
            for path in folder.glob(f"{glob.escape(package)}.*")
            if path.suffix in _MODULES and path.is_file()
        )
        yield from (path for path in (folder / package).rglob("*.py") if path.is_file())


def _modules_of_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the modules that source code imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Call) and _name_of_function(node) in _IMPORTING:
            yield from _texts_in(node)


def _files_in_strings(tree: ast.AST, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that strings in source code name, in some folders and in folders inside them
    that strings name, too.
    """
    texts, calls = {*_texts_in(tree)}, [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    for call in calls:
        if _name_of_function(call).startswith(_WRITING):
            texts -= {text for part in (call.func, *call.args[:1]) for text in _texts_in(part)}
    named: list[Path] = []
    for text in texts:
        for folder in folders:
            with suppress(OSError, ValueError):
                path = folder / text
                if path.is_file():
                    yield path
                elif path.is_dir() and not any(
                    path.resolve() in (each.resolve(), *each.resolve().parents) for each in folders
                ):
                    named.append(path)
    texts.update(_LISTING[name] for name in map(_name_of_function, calls) if name in _LISTING)
    for text in {*texts, *_patterns_in(tree)}:
        with suppress(OSError, ValueError, NotImplementedError):
            # Below `folders` are also reports, which each run writes.
            is_whole_path = "/" in text and "**" not in text
            for place in [*named, *folders] if is_whole_path else named:
                yield from (path for path in place.glob(text) if path.is_file())


def _texts_in(tree: ast.AST) -> Iterator[str]:
    """Yield the strings in source code that may be names."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and 0 < len(text) < _LONGEST_NAME and "\n" not in text:
            yield text


def _patterns_in(tree: ast.AST) -> Iterator[str]:
    """Yield the formatted strings in source code, with `*` for each value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pattern = "".join(
                glob.escape(str(part.value)) if isinstance(part, ast.Constant) else "*"
                for part in node.values
            )
            if set(pattern) - set("*./"):
                yield pattern


def _name_of_function(call: ast.Call) -> str:
    """Return the name of a function that is called, without its module or object."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")
