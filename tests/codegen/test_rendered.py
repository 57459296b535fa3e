"""Programs that cannot be run everywhere use names that exist, with arguments that they take."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from typing import Any

import pytest

from tests.acceptance.users_commands import COMMANDS as USERS
from tests.codegen.commands import RENDERED, rendered

TEXTS = {**RENDERED, **{name: command for name, (command, _) in USERS.items()}}


@pytest.mark.parametrize("name", TEXTS)
def test_every_imported_name_takes_the_arguments_that_it_is_given(name: str) -> None:
    tree = ast.parse(rendered(TEXTS[name]))
    named = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in named:
            _bind(named[node.func.id], node)


def _imported(tree: ast.Module) -> dict[str, Any]:
    """Return what a program imports, by the name that it uses."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            module = import_module(str(node.module))
            for alias in node.names:
                found[alias.asname or alias.name] = _attribute(module, alias.name)
    return found


def _attribute(module: Any, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    return import_module(f"{module.__name__}.{name}")


def _bind(called: Any, node: ast.Call) -> None:
    """Fail where a call does not fit the signature of what is called."""
    positional = [None for _ in node.args]
    keywords = {str(keyword.arg): None for keyword in node.keywords}
    try:
        signature = inspect.signature(called)
    except ValueError:  # A dictionary's: it tells nothing.
        return
    signature.bind(*positional, **keywords)
