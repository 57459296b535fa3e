"""The README, the tutorial and the how-to pages: every block is executed, and prints what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import IN_A_FORK, ForkServer
from tests.support.pages import NOISE, PACKAGES, Block, blocks_of, is_said, rewrite_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md")))
SHELL = re.compile(r"[|<>;&*]|^(?!(polygraphy|pytest|python \S+\.py)( |$))")
"""What a shell has to do."""
OURS = re.compile(r"Command: \S+?(?:__main__\.py|/polygraphy) ")
READERS = "/home/me"
"""Where the reader of a page is said to be."""


def cases() -> list[Any]:
    """Return each page with what its blocks need; nothing is among it."""
    found = []
    for page in PAGES:
        for needs in sorted({"", *(block.needs for block in blocks_of(page))}):
            name = f"{page.relative_to(ROOT)}{needs and '-'}{needs}"
            marks = [getattr(pytest.mark, needs)] if needs in ("extra", "gpu") else []
            found.append(pytest.param(page, needs, id=name, marks=marks))
    return found


def typed(command: str, fork_server: ForkServer) -> str:
    """Run a command line as a shell does, and return what is on the terminal afterwards."""
    environment = {**os.environ, "POLYGRAPHY_UPDATE_GOLDEN": ""}
    if SHELL.search(command) is None:
        words = shlex.split(command.removeprefix("python "))
        printed = fork_server.run(words, Path.cwd(), merged=True).out
    else:
        folder = str(Path(sys.executable).parent)
        environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
        environment["PYTHONUNBUFFERED"] = "1"
        printed = subprocess.run(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            env=environment,
        ).stdout
    assert "Traceback" not in printed, printed
    printed = OURS.sub("Command: polygraphy ", printed)
    return NOISE.sub("", printed).replace(str(Path.cwd()), READERS)


@pytest.mark.parametrize(("page", "needs"), cases())
def test_blocks_do_what_the_page_says(
    page: Path, needs: str, fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in PACKAGES[needs]:
        pytest.importorskip(package)
    if needs == "openvino" and "bf16" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("this processor does not compute in bfloat16")
    if needs == "gpu" and not Path("/dev/nvidia0").exists():
        pytest.skip("there is no GPU")
    monkeypatch.chdir(ROOT if page.parent == ROOT else tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(IN_A_FORK))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    answers: dict[tuple[int, int], str] = {}
    wrong = []
    program = ""
    for block in blocks_of(page):
        if block.needs not in {"", needs}:
            continue
        where = f"{page.relative_to(ROOT)}:{block.line}"
        for number, (command, said) in enumerate(_done(block, program)):
            printed = typed(command, fork_server)
            if not is_said(said, printed):
                answers[block.line, number] = printed
                wrong.append(f"{where}\n$ {command}\n{printed}\n--- the page says ---\n{said}")
        program = block.text if block.language == "python" and not block.file else ""
    if wrong and os.environ.get("POLYGRAPHY_UPDATE_GOLDEN") == "1":
        rewrite_page(page, answers)
        return
    assert not wrong, "\n\n".join([*wrong, "run `make golden`"])


def _done(block: Block, program: str) -> list[tuple[str, str]]:
    """Save a block that is a file; return the commands of others, with what they are to print."""
    if block.file:
        Path(block.file).parent.mkdir(parents=True, exist_ok=True)
        Path(block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "console":
        return list(block.commands())
    elif block.language == "text" and program:
        return [(f"python -c {shlex.quote(program)}", block.text)]
    return []


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.stem)
def test_no_block_is_left_out(page: Path) -> None:
    """But for what installs packages, and commands on files of the reader or on a GPU, whose options
    `test_commands_in_docs.py` checks.
    """
    blocks = blocks_of(page)
    text = page.read_text(encoding="utf-8")
    assert len(blocks) == len(re.findall(r"^```\w", text, re.M))
    assert not re.search(r"\n\n {4}\S", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    after = [*(block.language for block in blocks[1:]), ""]
    for block, following in zip(blocks, after):
        if block.language == "sh":
            lines = block.text.replace("\\\n", "").splitlines()
            assert all(line.startswith(("pip ", "polygraphy ")) for line in lines)
        elif not block.file:
            assert block.language in ("console", "python", "text")
            assert block.language != "python" or following == "text", "what does it print?"
            assert block.language != "console" or all(
                line.startswith("$ ") for line in block.text.splitlines()[:1]
            )


@pytest.mark.parametrize(
    ("said", "printed", "alike"),
    [
        ("max 1.2e-07 at [0,1]", "max  4.8e-07 at [0,1]", True),
        ("max 1.2e-07 at [0,1]", "max 1.2e-07 at [0,2]", False),
        ("max 1.2e-03", "max 4.8e-02", False),
        ("0.5 s in all", "12 s in all", True),
        ("3 of 4 nodes", "4 of 4 nodes", False),
        ("found 0.4991", "found 0.4989", True),
        ("found 0.4991", "found 0.3989", False),
        ("1.5% of it", "1.9% of it", True),
        ("a\n...\nb", "a\nx\ny\nb", True),
        ("a\n...\nb", "a\nx\nc", False),
        ("a", "a\nb", False),
    ],
)
def test_texts_are_compared_with_a_tolerance(said: str, printed: str, alike: bool) -> None:
    assert is_said(said, printed) is alike
