"""The templates keep to what makes them safe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import FileSystemLoader, UndefinedError

from polygraphy.codegen.render import TEMPLATES, environment, render, write_compiled
from tests.codegen.commands import COMMANDS, rendered

FILES = sorted(TEMPLATES.rglob("*.j2"))
# What could join text without passing the finalize hook, or unescape it.
FORBIDDEN = re.compile(r"\|\s*(safe|format|join|string|replace)\b|%\s*\(|autoescape|\braw\b")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_template_joins_text_by_itself(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not FORBIDDEN.search(text)
    for expression in re.findall(r"\{\{(.*?)\}\}", text, flags=re.DOTALL):
        assert "~" not in expression


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_statement_loses_its_indentation(path: Path) -> None:
    assert not re.search(r"-\}\}\n +(\{\{|\w)", path.read_text(encoding="utf-8"))


def test_undefined_variables_are_errors() -> None:
    made = environment()
    with pytest.raises(UndefinedError):
        made.from_string("{{ nothing }}").render()
    with pytest.raises(UndefinedError):
        render("run.py.j2", "Nothing.", ["polygraphy"])


def test_compiled_templates_render_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygraphy.codegen import render as rendering

    command = COMMANDS["run_data"][0]
    expected = rendered(command)
    write_compiled(tmp_path)
    monkeypatch.setattr(rendering, "COMPILED", tmp_path / "codegen" / "compiled")
    monkeypatch.setattr(rendering, "TEMPLATES", tmp_path / "there-is-no-source-any-more")
    assert not isinstance(environment().loader, FileSystemLoader)
    rendering._shared.cache_clear()
    try:
        assert rendered(command) == expected
    finally:
        rendering._shared.cache_clear()
