"""What a program says: its calls, and the values that it gives to names."""

from __future__ import annotations

import ast
import copy
import shlex
from collections.abc import Iterator

import polygraphy
from polygraphy import __version__

__all__ = ["VERSION", "constants_of", "facts_of"]

VERSION = f"Polygraphy | Version: {__version__} | Path: {polygraphy.__path__}\n"
"""What ``polygraphy --version`` writes."""


def facts_of(program: str) -> set[str]:
    """Return each call and assignment of a program as source.

    ``_`` stands for a call within it, and for a variable.
    """
    said = (ast.unparse(fact) for fact in _facts(ast.parse(program)))
    return {fact for fact in said if not fact.endswith(" = _")}


def constants_of(fact: str) -> set[str]:
    """Return the constants in a fact as source: literals, members of enumerations, words."""
    nodes = list(ast.walk(ast.parse(fact)))
    words = (
        shlex.split(node.args[0].value)
        for node in nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "shlex.split"
        and isinstance(node.args[0], ast.Constant)
    )
    return {
        repr(node.attr) if isinstance(node, ast.Attribute) else ast.unparse(node)
        for node in nodes
        if isinstance(node, (ast.Attribute, ast.Constant, ast.UnaryOp))
    }.union(*({repr(word) for word in each} for each in words))


def _facts(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield each call and assignment as a syntax tree, with masked parts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.Call(
                func=_function(node.func),
                args=[_Masked().visit(_copy(each)) for each in node.args],
                keywords=[
                    ast.keyword(each.arg, _Masked().visit(_copy(each.value)))
                    for each in node.keywords
                ],
            )
        elif isinstance(node, ast.Assign):
            yield ast.Assign(node.targets, _Masked().visit(_copy(node.value)), lineno=0)


def _copy(node: ast.expr) -> ast.expr:
    """Return a copy of a syntax tree."""
    return copy.deepcopy(node)


def _function(node: ast.expr) -> ast.expr:
    """Return the called function; for a method of a call's result, a method of ``_``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        return ast.Attribute(ast.Name("_"), node.attr)
    return node


class _Masked(ast.NodeTransformer):
    """Puts ``_`` in place of calls and variables."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Return `_` for a nested call."""
        return ast.Name("_")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return a name of a constant unchanged, and `_` for a variable."""
        return node if node.id.isupper() and node.id != "MODEL" else ast.Name("_")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Return an attribute unchanged."""
        return node
