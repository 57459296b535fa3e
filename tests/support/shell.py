"""The words that a shell reads in a printed command line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HOSTILE = [
    "a  b.onnx", "x --rtol 3.onnx", "-m.onnx", "a\nb.onnx", "it's \"m\".onnx", "$(touch x).onnx",
    "`id`\\.onnx", "a=b;c&d|e.onnx", "~m*?.onnx", "modèle 模型.onnx", "\x1b[1m.onnx",
]  # fmt: skip
"""File names that a shell, an option parser or a terminal may misread."""


def words_in_shell(
    line: str, folder: str | os.PathLike[str], program: str = "polygraphy"
) -> list[str]:
    """Return the words that a program gets if a command line is pasted into a shell."""
    done = subprocess.run(
        ["sh", "-c", f"{program}() {{ printf '%s\\0' \"$@\"; }}; {line}"],
        cwd=Path(folder),
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.split("\0")[:-1]
