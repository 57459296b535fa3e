"""The Python statements that decide what a module computes, and their decisions: an exporter keeps
the decisions of its example.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, Union

from attrs import define, field, frozen

from polygraphy import mod
from polygraphy.adapters.torch.branches import condition_text, ends_with_jump, may_vary, parse_file
from polygraphy.ports.diagnosing import Decision

torch = mod.lazy_import("torch>=2.2")

Statement = Union[ast.If, ast.While, ast.For, ast.IfExp]
_PACKAGES = ("torch", "onnx", "onnxscript", "onnx_ir", "numpy", "polygraphy", "sympy", "jaxtyping")
"""Packages whose decisions do not belong to a module."""
_SAME_FOR_ALL_DATA = ("dtype", "device", "is_cuda", "layout", "requires_grad")
_MAX_LOOP = 8
"""The largest number of passes of a `while` to try."""


@frozen
class DecisionPoint:
    """A statement that decides which code runs, with the lines that show its decision.

    Attributes:
        statement: an `if`, a loop, or a conditional expression, of which only the line is known.
        inside: the first line of its body.
        after: the first line that runs if the body does not; 0 if it ends its function or its
            block.
        function: the function that it belongs to.
    """

    statement: Statement
    inside: int
    after: int
    function: ast.AST


@define
class _Record:
    """The decision of a statement during one run: 1 for a body that ran, or the number of loop
    passes."""

    outcomes: list[int] = field(factory=list)
    follows_data: bool = False


def record_decisions(call: Callable[[], Any]) -> list[Decision]:
    """Return the decisions of the Python statements that run during a function call, in order."""
    records: dict[tuple[str, int], _Record] = {}
    pending: dict[int, DecisionPoint] = {}

    def watch(frame: FrameType, event: str, by_line: dict[int, DecisionPoint]) -> None:
        """Record the decision of a statement, from the line that runs after it."""
        path, line = frame.f_code.co_filename, frame.f_lineno
        waiting = pending.get(id(frame))
        if waiting is not None:
            start, end = _first_line(waiting.statement), _end_of_test(waiting.statement)
            if event == "line" and start < line <= end and line != waiting.inside:
                return  # A condition of several lines.
            del pending[id(frame)]
            ran = event == "line" and line == waiting.inside
            record = records[path, start]
            if isinstance(waiting.statement, ast.If):
                record.outcomes.append(int(ran))
            else:
                record.outcomes[-1] += ran
        if event == "line" and line in by_line:
            point = by_line[line]
            if isinstance(point.statement, ast.IfExp):
                shown_record = records.setdefault((path, line), _Record())
                shown_record.follows_data = shown_record.follows_data or _depends_on_data(
                    point, frame
                )
                return
            is_new = (path, line) not in records
            record = records.setdefault((path, line), _Record())
            if not isinstance(point.statement, ast.If) and not record.outcomes:
                record.outcomes.append(0)
            if is_new or not record.follows_data:
                record.follows_data = _depends_on_data(point, frame)
            pending[id(frame)] = point

    _call_traced(call, watch)
    return [
        Decision(
            path,
            line,
            _describe(_decision_points_in(path)[line].statement),
            tuple(record.outcomes),
            record.follows_data,
            tuple(_other_outcomes(_decision_points_in(path)[line], record.outcomes)),
            _last_line(_decision_points_in(path)[line]),
            isinstance(_decision_points_in(path)[line].statement, (ast.For, ast.While)),
        )
        for (path, line), record in records.items()
    ]


def call_with_outcome(decision: Decision, outcome: int, call: Callable[[], Any]) -> Any:
    """Return the result of a function in which a statement decides another outcome.

    Args:
        decision: the decision of the statement.
        outcome: 1 if the body runs, else 0; for a loop, the number of passes.
        call: the function.

    Raises:
        ValueError: Python cannot continue at that line.
    """
    passes: dict[int, int] = {}
    failures: list[str] = []

    def watch(frame: FrameType, event: str, by_line: dict[int, DecisionPoint]) -> None:
        """Jump to the line of the other outcome when the statement is about to run."""
        path, line = frame.f_code.co_filename, frame.f_lineno
        if event != "line" or (path, line) != (decision.path, decision.line):
            return
        point = by_line[line]
        passes[id(frame)] = count = passes.get(id(frame), 0) + 1
        is_if = isinstance(point.statement, ast.If)
        runs = bool(outcome) if is_if else count <= outcome
        try:
            frame.f_lineno = point.inside if runs else point.after  # type: ignore[misc]
        except ValueError as error:
            failures.append(str(error))

    result = _call_traced(call, watch)
    if failures or not passes:
        raise ValueError(failures[0] if failures else "The statement does not run.")
    return result


def _call_traced(call: Callable[[], Any], watch: Callable[[FrameType, str, Any], None]) -> Any:
    """Return the result of a function; `watch` gets each line of functions with decisions."""

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        """Return the tracer of a function that has decisions; None for other functions."""
        by_line = _decision_points_in(frame.f_code.co_filename)
        if not by_line:
            return None

        def step(inner: FrameType, kind: str, __: Any) -> Any:
            """Report lines and returns of the function, and return this tracer."""
            if kind in ("line", "return"):
                watch(inner, kind, by_line)
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        return call()
    finally:
        sys.settrace(before)


@lru_cache(maxsize=256)
def _decision_points_in(path: str) -> dict[int, DecisionPoint]:
    """Return, by line, the statements of a file that may decide the result of a module."""
    if not path.endswith(".py") or _is_library(path):
        return {}
    body = parse_file(path)
    by_line: dict[int, DecisionPoint] = {}
    for function in (child for top in body for child in ast.walk(top)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for point in _decision_points(function.body, 0, function):
                by_line[_first_line(point.statement)] = point  # The innermost function comes last.
    return by_line


@lru_cache(maxsize=1024)
def _is_library(path: str) -> bool:
    """Return whether a file belongs to Python, PyTorch, or an exporter."""
    parts = Path(path).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return any(name in parts for name in _PACKAGES)
    package = Path(__file__).resolve().parents[2]
    library = Path(sysconfig.get_paths()["stdlib"])
    return any(folder in Path(path).parents for folder in (package, library))


def _decision_points(
    body: Sequence[ast.stmt], after: int, function: ast.AST
) -> Iterator[DecisionPoint]:
    """Yield the deciding statements of a block.

    Args:
        body: the statements of the block.
        after: the line that runs after the block; 0 if there is none.
        function: the function.
    """
    for position, stmt in enumerate(body):
        follows = body[position + 1].lineno if position + 1 < len(body) else after
        if isinstance(stmt, (ast.If, ast.While, ast.For)):
            orelse = stmt.orelse[0].lineno if stmt.orelse else follows
            inside = stmt.body[0].lineno
            if inside > stmt.lineno and (isinstance(stmt, ast.For) or may_vary(stmt.test)):
                yield DecisionPoint(stmt, inside, orelse, function)
            yield from _decision_points(
                stmt.body, follows if isinstance(stmt, ast.If) else 0, function
            )
            yield from _decision_points(stmt.orelse, follows, function)
        elif not isinstance(stmt, (ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)):
            chosen = [child for child in ast.walk(stmt) if isinstance(child, ast.IfExp)]
            if chosen and may_vary(chosen[0].test):
                yield DecisionPoint(chosen[0], 0, 0, function)
        if isinstance(stmt, (ast.With, ast.Try)):
            yield from _decision_points(stmt.body, 0, function)
            for inner in getattr(stmt, "handlers", ()):
                yield from _decision_points(inner.body, 0, function)


def _first_line(statement: Statement) -> int:
    """Return the line at which Python starts to evaluate a condition."""
    return statement.lineno if isinstance(statement, ast.For) else statement.test.lineno


def _end_of_test(statement: Statement) -> int:
    """Return the last line of the condition of a statement."""
    tested = statement.iter if isinstance(statement, ast.For) else statement.test
    return tested.end_lineno or statement.lineno


def _describe(statement: Statement) -> str:
    """Return the decision of a statement as text, as in ``line 8 tests `x.sum() > 0` ``."""
    if isinstance(statement, ast.For):
        return f"line {statement.lineno} loops over `{condition_text(statement.iter)}`"
    return f"line {statement.lineno} tests `{condition_text(statement.test)}`"


def _last_line(point: DecisionPoint) -> int:
    """Return the last line that a statement decides about.
    Code after a `return` is the other branch."""
    statement = point.statement
    is_left = isinstance(statement, ast.If) and ends_with_jump(statement)
    end = getattr(point.function if is_left else statement, "end_lineno", None)
    return end or statement.lineno


def _other_outcomes(point: DecisionPoint, outcomes: Sequence[int]) -> Iterator[int]:
    """Yield the outcomes other than the actual one that a statement can have."""
    if isinstance(point.statement, ast.If):
        for outcome in (0, 1):
            raises = outcome and isinstance(point.statement.body[-1], ast.Raise)
            if (set(outcomes) != {outcome}) and (outcome or point.after) and not raises:
                yield outcome
    elif isinstance(point.statement, ast.While) and point.after:
        yield from (count for count in range(_MAX_LOOP + 1) if [count] != [*outcomes])


def _depends_on_data(point: DecisionPoint, frame: FrameType) -> bool:
    """Return whether a condition depends on tensors that the module computes or reads.

    Names refer to such tensors, or to values computed from them.
    """
    tainted = {name for name, value in frame.f_locals.items() if _holds_data(value)}
    statement = point.statement
    for child in ast.walk(point.function):
        if getattr(child, "lineno", statement.lineno) >= statement.lineno:
            continue
        if (
            isinstance(child, (ast.Assign, ast.AugAssign, ast.AnnAssign))
            and child.value is not None
        ):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            if _data_names(child.value) & tainted:
                tainted |= {name for target in targets for name in _data_names(target)}
        elif isinstance(child, ast.For) and _data_names(child.iter) & tainted:
            tainted |= _data_names(child.target)
    tested = statement.iter if isinstance(statement, ast.For) else statement.test
    return bool(_data_names(tested) & (tainted - {"self"}))


def _data_names(expression: ast.AST) -> set[str]:
    """Return the names that an expression reads, except those that are the same for all data."""
    if isinstance(expression, ast.Attribute) and expression.attr in _SAME_FOR_ALL_DATA:
        return set()
    own_names = {expression.id} if isinstance(expression, ast.Name) else set()
    return own_names.union(
        *(_data_names(iter_child_node) for iter_child_node in ast.iter_child_nodes(expression))
    )


def _holds_data(value: Any) -> bool:
    """Return whether a value is a tensor of the run other than a weight, or a short list of
    these."""
    if isinstance(value, (list, tuple)):
        return any(_holds_data(item) for item in value[:8])
    return isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
