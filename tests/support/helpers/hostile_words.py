"""What the tests of `codegen/test_hostile.py` and others share."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

PIECES = [
    "a",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "\n",
    "\r",
    "\t",
    "\x00",
    "#",
    "{{ script }}",
    "{% raw %}",
    "{#",
    "}}",
    '"); import os #',
    "os.system('x')",
    "$(x)",
    "`x`",
    "\u2028",
    "é",
    "\U0001f600",
    "\udc80",
    "__import__",
    "%s",
    "{0}",
    "<&>",
]


hostile = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join) | st.text(
    min_size=1
)


def nothing_is_checked(*args: Any) -> None:
    """Do nothing: a stand-in for the check of paths, for any two names."""


def skeleton(source: str) -> str:
    """Return the syntax tree of a program without its constants."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = None
    return ast.dump(tree)


def constants(source: str) -> Iterable[Any]:
    """Return the values of all constants in a program."""
    return [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
