#!/usr/bin/env python3
"""Takes the README's picture of a terminal: runs its commands in one, and draws what they print.

    make pictures

The drawing is rich's, as SVG, in the colors of a light and of a dark page. It needs no font
and no other file.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

HERE = Path(__file__).parent
DIGITS = HERE.parents[1] / "examples" / "digits"
COLUMNS = 124

_LIVE = re.compile(
    r"\x1b\[\?25l.*?\x1b\[\?25h(\r?\x1b\[1A\x1b\[2K)?|(\r\x1b\[K[^\r\n]*)*\r\x1b\[2?K", re.DOTALL
)
"""A live line: the cursor is hidden until it is erased, or it is written over and over."""

FILES = {
    "good.onnx": "digits.onnx",
    "bad.onnx": "digits_changed.onnx",
    "in.json": "digits_inputs.json",
}
"""What the files of the picture are in examples/digits."""

BEFORE = "polygraphy run good.onnx --onnxrt --load-inputs in.json --save-outputs gold.json -qq"
SHOWN = (
    "polygraphy run bad.onnx --onnxrt --load-inputs in.json --load-outputs gold.json",
    "polygraphy diagnose bad.onnx --onnxrt --reference good.onnx",
)

THEMES = {
    "light": ("f6f8fa", "1f2328", "1f2328 b31d28 116329 854d0e 0969da 8250df 0e7490 6e7781"),
    "dark": ("0d1117", "e6edf3", "6e7681 ff7b72 56d364 e3b341 79c0ff d2a8ff 56d4dd e6edf3"),
}
"""Colors of the page, of text, and the eight of terminals: black, red, green, yellow, ..."""

_TEMPLATE = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, monospace
}}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> None:
    """Write `terminal-light.svg` and `terminal-dark.svg` beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        pieces = [f"$ {command}\n{printed(command, Path(folder))}" for command in SHOWN]
    for name, (background, foreground, colors) in THEMES.items():
        eight = [rgb(color) for color in colors.split()]
        theme = TerminalTheme(rgb(background), rgb(foreground), eight)
        drawn = picture("\n".join(pieces), theme)
        (HERE / f"terminal-{name}.svg").write_text(drawn, encoding="utf-8")


def rgb(color: str) -> tuple[int, int, int]:
    """Return the parts of a color, 0 to 255."""
    red, green, blue = bytes.fromhex(color)
    return red, green, blue


def prepare(folder: Path) -> None:
    """Put the files of the picture into a folder."""
    for name, source in FILES.items():
        shutil.copy(DIGITS / source, folder / name)
    subprocess.run(BEFORE.split(), cwd=folder, check=True)


def printed(command: str, folder: Path) -> str:
    """Return what a command prints on a terminal, with its colors; the folder is its home."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        command.split(), cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:  # The last process that had the terminal has closed it.
        pass
    os.close(ours)
    process.wait()
    text = _LIVE.sub("", b"".join(pieces).decode()).replace("\r\n", "\n")
    text = text.replace(str(shutil.which("polygraphy")), "polygraphy")
    return text.replace(str(folder.resolve()), "~")


def picture(text: str, theme: TerminalTheme) -> str:
    """Return colored text as SVG.

    Raises:
        ValueError: the text moves the cursor, or has lines that the picture is too narrow for.
    """
    lines = Text.from_ansi(text)
    if "\r" in text or max(len(line) for line in lines.plain.splitlines()) > COLUMNS:
        raise ValueError(f"this is not a text of {COLUMNS} columns:\n{text}")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(lines, highlight=False)
    return console.export_svg(
        title="", theme=theme, code_format=_TEMPLATE, unique_id="t", font_aspect_ratio=0.6
    )


if __name__ == "__main__":
    main()
