"""`lab/mutants.py` changes one expression, and always draws the same ones by a seed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "lab"))

import mutants

SOURCE = """
LIMIT = 3

def is_small(é: int, *, limit: int = 4) -> "Literal[7]":
    name = "ü"; log(name)
    if é < limit and name:
        return True
    return f"{1}" if [
        é] else é + 1
"""


def test_each_change_is_one_of_an_expression_in_a_function() -> None:
    found = mutants.find_mutants("a.py", SOURCE)
    changed = {
        (mutant.kind, mutant.before, mutant.after): mutant.apply_to(SOURCE) for mutant in found
    }
    assert changed.keys() == {
        ("dropped call", "log(name)", "pass"),
        ("condition", "é < limit and name", "(not (é < limit and name))"),
        ("comparison", "é < limit", "(é <= limit)"),
        ("return value", "return True", "return False"),
        ("return value", 'return f"{1}" if [\n        é] else é + 1', "return None"),
        ("condition", "[\n        é]", "(not ([é]))"),
        ("off by one", "1", "2"),
    }
    for (kind, before, after), text in changed.items():
        compile(text, "a.py", "exec")
        assert len(text) - len(SOURCE) == len(after) - len(before), kind
    assert "    if (é <= limit) and name:\n" in changed["comparison", "é < limit", "(é <= limit)"]


def test_a_seed_draws_the_same_lines_for_every_count() -> None:
    sources = {f"{name}.py": SOURCE for name in "abc"}
    few, many = mutants.draw(sources, 5, 4), mutants.draw(sources, 5, 9)
    assert [(m.path, m.line) for m in few] == [(m.path, m.line) for m in many[:4]]
    assert len({(m.path, m.line) for m in many}) == len(many)


def test_a_line_is_followed_to_where_another_commit_has_it() -> None:
    found = mutants.find_mutants("a.py", SOURCE)
    later = {"a.py": "# More.\n" + SOURCE.replace("return True", "return bool(name)")}
    followed = [mutants.follow([m], {"a.py": SOURCE}, later) for m in found]
    kept = [m for m, copies in zip(found, followed, strict=True) if copies]
    assert [m.line for m in kept] == [m.line for m in found if m.before != "return True"]
    for (mutant,) in filter(None, followed):
        mutant.apply_to(later["a.py"])
    with pytest.raises(ValueError, match="is not"):
        found[0].apply_to(later["a.py"])
