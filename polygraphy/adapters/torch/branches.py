"""Finds the Python `if` that decides whether a line of a module runs: exporters keep the branch
that their example takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

_LONGEST = 80
_TO_NUMBERS = frozenset({"int", "float", "bool", "len", "range", "item", "tolist", "numpy"})
"""Functions and methods that turn a tensor, or its size, into numbers of Python."""
_CASTS = frozenset({"int", "float", "bool"})
"""Methods of a tensor with the names of such functions, which return a tensor."""
_SIZES = frozenset({"size", "shape", "numel"})
"""What may be a number of Python: exporters follow it unless more is done to it."""
_DEEPEST = 4
"""Calls of functions in functions that are followed."""
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


def place_of_number(path: str, line: int) -> tuple[str, int] | None:
    """Return the file and line that compute the number which a line of a file reads:
    where Python turns a tensor or its size into a number, also in a function that the line
    calls; None if there is none, or it is the line itself."""
    function = _function_around(parse_file(path), line)
    statements = [] if function is None else [*_plain_statements(function.body)]
    own_statements = [
        statement
        for statement in statements
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno)
    ]
    for kinds in (_TO_NUMBERS, _SIZES) if own_statements else ():
        if _takes_number(own_statements[-1], kinds):
            return None
        if place := _place_in_helper(path, own_statements[-1], kinds):
            return place
        wanted = _names_read(own_statements[-1])
        for statement in reversed(statements[: statements.index(own_statements[-1])]):
            if wanted.isdisjoint(_names_set(statement)):
                continue
            if _takes_number(statement, kinds):
                return path, statement.lineno
            if place := _place_in_helper(path, statement, kinds):
                return place
            if not _calls_module(statement):  # The result of a layer is not a number.
                wanted |= _names_read(statement)
    return None


def _place_in_helper(
    path: str, statement: ast.stmt, kinds: frozenset[str], depth: int = 0
) -> tuple[str, int] | None:
    """Return the file and line that use one of some functions, methods or attributes, in a function
    that a statement calls; None if there is none.

    Args:
        path: the file with the statement.
        statement: the statement.
        kinds: the names of the functions, methods or attributes.
        depth: how many calls lead to the statement.
    """
    helpers = _helpers_of(path) if depth < _DEEPEST else {}
    for node in _parts(statement):
        if not isinstance(node, ast.Call):
            continue
        own_path, body = helpers.get(ast.unparse(node.func).removeprefix("self."), ("", ()))
        for inner in reversed([*_plain_statements(body)]):
            if _takes_number(inner, kinds):
                return own_path, inner.lineno
            if place := _place_in_helper(own_path, inner, kinds, depth + 1):
                return place
    return None


@lru_cache(maxsize=32)
def _helpers_of(path: str) -> dict[str, tuple[str, Sequence[ast.stmt]]]:
    """Return the file and statements of each function that a file defines, or imports from a file
    next to it, by the name in calls."""
    helpers: dict[str, tuple[str, Sequence[ast.stmt]]] = {}
    for node in (node for statement in parse_file(path) for node in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef) and node.name != "forward":
            helpers[node.name] = path, node.body
        elif isinstance(node, ast.ImportFrom) and node.module:
            functions = _functions_beside(path, node.module)
            for alias in node.names:
                if alias.name in functions:
                    helpers[alias.asname or alias.name] = functions[alias.name]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                for name, function in _functions_beside(path, alias.name).items():
                    helpers[f"{alias.asname or alias.name}.{name}"] = function
    return helpers


def _functions_beside(path: str, module: str) -> dict[str, tuple[str, Sequence[ast.stmt]]]:
    """Return the file and statements of each function of a module in the folder of a file."""
    own_path = str(Path(path).parent.joinpath(*module.split("."))) + ".py"
    functions = (node for node in parse_file(own_path) if isinstance(node, ast.FunctionDef))
    return {function.name: (own_path, function.body) for function in functions}


def _function_around(body: Sequence[ast.stmt], line: int) -> ast.FunctionDef | None:
    """Return the innermost function that contains a line; None if none does."""
    function = None
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            function = node
    return function


def _plain_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block in order, those of inner blocks included."""
    for statement in body:
        blocks = [block for block in _blocks(statement) if block]
        if not blocks or isinstance(statement, ast.For):
            yield statement
        for block in blocks:
            yield from _plain_statements(block)


def _parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement; for a loop, those of its head."""
    heads = [statement.target, statement.iter] if isinstance(statement, ast.For) else [statement]
    for head in heads:
        yield from ast.walk(head)


def _names_read(statement: ast.stmt) -> set[str]:
    """Return the variables that a statement reads."""
    names = (node for node in _parts(statement) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)} - {"self"}


def _names_set(statement: ast.stmt) -> set[str]:
    """Return the variables that a statement sets."""
    names = (node for node in _parts(statement) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _takes_number(statement: ast.stmt, kinds: frozenset[str]) -> bool:
    """Return whether a statement uses one of some functions, methods or attributes."""
    nodes = [*_parts(statement)]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = {function.id for function in called if isinstance(function, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)} - _CASTS
    return bool(kinds & (names | attributes))


def _calls_module(statement: ast.stmt) -> bool:
    """Return whether a statement calls a part of the module, such as `self.conv(x)`."""
    calls = (node.func for node in _parts(statement) if isinstance(node, ast.Call))
    return any(
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "self"
        for function in calls
    )


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


def ends_with_jump(statement: ast.If) -> bool:
    """Return whether an `if` ends with `return`, `raise` or similar,
    so that the code after it is its other branch."""
    return isinstance(statement.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


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
