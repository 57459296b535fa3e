"""Modules of this package are named in texts only where that is how they are bound or deferred."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import polygraphy

ROOT = Path(polygraphy.__file__).parent
_NAME = re.compile(r"polygraphy(\.\w+)+(:\w+)?")
_QUOTED = re.compile(r"""["']polygraphy(\.\w+)+(:\w+)?["']""")
ALLOWED = {
    "wiring.py": "binds ports to adapters",
    "adapters/processes/commands.py": "starts the module of the other process",
    "adapters/console/models/reports.py": "reads a renderer of its own room when a model of its kind is shown",
    "__init__.py": "registers the wiring, and where other addresses stand",
    "addresses.py": "published modules at other addresses",
    "logger/errors.py": "names the errors that it notes, which stand above it",
    "mod/dependency.py": "names the error that a missing package is",
    "mod/scripts.py": "names the errors that a script is",
    "legacy/arrays.py": "asks whether the module was imported",
}
"""Files, and why they name modules."""
_FOR_PROGRAMS = ("codegen/", "cli/backends/", "cli/shared/")
"""Folders whose texts are part of generated programs."""


def named_modules(source: str) -> Iterator[str]:
    """Yield the modules of this package that constants in a program name, besides those that
    `defer_names` takes, which linters know.
    """
    if not _QUOTED.search(source):
        return
    nodes = list(ast.walk(ast.parse(source)))
    deferred = {id(part) for node in nodes if _defers(node) for part in ast.walk(node)}
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in deferred and _NAME.fullmatch(node.value) and _exists(node.value):
            yield node.value


_DEFERRED = ("__getattr__", "_ELSEWHERE")


def _defers(node: ast.AST) -> bool:
    """Return whether a part of a program defers names, or says where pickles find a class."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "pickle_as"
    return isinstance(node, ast.Assign) and any(
        isinstance(name, ast.Name) and name.id in _DEFERRED for name in node.targets
    )


def _exists(name: str) -> bool:
    try:
        return find_spec(name.partition(":")[0]) is not None
    except ImportError:
        return False


def test_who_names_modules() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if any(named_modules(path.read_text(encoding="utf-8")))
    }
    assert {path for path in found if not path.startswith(_FOR_PROGRAMS)} == set(ALLOWED)


def test_what_counts_as_naming() -> None:
    assert list(named_modules('import_module("polygraphy.cli.main")')) == ["polygraphy.cli.main"]
    assert list(named_modules('X = {"a": "polygraphy.exception:FileError"}'))
    assert not list(named_modules('__getattr__ = defer_names({"a": "polygraphy.exception"})'))
    assert not list(named_modules('GROUP = "polygraphy.backends"'))
