"""Pages whose blocks are executed: what a command prints is what stands below it.

Of a page, blocks are done in their order, in a folder of its own:

- ```` ```console ````: each line that begins with `$ ` is typed, and what follows is what it prints;
  a line `...` stands for any number of lines.
- ```` ```python ```` below the comment `<!-- file: NAME -->` (and any other language) is saved as that.
- ```` ```python ```` without it is run as a program, and ```` ```text ```` below it is what that prints.
- ```` ```sh ```` is what differs from reader to reader, as `pip install`, or commands on files of the reader: left out.

`<!-- extra -->` above a block says that it needs PyTorch, `<!-- gpu -->` TensorRT with a GPU,
`<!-- openvino -->` OpenVINO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

from attrs import frozen

__all__ = ["NOISE", "PACKAGES", "Block", "blocks_of", "is_said", "rewrite_page"]

PACKAGES = {
    "": (),
    "extra": ("torch", "onnxscript"),
    "openvino": ("openvino",),
    "gpu": ("tensorrt",),
}
"""What blocks need."""

_BLOCK = re.compile(
    r"(?P<marks>(?:^<!-- (?:file: \S+|extra|gpu|openvino) -->\n+)*)^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
_COMMAND = re.compile(r"^\$ (?P<typed>.*(?:(?<=\\)\n.*)*)\n?(?P<printed>(?:(?!\$ ).*\n)*)", re.M)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\d)")
_MASKS = (
    (re.compile(r"\bCommand: \S*/polygraphy"), "Command: polygraphy"),
    (re.compile(r"\d+/\d+/\d+-\d+:\d+:\d+"), "DATE"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?"), "DATE"),
    (re.compile(r"\b\d+(\.\d+)+\.\w+"), "VERSION"),
    (re.compile(r"\b[\d,]+(\.\d+)?(e-?\d+)? ?(s|ms|us|min)\b"), "TIME"),
    (re.compile(r"(?<!\w)~?(/[\w.+-]+)+/"), "FOLDER/"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "HASH"),
    (re.compile(r"#+"), "#"),
    (re.compile(r"  by (abs|rel)\b"), ""),
    (re.compile(r"[-=]{3,}"), "---"),
    # The largest rounding error, and the elements that have it, depend on the CPU.
    (re.compile(r"(largest error: )\d+% of the tolerance \('\w+'\)"), r"\1SMALL"),
    (re.compile(r"(e-0[67] .*) \d/5\b(  \d of \d+)?$", re.M), r"\1 MATCHES"),
)
NUMBERS = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?|[ \t]+")
"""What differs between two runs of a command: numbers, and the spaces that align them."""
NOISE = re.compile(r"^(W\d{4} .*|.*Warning: .*\n  .*)\n", re.M)
"""What PyTorch says of itself."""
_SIGNIFICANT = 0.05
"""By how much numbers may differ, relatively."""
_ERROR = 10.0
"""How many times as large an error may be: rounding depends on the processor."""


@frozen
class Block:
    """A block of a page.

    Attributes:
        language: as the page says it.
        text: its lines.
        file: the name of the file that it is; None for one that is none.
        needs: a key of `PACKAGES`.
        line: of the page.
    """

    language: str
    text: str
    file: str | None
    needs: str
    line: int

    def commands(self) -> Iterator[tuple[str, str]]:
        """Yield each command of the block, and the output that the page shows."""
        for found in _COMMAND.finditer(self.text):
            yield found["typed"].replace("\\\n", ""), found["printed"]


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    blocks = []
    for found in _BLOCK.finditer(text):
        marks = re.findall(r"<!-- (\w+)(?:: (\S+))? -->", found["marks"])
        files = [value for name, value in marks if name == "file"]
        needs = "".join(name for name, _ in marks if name != "file")
        file = files[0] if files else None
        blocks.append(Block(found["language"], found["text"], file, needs, _line(text, found)))
    return blocks


def rewrite_page(page: Path, answers: Mapping[tuple[int, int], str]) -> None:
    """Write the output of commands into a page.

    Args:
        page: is changed.
        answers: what was printed, by the line of the block and the number of the command in it.
    """
    text = page.read_text(encoding="utf-8")

    def rewrite_block(block: re.Match[str]) -> str:
        """Return a block with the new output of its commands."""
        line = _line(text, block)
        numbers = count()

        def rewrite_command(found: re.Match[str]) -> str:
            """Return a command with its new output."""
            printed = answers.get((line, next(numbers)))
            return found[0] if printed is None else f"$ {found['typed']}\n{printed}"

        if block["language"] != "console":
            return block[0]
        start = block.start("text") - block.start()
        done = _COMMAND.sub(rewrite_command, block["text"])
        return block[0][:start] + done + block[0][start + len(block["text"]) :]

    page.write_text(_BLOCK.sub(rewrite_block, text), encoding="utf-8")


def _line(text: str, block: re.Match[str]) -> int:
    """Return the number of the line at which a block starts."""
    return text.count("\n", 0, block.start()) + 1


def is_said(said: str, printed: str) -> bool:
    """Return whether a printed text is the one of a page.

    Words must be equal, numbers close. Times and paths can differ.
    """
    expected, found = (_lines(text) for text in (said, printed))
    return _matches(expected, found)


def _matches(expected: list[str], found: list[str]) -> bool:
    """Return whether printed lines are the expected ones; `...` stands for any lines."""
    if not expected:
        return not found
    first, *rest = expected
    if first == "...":
        return any(_matches(rest, found[start:]) for start in range(len(found) + 1))
    return bool(found) and _is_line(first, found[0]) and _matches(rest, found[1:])


def _lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty, with variable parts masked."""
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line]


def _is_line(said: str, printed: str) -> bool:
    """Return whether two lines are equal, except for close numbers."""
    if _NUMBER.sub("0", said) != _NUMBER.sub("0", printed):
        return False
    pairs = zip(_NUMBER.finditer(said), _NUMBER.finditer(printed))
    return all(_is_number(one[0], other[0], said[one.end() :]) for one, other in pairs)


def _is_number(said: str, printed: str, after: str) -> bool:
    """Return whether two numbers are close, given the text after them."""
    one, other = (float(text.replace(",", "")) for text in (said, printed))
    if one == other:
        return True
    if {"e-" in said, "e-" in printed} == {True, False} and 0 in (one, other):
        return True
    if "e-" in said or after.lstrip().startswith(("%", "times")):
        # The number is an error, or a share of the tolerance.
        small, large = sorted((abs(one), abs(other)))
        return large <= _ERROR * small or large < 1e-6
    counted = said.lstrip("+-").isdigit() and printed.lstrip("+-").isdigit()
    return not counted and abs(one - other) <= _SIGNIFICANT * max(abs(one), abs(other))
