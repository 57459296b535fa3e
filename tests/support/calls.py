"""Looks for calls in a program, whatever the program is formatted like."""

from __future__ import annotations

import ast

__all__ = ["calls_of", "holds_call"]


def holds_call(program: str, expected: str) -> bool:
    """Return whether a program contains a call with exactly these arguments.

    The call is given as source. ``_`` stands for any argument. A constant of the program counts as
    its value, ``1 << 30`` as a number.
    """
    wanted = ast.parse(expected, mode="eval").body
    tree = _Plain().visit(ast.parse(program))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id not in _names(wanted)
    }
    tree = _Named(constants).visit(tree)
    return any(_matches(node, wanted) for node in ast.walk(tree))


class _Plain(ast.NodeTransformer):
    """Writes shifts of numbers as numbers."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Return a shift of two constants as a number; other nodes unchanged."""
        left, right = node.left, node.right
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return ast.Constant(left.value << right.value)  # type: ignore[operator]
        return node


class _Named(ast.NodeTransformer):
    """Writes the values of constants instead of their names."""

    def __init__(self, constants: dict[str, ast.Constant]) -> None:
        """Store the constants by name."""
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Return the constant that a name stands for; other names unchanged."""
        is_read = isinstance(node.ctx, ast.Load)
        return self._constants.get(node.id, node) if is_read else node


def _names(tree: ast.AST) -> set[str]:
    """Return the names in a syntax tree."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def calls_of(program: str) -> set[str]:
    """Return the names of all functions and classes that a program calls."""
    called = (node.func for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call))
    return {ast.unparse(function) for function in called}


def _matches(found: ast.AST | None, wanted: ast.AST | None) -> bool:
    """Return whether a node is the wanted one; `_` matches any node."""
    if isinstance(wanted, ast.Name) and wanted.id == "_":
        return True
    if not (isinstance(found, ast.Call) and isinstance(wanted, ast.Call)):
        return type(found) is type(wanted) and _same_fields(found, wanted)
    named, expected = _keywords(found), _keywords(wanted)
    return (
        _matches(found.func, wanted.func)
        and _all_match(found.args, wanted.args)
        and named.keys() == expected.keys()
        and all(_matches(named[name], expected[name]) for name in named)
    )


def _same_fields(found: ast.AST | None, wanted: ast.AST | None) -> bool:
    """Return whether all fields of a node match those of another."""
    for field in getattr(wanted, "_fields", ()):
        left, right = getattr(found, field), getattr(wanted, field)
        if isinstance(right, list):
            if not _all_match(left, right):
                return False
        elif isinstance(right, ast.AST):
            if not _matches(left, right):
                return False
        elif left != right:
            return False
    return True


def _all_match(found: list[ast.expr], wanted: list[ast.expr]) -> bool:
    """Return whether two lists have the same length, and their nodes match in order."""
    return len(found) == len(wanted) and all(map(_matches, found, wanted))


def _keywords(call: ast.Call) -> dict[str | None, ast.expr]:
    """Return the keyword arguments of a call by name."""
    return {keyword.arg: keyword.value for keyword in call.keywords}
