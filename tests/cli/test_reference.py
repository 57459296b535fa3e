"""The reference and the man page hold every command and flag, and are up to date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from polygraphy import __version__
from polygraphy.cli.help import describe_all
from polygraphy.cli.main import main
from polygraphy.cli.reference import EXIT_CODES, anchor, list_of_pages, man, markdown, pages_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference.md"
DESCRIPTIONS = describe_all()
FLAGS = {
    word.rstrip(",")
    for _, _, _, groups in DESCRIPTIONS.values()
    for _, _, entries in groups
    for flags, _ in entries
    for word in flags.split()
    if word.startswith("-")
}


def test_the_page_is_up_to_date() -> None:
    text = markdown(list(DESCRIPTIONS.values()))
    if os.environ.get("POLYGRAPHY_UPDATE_GOLDEN") == "1":
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run `make golden`"


def test_the_page_holds_every_command_and_flag() -> None:
    text = PAGE.read_text(encoding="utf-8")
    listed = set(re.findall(r"(?<![\w-])-{1,2}[\w][\w-]*", text))
    assert listed >= FLAGS
    assert {f"## polygraphy {name}" for name in DESCRIPTIONS} <= set(text.splitlines())


def test_links_lead_to_headings() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = [anchor(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")]
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= set(headings)
    assert len(headings) == len(set(headings))


def test_the_site_has_a_page_for_each_command() -> None:
    pages = pages_of(list(DESCRIPTIONS.values()))
    for (name, _, _, groups), text in zip(DESCRIPTIONS.values(), pages.values(), strict=True):
        headings = [line for line in text.splitlines() if line.startswith("#")]
        assert headings[0] == f"# polygraphy {name}"
        assert len(headings) == len(set(headings))
        assert all(f"- `{flags}`: " in text for _, _, entries in groups for flags, _ in entries)
    index = list_of_pages(list(DESCRIPTIONS.values()), "commands")
    assert re.findall(r"\]\(commands/(.*)\.md\)", index) == list(pages)
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall("^## polygraphy .*", index, re.M) == re.findall(
        "^## polygraphy .*", page, re.M
    )


def test_the_readme_has_the_same_exit_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert rows == list(EXIT_CODES)


def test_help_prints_the_man_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "--man"]) == 0
    assert capsys.readouterr().out.startswith('.\\" ')


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_is_read_without_a_warning() -> None:
    page = man(list(DESCRIPTIONS.values()), __version__)
    words = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=400n"]
    done = subprocess.run(words, input=page, capture_output=True, text=True, check=True)
    assert not done.stderr
    read = re.sub(r"\s+", " ", done.stdout)
    for name, usage, text, groups in DESCRIPTIONS.values():
        assert name in read
        assert usage in read
        assert re.sub(r"\s+", " ", text) in read
        for _, _, entries in groups:
            for flags, explained in entries:
                assert flags in read
                assert re.sub(r"\s+", " ", explained).replace("'", "\u2019") in read.replace(
                    "'", "\u2019"
                )
