"""The classes and functions of this package as their source says them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

import polygraphy

ROOT = Path(polygraphy.__file__).parent


@frozen
class Method:
    """A public method, or a property, of a public class."""

    path: str
    line: int
    owner: str
    bases: tuple[str, ...]
    name: str
    parameters: tuple[str, ...]
    docstring: str | None
    is_empty: bool

    @property
    def is_declared(self) -> bool:
        """Return whether the method belongs to a protocol."""
        return "Protocol" in self.bases


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of modules with published names or classes, by path."""
    paths = sorted(path for path in ROOT.rglob("*.py") if "compiled" not in path.parts)
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    gc.disable()  # All trees remain, so the garbage collector would only waste time.
    try:
        return {
            path.relative_to(ROOT).as_posix(): ast.parse(text)
            for path, text in texts.items()
            if "class " in text or path.relative_to(ROOT).parts[0] not in _INSIDE
        }
    finally:
        gc.enable()


@cache
def methods() -> list[Method]:
    """Return the public methods of public classes."""
    return [method for path, tree in modules().items() for method in _methods(path, tree)]


def _methods(path: str, tree: ast.Module) -> Iterator[Method]:
    """Yield the methods of the classes in a file."""
    for owner in tree.body:
        if not isinstance(owner, ast.ClassDef):
            continue
        bases = tuple(_name(base) for base in owner.bases)
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and _is_declared_here(node):
                arguments = node.args
                names = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                yield Method(
                    path,
                    node.lineno,
                    owner.name,
                    bases,
                    node.name,
                    tuple(each.arg for each in names),
                    ast.get_docstring(node),
                    len(node.body) == 1,
                )


def _is_declared_here(node: ast.FunctionDef) -> bool:
    """Return whether a function is public, and neither a setter nor an overload."""
    decorators = [ast.unparse(each) for each in node.decorator_list]
    return not node.name.startswith("_") and not any(
        each.endswith(".setter") or each == "overload" for each in decorators
    )


def _name(base: ast.expr) -> str:
    """Return the name of a base class; empty if it is not a name."""
    while isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


@cache
def bases_of(owner: str) -> frozenset[str]:
    """Return the names of all base classes of a class."""
    found: set[str] = set()
    pending = [owner]
    direct = _direct_bases()
    while pending:
        for base in direct.get(pending.pop(), ()):
            if base not in found:
                found.add(base)
                pending.append(base)
    return frozenset(found)


@cache
def _direct_bases() -> dict[str, set[str]]:
    """Return the names of the direct base classes of each class."""
    direct: dict[str, set[str]] = {}
    for tree in modules().values():
        for node in _statements(tree):
            if isinstance(node, ast.ClassDef):
                direct.setdefault(node.name, set()).update(map(_name, node.bases))
    return direct


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements below a node, without those in expressions."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, name, ()):
            yield inner
            yield from _statements(inner)


@cache
def _documented() -> dict[str, list[Method]]:
    """Return the methods that have docstrings, by name."""
    found: dict[str, list[Method]] = {}
    for method in methods():
        if method.docstring:
            found.setdefault(method.name, []).append(method)
    return found


def inherited_docstrings(method: Method) -> list[str]:
    """Return the docstrings of a method in base classes and matching protocols.

    A protocol matches if its method has the same name and arguments.
    """
    bases = bases_of(method.owner)
    return [
        str(other.docstring)
        for other in _documented().get(method.name, ())
        if other.owner in bases
        or (
            (other.is_declared and method.parameters[: len(other.parameters)] == other.parameters)
            and other.owner != method.owner
        )
    ]


_INSIDE = {
    "adapters",
    "application",
    "cli",
    "codegen",
    "domain",
    "ports",
    "program.py",
    "testing",
    "wiring.py",
}


@cache
def published_names() -> frozenset[str]:
    """Return the names in published modules, and those of the fakes."""
    found: set[str] = set()
    for path, tree in modules().items():
        if path.startswith("adapters/fake/"):
            found.update(each.name for each in tree.body if isinstance(each, ast.ClassDef))
        for node in () if path.split("/")[0] in _INSIDE else ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found.update(each.asname or each.name for each in node.names)
    return frozenset(found)
