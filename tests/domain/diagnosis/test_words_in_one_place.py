"""Only `words` writes English: the rest of a diagnosis measures, tries and proves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import polygraphy

PRODUCT = Path(polygraphy.__file__).parent
WORD = re.compile(r"(?<![\w/.])[A-Za-z][a-z]+(?![\w/])")
ALLOWED = {
    "Data type": "what a name of the caller stands for",
    "model file": "a party, as documents keep it",
    "not finite": "a kind of weight, the argument of a fact",
    "polygraphy convert MODEL ": "a part of a command",
    "surgeon copy": "a command",
    "surgeon insert": "a command",
    "surgeon sanitize": "a command",
}
"""Literals of several words that are not sentences, and what they are."""


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the literals of some words, but for docstrings and reasons to skip a step, which only
    those see who read the code.
    """
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hidden.add(node.value)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Skip":
            hidden.update(node.args)
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.JoinedStr):
            hidden.update(ast.walk(node))
            values = [each for each in node.values if isinstance(each, ast.Constant)]
        else:
            values = [node] if isinstance(node, ast.Constant) else []
        text = "".join(each.value for each in values if isinstance(each.value, str))
        if " " in text.strip() and len(WORD.findall(text)) > 1:
            yield text


def test_no_sentence_is_written_outside_of_the_words():
    sentences = {
        f"{path.relative_to(PRODUCT)}: {text}"
        for folder in ("application/diagnose", "domain/diagnosis")
        for path in (PRODUCT / folder).rglob("*.py")
        if path.parent.name != "words"
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if text not in ALLOWED
    }
    assert not sentences
