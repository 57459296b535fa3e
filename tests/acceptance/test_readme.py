"""The picture of the README shows what its commands print."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.pages import NUMBERS

ROOT = Path(__file__).parents[2]
"""What depends on the machine; columns are as wide as their numbers."""
COMMAND = re.compile(r"Command: \S+ ")


def drawn(name: str) -> list[str]:
    """Return the lines of a picture of a terminal."""
    rows: dict[float, str] = {}
    for element in ElementTree.parse(ROOT / "docs/pictures" / name).iter():
        if element.tag.endswith("}text"):
            row = float(element.attrib["y"])
            rows[row] = rows.get(row, "") + (element.text or "")
    return [rows[row].replace("\xa0", " ").rstrip() for row in sorted(rows)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_what_is_printed(
    theme: str, polygraphy: Callable[..., Any], tmp_path: Path
) -> None:
    script = runpy.run_path(str(ROOT / "docs/pictures/terminal.py"))
    for name, source in script["FILES"].items():
        (tmp_path / name).write_bytes((script["DIGITS"] / source).read_bytes())
    width = {"COLUMNS": str(script["COLUMNS"])}
    assert polygraphy(script["BEFORE"], cwd=tmp_path).code == 0
    printed = []
    for command in script["SHOWN"]:
        done = polygraphy(command, cwd=tmp_path, env=width)
        out = COMMAND.sub("Command: polygraphy ", done.out).replace(str(tmp_path), "~")
        printed += [f"$ {command}", *out.splitlines()]
    lines = [NUMBERS.sub(" ", line) for line in drawn(f"terminal-{theme}.svg") if line]
    assert lines == [NUMBERS.sub(" ", line) for line in printed if line], "run `make pictures`"


def test_the_picture_needs_no_other_file() -> None:
    for theme in ("light", "dark"):
        text = (ROOT / f"docs/pictures/terminal-{theme}.svg").read_text(encoding="utf-8")
        assert "url(#" in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
