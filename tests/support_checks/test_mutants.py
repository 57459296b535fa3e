"""`lab/mutants.py` changes one expression, and always draws the same ones by a seed."""

from __future__ import annotations

import json
import os
import subprocess
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


def test_a_log_goes_on_where_it_ended_and_a_test_that_always_fails_kills_nothing(
    tmp_path: Path,
) -> None:
    first, second, third = mutants.find_mutants("a.py", SOURCE)[:3]
    log = mutants.Log(tmp_path / "log.jsonl")
    log.add(mutants.Outcome("c", first, mutants.KILLED, 3, "test_a"))
    log.add(mutants.Outcome("c", second, mutants.KILLED, 3, "test_b"))
    log.add_test("c", "test_a", True)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"commit": "c", "mut')  # Of a process that was killed.
    again = mutants.Log(tmp_path / "log.jsonl")
    results = [again.outcome("c", mutant).result for mutant in (first, second, third)]
    assert results == [mutants.NOT_RUN, mutants.KILLED, mutants.NOT_RUN]
    assert again.outcome("other", second).result == mutants.NOT_RUN
    assert again.untried_killers("c") == ["test_b"]


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="needs Python 3.12")
def test_the_record_has_the_drawn_lines_that_each_test_reaches_also_in_forks(
    tmp_path: Path,
) -> None:
    (tmp_path / "product.py").write_text("def f(a):\n    if a:\n        a = 1\n    return a\n")
    (tmp_path / "test_it.py").write_text(
        "import os, subprocess, sys, product\n"
        "def test_one():\n    product.f(1); product.f(1)\n"
        "def test_two():\n    product.f(0)\n"
        "def test_three():\n"
        "    child = os.fork()\n"
        "    if not child:\n        product.f(1); os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "    subprocess.run([sys.executable, '-c', 'import product; product.f(0)'])\n"
    )
    recorder = mutants.mutants_recorder
    (tmp_path / "sitecustomize.py").write_text(Path(recorder.__file__).read_text())
    recorder.write_lines(str(tmp_path), [("product.py", 3), ("product.py", 4)])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "sitecustomize", "-p", "no:cacheprovider"]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    environment |= {recorder.FOLDER: str(tmp_path), recorder.ROOT: str(tmp_path)}
    subprocess.run([*words, "test_it.py"], cwd=tmp_path, env=environment, check=True)
    reached: dict[str, set[int]] = {}
    for path in tmp_path.glob("lines-*.jsonl"):
        for row in map(json.loads, path.read_text().splitlines()):
            name = row["test"].partition("::")[2]
            reached.setdefault(name, set()).update(line for _, line in row["lines"])
    assert reached == {"test_one": {3, 4}, "test_two": {4}, "test_three": {3, 4}}
