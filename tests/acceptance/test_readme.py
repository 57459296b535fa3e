"""What the README says that its commands print is what they print."""

from __future__ import annotations

import os
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
NUMBERS = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?|[ \t]+")
"""What depends on the machine; columns are as wide as their numbers."""
TRANSCRIPT = re.compile(
    r"(?<=<!-- transcript -->\n\n)    \$ (?P<command>polygraphy .*)\n(?P<said>(?:    .*\n|\n(?=    ))*)"
)
"""A command below its marker, and what it prints: all of it."""
COMMAND = re.compile(r"Command: \S+ ")


def transcripts() -> list[tuple[str, str]]:
    """Return the commands of the README, each with what it is said to print."""
    found = TRANSCRIPT.finditer(README.read_text(encoding="utf-8"))
    return [(each["command"], re.sub("^    ", "", each["said"], flags=re.M)) for each in found]


@pytest.mark.parametrize(("command", "said"), transcripts())
def test_the_readme_shows_what_is_printed(
    command: str,
    said: str,
    polygraphy: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    printed = polygraphy(command).out
    if (
        NUMBERS.sub(" ", printed) != NUMBERS.sub(" ", said)
        and os.environ.get("POLYGRAPHY_UPDATE_GOLDEN") == "1"
    ):
        shown = "".join(f"    {line}".rstrip() + "\n" for line in printed.splitlines())
        text = README.read_text(encoding="utf-8")
        begin = f"<!-- transcript -->\n\n    $ {command}\n"
        at = text.index(begin) + len(begin)
        old = TRANSCRIPT.search(text, at - len(begin))
        assert old is not None
        README.write_text(text[:at] + shown + text[old.end() :], encoding="utf-8")
        return
    assert NUMBERS.sub(" ", printed) == NUMBERS.sub(" ", said), "run `make golden`"


def test_every_command_with_its_output_has_a_marker() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count("    $ polygraphy ") == len(transcripts()) == 3


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
