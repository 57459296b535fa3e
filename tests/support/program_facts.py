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
    """Return the calls of a program and what it gives names to, as source, each by itself: ``_``
    stands for a call within it, and for a variable.
    """
    said = (ast.unparse(fact) for fact in _facts(ast.parse(program)))
    return {fact for fact in said if not fact.endswith(" = _")}


def constants_of(fact: str) -> set[str]:
    """Return the constants in a fact, the members of enumerations, and the words of commands, as
    source.
    """
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
    return copy.deepcopy(node)


def _function(node: ast.expr) -> ast.expr:
    """Return what is called; a method of a call's result is one of ``_``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        return ast.Attribute(ast.Name("_"), node.attr)
    return node


class _Masked(ast.NodeTransformer):
    """Puts ``_`` in place of calls and variables."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return ast.Name("_")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id.isupper() and node.id != "MODEL" else ast.Name("_")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node
