"""What the README says that its commands print is what they print."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NUMBERS = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?|\s+")
"""What depends on the machine; columns are as wide as their numbers."""


def shown() -> list[tuple[str, list[str]]]:
    """Return the commands of the README, each with the lines that it is said to print."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^    \$ (polygraphy .*)\n((?:    .*\n|\n(?=    ))*)", text, re.M)
    return [
        (command, [line[4:] for line in said.splitlines() if line.strip()])
        for command, said in blocks
    ]


@pytest.mark.parametrize(("command", "lines"), shown())
def test_the_readme_shows_what_is_printed(
    command: str,
    lines: list[str],
    polygraphy: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    done = polygraphy(command)
    printed = [NUMBERS.sub(" ", line) for line in done.lines]
    assert lines
    missing = [line for line in lines if NUMBERS.sub(" ", line) not in printed]
    assert not missing, done.out


def test_there_are_three() -> None:
    assert len(shown()) == 3
