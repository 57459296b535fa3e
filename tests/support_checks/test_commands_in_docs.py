"""The pages name commands, options, links and files that are there."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

from polygraphy.cli.commands.listing import COMMANDS, GROUPS, load_command, split_command
from polygraphy.cli.help import describe_all
from polygraphy.cli.parser import HelpRequested, parse

ROOT = Path(__file__).parents[2]
WRITTEN = ROOT / "docs" / "reference.md"
"""Made from the declarations; tests/cli/test_reference.py holds it."""
ADDED = ROOT / "examples" / "numpy_backend" / "README.md"
"""Has options of another package."""
PAGES = [
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"))
    if page != WRITTEN and "generated" not in page.parts
]
_COMMAND = re.compile(r"(?:^ *(?:\$ )?|`)(polygraphy [a-z][^`\n]*)", re.M)
_RUN = re.compile(r"^```console\n.*?^```$", re.M | re.S)
_LINK = re.compile(r"\]\((?!\w+:)([^)#]+)")
_PATH = re.compile(r"`((?:docs|examples|tests|benchmarks|lab|polygraphy)/[\w./-]+)`")
_FLAG = re.compile(r"(?<=`)--[a-z][\w-]*")
_ELSEWHERE = {"--help", "--version", "--completion", "--man"}


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page, without what a shell does with them, and without those that
    tests/acceptance/test_pages.py runs, of which some are refused on purpose.
    """
    text = _RUN.sub("", page.read_text(encoding="utf-8")).replace("\\\n", " ")
    return [re.split(r" [|>&] |  #| #", found)[0] for found in _COMMAND.findall(text)]


def is_command(words: list[str]) -> bool:
    """Return whether words are a command, and not a group, help, or a command without its model."""
    return bool(words) and split_command(words)[0] in COMMANDS and bool(split_command(words)[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert not [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    if page.name == "CHANGELOG.md" or page == ADDED:
        return
    assert not [path for path in _PATH.findall(text) if not (ROOT / path).exists()]
    for command in commands_of(page):
        words = shlex.split(command)[1:]
        if is_command(words):
            name, rest = split_command(words)
            with suppress(HelpRequested):
                parse(load_command(name).extend(rest), rest)
        else:
            assert (
                words[0] in {*COMMANDS, *GROUPS, "help"} or split_command(words)[0] in COMMANDS
            ), command


def test_the_tasks_name_options_that_are_there() -> None:
    flags = {
        word.rstrip(",")
        for _, _, _, groups in describe_all().values()
        for _, _, entries in groups
        for spelled, _ in entries
        for word in spelled.split()
    }
    for name in ("commands.md", "tolerances.md", "reports.md", "debugging.md"):
        named = set(_FLAG.findall((ROOT / "docs" / name).read_text(encoding="utf-8")))
        assert named <= flags | _ELSEWHERE, name


def test_a_command_that_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Say `polygraphy rnu x` or:\n\n    $ polygraphy doctor --nothing | cat\n")
    assert commands_of(page) == ["polygraphy rnu x", "polygraphy doctor --nothing"]


def test_every_page_is_in_the_index() -> None:
    folder = ROOT / "docs"
    linked = set(_LINK.findall((folder / "index.md").read_text(encoding="utf-8")))
    pages = {str(page.relative_to(folder)) for page in PAGES if page.is_relative_to(folder)}
    assert pages | {WRITTEN.name} == linked | {"index.md"}


def test_the_changelog_is_a_page() -> None:
    """By task, in one section."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == 1
    assert text.count("\n") < 60


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=lambda p: p.stem
)
def test_a_guide_has_words_for_the_search_below_its_heading(page: Path) -> None:
    assert re.match(r"# .+\n\n<!-- search: .+ -->\n\n.", page.read_text(encoding="utf-8"))
