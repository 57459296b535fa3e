"""Which Python `if` decides whether a line of a module runs: exporters keep the branch that their
example takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

_LONGEST = 80
_ASKS_LITTLE = {"hasattr", "isinstance", "is_scripting"}
"""What is the same for every example."""


def describe_condition(path: str, line: int) -> str:
    """Return the condition that decides whether a line of a file runs, as ``line 8 tests `x.sum() >
    0` ``; empty if there is none, or it is the same for all data."""
    deciding_statement = _deciding_statement(parse_file(path), line)
    if deciding_statement is None:
        return ""
    return f"line {deciding_statement.lineno} tests `{condition_text(deciding_statement.test)}`"


def condition_text(expression: ast.expr) -> str:
    """Return an expression as text of at most 80 characters."""
    return " ".join(ast.unparse(expression).split())[:_LONGEST]


@lru_cache(maxsize=32)
def parse_file(path: str) -> Sequence[ast.stmt]:
    """Return the statements of a Python file."""
    try:
        return ast.parse(Path(path).read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return []


def _deciding_statement(body: Sequence[ast.stmt], line: int) -> ast.If | ast.While | None:
    """Return the innermost statement that decides whether a line runs; None if there is none."""
    for position, deciding_statement in enumerate(body):
        if (
            not deciding_statement.lineno
            <= line
            <= (deciding_statement.end_lineno or deciding_statement.lineno)
        ):
            continue
        for inner in _blocks(deciding_statement):
            if (statement := _deciding_statement(inner, line)) is not None:
                return statement
        is_inside = any(
            inner and inner[0].lineno <= line <= (inner[-1].end_lineno or 0)
            for inner in _blocks(deciding_statement)
        )
        if (
            isinstance(deciding_statement, (ast.If, ast.While))
            and is_inside
            and may_vary(deciding_statement.test)
        ):
            return deciding_statement
        befores = (before for before in body[:position] if isinstance(before, ast.If))
        ifs = [before for before in befores if ends_with_jump(before) and may_vary(before.test)]
        if ifs:
            return ifs[-1]
    return None


def _blocks(stmt: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a statement: body, `else` and `finally`; empty if it has none."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(stmt, name, [])


def ends_with_jump(single_if: ast.If) -> bool:
    """Return whether an `if` ends with `return`, `raise` or similar, so that the code after it is
    its other branch."""
    return isinstance(single_if.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def may_vary(test: ast.expr) -> bool:
    """Return whether a condition may differ between examples."""
    if isinstance(test, ast.Compare) and any(
        isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops
    ):
        return False
    if isinstance(test, ast.Call):
        called = test.func.attr if isinstance(test.func, ast.Attribute) else ast.unparse(test.func)
        if called in _ASKS_LITTLE:
            return False
    if isinstance(test, ast.Name):
        return test.id != "self"
    return any(
        may_vary(iter_child_node)
        for iter_child_node in ast.iter_child_nodes(test)
        if isinstance(iter_child_node, ast.expr)
    )
